"""The parts of the runner suite: model calls, child processes, and the helpers they share."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from itertools import count

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Attempt, GrowingRunner, Runner
from peira.core.ids import Json
from peira.core.models import Reply, Request
from peira.errors import CallFailed, InDoubt, ProcessDied
from peira.models.providers.scripted import last_text
from peira.testing.fakes import AttemptEnd, HeldReplies, ScriptedQueue
from peira.testing.script import scripted_attempt


class RunnerChecks:
    """Declarations and helpers of the runner suite."""

    asynchronous = False
    """Whether it executes work that is awaited."""
    kills = False
    """Whether it can kill an attempt's process, with everything that process started."""

    @pytest.fixture
    def runner(self) -> Runner:
        """The runner under test, not started."""
        raise NotImplementedError("override the fixture `runner`")

    @pytest.fixture
    def killing(self) -> None:
        """Skip the test if the runner cannot kill attempts."""
        if not self.kills:
            pytest.skip("its attempts have no process of their own")

    def attempt(self, name: str, *acts: Json) -> Attempt:
        """An attempt at a script of these acts."""
        return scripted_attempt(name, *acts, asynchronous=self.asynchronous)

    def returning(self, count: int) -> list[Attempt]:
        """Attempts that return their numbers."""
        return [self.attempt(f"returns {i}", ["return", i]) for i in range(count)]

    @contextmanager
    def at_work(self, runner: Runner, queue: ScriptedQueue, workers: int = 1) -> Iterator[None]:
        """Start the runner, let it grow as the engine does, and stop it with what is left abandoned."""
        runner.start(queue, workers)
        over = threading.Event()
        pulse = threading.Thread(target=_grow, args=(runner, over), daemon=True)
        pulse.start()
        try:
            yield
        finally:
            over.set()
            pulse.join()
            queue.close()
            queue.abandon_all(runner)
            runner.stop()


def _grow(runner: Runner, over: threading.Event) -> None:
    """Call `grow` of a runner that has it, until it is over."""
    while isinstance(runner, GrowingRunner) and not over.wait(0.02):
        runner.grow()


waits = st.sampled_from([0, 0, 1, 2, 5, 10])
"""The delay of an answer, in milliseconds."""


class RunnerCallChecks(RunnerChecks):
    """Checks of model calls that attempts make."""

    def test_calls_of_one_attempt_are_made_at_the_same_time(self, runner: Runner) -> None:
        """No call is answered before all are made, and the last one is answered first."""
        questions, model = [f"question {i}" for i in range(12)], HeldReplies()
        attempt = self.attempt("asks", ["together", *([["ask", question]] for question in questions)])
        queue = ScriptedQueue([attempt], replies=model)
        with self.at_work(runner, queue):
            model.wait_asked(*questions)
            for question in reversed(questions):
                model.answer(question, f"answer to {question}")
            [left] = queue.wait_ended(attempt)
        assert left == AttemptEnd([[f"answer to {question}"] for question in questions], None)

    def test_a_call_that_fails_is_no_others_failure(self, runner: Runner) -> None:
        model = HeldReplies()
        attempt = self.attempt("asks", ["together", *([["ask", question]] for question in "abc")])
        queue = ScriptedQueue([attempt], replies=model)
        with self.at_work(runner, queue):
            model.wait_asked("a", "b", "c")
            model.answer("b", CallFailed("no such model"))
            model.answer("c", InDoubt("who knows"))
            model.answer("a", "fine")
            [left] = queue.wait_ended(attempt)
        assert left == AttemptEnd([["fine"], ["CallFailed: no such model"], ["InDoubt: who knows"]], None)

    def test_who_waits_for_a_model_stops_nobody(self, runner: Runner) -> None:
        """The answer comes only after the other branch has logged, recorded and attached everything."""
        model = HeldReplies()
        speaks = [["step", "search", 3], ["report", "hits", 3], ["attach", "a.txt", "a"], ["log", "done", 1]]
        attempt = self.attempt("asks and speaks", ["together", [["ask", "slow"]], speaks])
        queue = ScriptedQueue([attempt], replies=model)
        with self.at_work(runner, queue):
            model.wait_asked("slow")
            queue.wait_said(attempt)
            model.answer("slow", "at last")
            [left] = queue.wait_ended(attempt)
        said = queue.begun[attempt.key]
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
        queue = ScriptedQueue([stuck], replies=model)
        with self.at_work(runner, queue):
            model.wait_asked("a", "b")
            queue.abandon(stuck, runner)
            queue.wait_late(stuck)
            queue.offer(later)
            model.wait_asked("c")
            for question in "abc":  # late answers must not reach another attempt
                model.answer(question, f"answer to {question}")
            assert queue.wait_ended(later) == [AttemptEnd("answer to c", None)]

    def test_an_answer_that_nobody_waited_for_is_not_the_next_attempts(self, runner: Runner) -> None:
        model = HeldReplies()
        leaves, next_one = self.attempt("leaves", ["leave", "a"]), self.attempt("asks", ["ask", "b"])
        queue = ScriptedQueue([leaves, next_one], replies=model)
        with self.at_work(runner, queue):
            queue.wait_ended(leaves)
            model.wait_asked("a", "b")
            for question in "ab":
                model.answer(question, f"answer to {question}")
            assert queue.wait_ended(next_one) == [AttemptEnd("answer to b", None)]

    def test_many_calls_in_any_order_each_get_their_own_answer(self, runner: Runner) -> None:
        """Attempt after attempt, each with several branches that ask one question after another."""
        with ThreadPoolExecutor(32) as threads:
            queue, names = ScriptedQueue(replies=lambda request: threads.submit(_late, request)), count()

            @given(st.lists(st.lists(waits, max_size=4), min_size=1, max_size=12))
            def each_gets_its_own(branches: list[list[int]]) -> None:
                name = f"attempt {next(names)}"
                asked = [_questions(f"{name}, {i}", branch) for i, branch in enumerate(branches)]
                attempt = self.attempt(name, ["together", *([["ask", q] for q in one] for one in asked)])
                queue.offer(attempt)
                assert queue.wait_ended(attempt) == [
                    AttemptEnd([[f"yes, {q}" for q in one] for one in asked], None)
                ]

            with self.at_work(runner, queue):
                each_gets_its_own()


def _questions(about: str, branch: list[int]) -> list[str]:
    """The questions of a branch, each with the delay of its answer."""
    return [f"{about}, {nth}: {milliseconds}" for nth, milliseconds in enumerate(branch)]


def _late(request: Request) -> Reply:
    """The reply to a question, after its delay."""
    question = last_text(request)
    time.sleep(int(question.rpartition(" ")[2]) / 1000)
    return Reply(f"yes, {question}")


class ProcessChecks(RunnerChecks):
    """Checks of runners that execute attempts in processes."""

    @pytest.mark.usefixtures("killing")
    def test_a_process_that_dies_leaves_its_calls_behind(self, runner: Runner) -> None:
        model, later = HeldReplies(), self.attempt("later", ["ask", "b"])
        dies = self.attempt("dies", ["leave", "a"], ["kill"])
        queue = ScriptedQueue([dies, later], replies=model)
        with self.at_work(runner, queue):
            [died] = queue.wait_ended(dies)
            model.wait_asked("a", "b")
            for question in "ab":
                model.answer(question, f"answer to {question}")
            assert queue.wait_ended(later) == [AttemptEnd("answer to b", None)]
        assert isinstance(died.failure, ProcessDied)

    @pytest.mark.usefixtures("killing")
    @pytest.mark.parametrize(
        ("act", "death"),
        [(["exit", 3], "ended with exit code 3"), (["kill"], "was killed by signal 9")],
        ids=["exits", "killed"],
    )
    def test_the_death_of_a_process_is_how_its_attempt_ended(
        self, runner: Runner, act: Json, death: str
    ) -> None:
        dies, later = self.attempt("dies", act), self.attempt("returns", ["return", "next"])
        queue = ScriptedQueue([dies, later])
        with self.at_work(runner, queue):
            died, returned = queue.wait_ended(dies, later)
        assert isinstance(died.failure, ProcessDied)
        assert death in str(died.failure)
        assert returned == AttemptEnd("next", None)

    @pytest.mark.usefixtures("killing")
    def test_what_an_attempt_started_ends_with_it(self, runner: Runner) -> None:
        starts = self.attempt("starts", ["spawn"])
        stuck = self.attempt("starts and hangs", ["spawn"], ["hang"])
        queue = ScriptedQueue([starts, stuck])
        with self.at_work(runner, queue):
            [started] = queue.wait_ended(starts)
            queue.wait_said(stuck)
            assert isinstance(started.value, int)
            assert not _alive(started.value)
            [(_, about)] = queue.begun[stuck.key].observed
            assert isinstance(about, dict)
            assert _alive(about["pid"])
            queue.abandon(stuck, runner)
            assert not _alive(about["pid"])


def _alive(pid: int) -> bool:
    """Whether the process exists and is no zombie."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
