"""Calls of models: those of one attempt are made at the same time, and each gets its own answer."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Runner
from peira.core.models import CallFailed, Reply, Request
from peira.errors import InDoubt
from peira.models.scripted import last_text
from peira.testing.desk import Left, ScriptedDesk
from peira.testing.held import HeldReplies
from peira.testing.runners.bench import Bench

waits = st.sampled_from([0, 0, 1, 2, 5, 10])
"""Of an answer, in milliseconds."""


class Calls(Bench):
    def test_calls_of_one_attempt_are_made_at_the_same_time(self, runner: Runner) -> None:
        """Nobody is answered before all have asked, and who asked last is answered first."""
        questions, model = [f"question {i}" for i in range(12)], HeldReplies()
        attempt = self.attempt("asks", ["together", *([["ask", question]] for question in questions)])
        desk = ScriptedDesk([attempt], replies=model)
        with self.at_work(runner, desk):
            model.wait_asked(*questions)
            for question in reversed(questions):
                model.answer(question, f"answer to {question}")
            [left] = desk.wait_ended(attempt)
        assert left == Left([[f"answer to {question}"] for question in questions], None)

    def test_a_call_that_fails_is_no_others_failure(self, runner: Runner) -> None:
        model = HeldReplies()
        attempt = self.attempt("asks", ["together", *([["ask", question]] for question in "abc")])
        desk = ScriptedDesk([attempt], replies=model)
        with self.at_work(runner, desk):
            model.wait_asked("a", "b", "c")
            model.answer("b", CallFailed("no such model"))
            model.answer("c", InDoubt("who knows"))
            model.answer("a", "fine")
            [left] = desk.wait_ended(attempt)
        assert left == Left([["fine"], ["CallFailed: no such model"], ["InDoubt: who knows"]], None)

    def test_who_waits_for_a_model_stops_nobody(self, runner: Runner) -> None:
        """The answer comes only after the others have said, recorded and kept what they had to."""
        model = HeldReplies()
        speaks = [["step", "search", 3], ["report", "hits", 3], ["attach", "a.txt", "a"], ["log", "done", 1]]
        attempt = self.attempt("asks and speaks", ["together", [["ask", "slow"]], speaks])
        desk = ScriptedDesk([attempt], replies=model)
        with self.at_work(runner, desk):
            model.wait_asked("slow")
            desk.wait_said(attempt)
            model.answer("slow", "at last")
            [left] = desk.wait_ended(attempt)
        said = desk.begun[attempt.key]
        assert isinstance(left.value, list)
        assert left.value[0] == ["at last"]
        assert (list(said.steps.values()), said.metrics, said.attached) == (
            [b"3"],
            {"hits": 3},
            {"a.txt": b"a"},
        )

    def test_an_abandoned_attempt_waits_for_no_model(self, runner: Runner) -> None:
        model, later = HeldReplies(), self.attempt("later", ["ask", "c"])
        stuck = self.attempt("asks", ["together", [["ask", "a"]], [["ask", "b"]]])
        desk = ScriptedDesk([stuck], replies=model)
        with self.at_work(runner, desk):
            model.wait_asked("a", "b")
            desk.abandon(stuck, runner)
            desk.wait_late(stuck)
            desk.offer(later)
            model.wait_asked("c")
            for question in "abc":  # those that come too late are nobody's
                model.answer(question, f"answer to {question}")
            assert desk.wait_ended(later) == [Left("answer to c", None)]

    def test_an_answer_that_nobody_waited_for_is_not_the_next_attempts(self, runner: Runner) -> None:
        model = HeldReplies()
        leaves, next_one = self.attempt("leaves", ["leave", "a"]), self.attempt("asks", ["ask", "b"])
        desk = ScriptedDesk([leaves, next_one], replies=model)
        with self.at_work(runner, desk):
            desk.wait_ended(leaves)
            model.wait_asked("a", "b")
            for question in "ab":
                model.answer(question, f"answer to {question}")
            assert desk.wait_ended(next_one) == [Left("answer to b", None)]

    def test_many_calls_in_any_order_each_get_their_own_answer(self, runner: Runner) -> None:
        """Attempt after attempt, each with several branches that ask one question after another."""
        with ThreadPoolExecutor(32) as threads:
            desk, names = ScriptedDesk(replies=lambda request: threads.submit(_late, request)), count()

            @given(st.lists(st.lists(waits, max_size=4), min_size=1, max_size=12))
            def each_gets_its_own(branches: list[list[int]]) -> None:
                name = f"attempt {next(names)}"
                asked = [_questions(f"{name}, {i}", branch) for i, branch in enumerate(branches)]
                attempt = self.attempt(name, ["together", *([["ask", q] for q in one] for one in asked)])
                desk.offer(attempt)
                assert desk.wait_ended(attempt) == [Left([[f"yes, {q}" for q in one] for one in asked], None)]

            with self.at_work(runner, desk):
                each_gets_its_own()


def _questions(about: str, branch: list[int]) -> list[str]:
    return [f"{about}, {nth}: {milliseconds}" for nth, milliseconds in enumerate(branch)]


def _late(request: Request) -> Reply:
    question = last_text(request)
    time.sleep(int(question.rpartition(" ")[2]) / 1000)
    return Reply(f"yes, {question}")
