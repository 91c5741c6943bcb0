"""The conformance suite of runners, tested through a scripted desk."""

from __future__ import annotations

import random
import threading

import psutil

from peira.core.contracts import Runner
from peira.core.ids import seed_of
from peira.testing.fakes import Left, ScriptedDesk
from peira.testing.runners.checks import ProcessChecks, RunnerCallChecks

__all__ = ["RunnerSuite"]


class RunnerSuite(RunnerCallChecks, ProcessChecks):
    """Override the fixture `runner` with a runner that was not started.

    A runner that loads agents by name finds this suite's at `peira/testing/script.py`, under the label
    "scripted": the function `scripted`, or `scripted_async` if the runner is declared `asynchronous`.
    """

    def test_every_attempt_is_performed_once(self, runner: Runner) -> None:
        attempts = self.returning(40)
        desk = ScriptedDesk(attempts)
        with self.at_work(runner, desk, workers=2):
            desk.wait_ended(*attempts)
        assert [desk.ended[a.key] for a in attempts] == [[Left(i, None)] for i in range(40)]

    def test_an_exception_is_how_its_attempt_ended_and_no_more(self, runner: Runner) -> None:
        bad, good = self.attempt("raises", ["raise", "no such thing"]), self.attempt("returns", ["return", 7])
        desk = ScriptedDesk([bad, good])
        with self.at_work(runner, desk):
            raised, returned = desk.wait_ended(bad, good)
        assert type(raised.failure).__name__ == "ValueError"
        assert str(raised.failure) == "no such thing"
        assert raised.value is None
        assert returned == Left(7, None)

    def test_what_may_not_begin_is_not_performed(self, runner: Runner) -> None:
        attempts = self.returning(6)
        desk = ScriptedDesk(attempts, refused=attempts[1:5])
        with self.at_work(runner, desk):
            desk.wait_ended(attempts[0], attempts[5])
        assert desk.turned_away == attempts[1:5]
        assert desk.ended.keys() == {attempts[0].key, attempts[5].key}

    def test_workers_work_at_the_same_time(self, runner: Runner) -> None:
        attempts = [self.attempt(f"hangs {i}", ["hang"]) for i in range(3)]
        desk = ScriptedDesk()
        with self.at_work(runner, desk, workers=3):
            for attempt in attempts:  # one by one, else the first worker may take them all
                desk.offer(attempt)
                desk.wait_begun(attempt)
        assert desk.ended == {}

    def test_abandoning_an_attempt_frees_its_worker(self, runner: Runner) -> None:
        stuck, later = self.attempt("hangs", ["hang"]), self.attempt("returns", ["return", "free"])
        desk = ScriptedDesk([stuck])
        with self.at_work(runner, desk):
            desk.wait_begun(stuck)
            desk.abandon(stuck, runner)
            desk.offer(later)
            assert desk.wait_ended(later) == [Left("free", None)]

    def test_an_abandoned_attempt_is_made_to_end(self, runner: Runner) -> None:
        """Where that is possible: here it waits for something, and its channel is closed."""
        stuck = self.attempt("hangs", ["hang"])
        desk = ScriptedDesk([stuck])
        with self.at_work(runner, desk):
            desk.wait_begun(stuck)
            desk.abandon(stuck, runner)
            desk.wait_late(stuck)
        assert desk.ended == {}

    def test_what_was_taken_with_an_abandoned_attempt_is_not_lost(self, runner: Runner) -> None:
        stuck, others = self.attempt("hangs", ["hang"]), self.returning(5)
        desk = ScriptedDesk([stuck, *others])
        with self.at_work(runner, desk):
            desk.wait_begun(stuck)
            desk.abandon(stuck, runner)
            desk.wait_ended(*others)
        assert [desk.ended[a.key] for a in others] == [[Left(i, None)] for i in range(5)]

    def test_abandoning_what_has_ended_harms_nobody(self, runner: Runner) -> None:
        first, second = self.returning(2)
        desk = ScriptedDesk([first])
        with self.at_work(runner, desk):
            desk.wait_ended(first)
            desk.abandon(first, runner)
            desk.offer(second)
            assert desk.wait_ended(second) == [Left(1, None)]

    def test_work_may_come_later(self, runner: Runner) -> None:
        desk = ScriptedDesk()
        with self.at_work(runner, desk, workers=2):
            for attempt in self.returning(4):
                desk.offer(attempt)
                desk.wait_ended(attempt)

    def test_stopping_ends_every_worker(self, runner: Runner) -> None:
        threads, processes = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
        attempts = self.returning(5)
        desk = ScriptedDesk(attempts)
        with self.at_work(runner, desk, workers=3):
            desk.wait_ended(*attempts)
        assert set(threading.enumerate()) <= threads
        assert set(psutil.Process().children(recursive=True)) <= processes

    def test_stopping_without_work_ends_every_worker(self, runner: Runner) -> None:
        threads = set(threading.enumerate())
        with self.at_work(runner, ScriptedDesk(), workers=2):
            pass
        assert set(threading.enumerate()) <= threads

    def test_an_attempt_speaks_through_its_channel(self, runner: Runner) -> None:
        acts = [
            ["log", "found", [1, "two"]],
            ["report", "tokens", 12],
            ["attach", "notes.txt", "some notes"],
            ["step", "search", {"hits": 3}],
        ]
        attempt = self.attempt("speaks", *acts)
        desk = ScriptedDesk([attempt])
        with self.at_work(runner, desk):
            assert desk.wait_ended(attempt) == [Left({"hits": 3}, None)]
        channel = desk.begun[attempt.key]
        assert channel.observed == [("found", {"value": [1, "two"]})]
        assert channel.metrics == {"tokens": 12.0}
        assert channel.attached == {"notes.txt": b"some notes"}
        assert list(channel.steps.values()) == [b'{"hits":3}']

    def test_an_attempt_has_a_private_folder(self, runner: Runner) -> None:
        attempt = self.attempt("writes", ["write", "kept for a while"])
        desk = ScriptedDesk([attempt])
        with self.at_work(runner, desk):
            assert desk.wait_ended(attempt) == [Left("kept for a while", None)]

    def test_an_attempt_knows_its_trial_and_draws_its_own_numbers(self, runner: Runner) -> None:
        who, draws = self.attempt("who", ["trial"]), self.attempt("draws", ["random"])
        desk = ScriptedDesk([who, draws])
        with self.at_work(runner, desk):
            known, drawn = desk.wait_ended(who, draws)
        assert known.value == [who.spec.id, "who", 1]
        assert drawn.value == random.Random(seed_of(draws.spec.id)).random()
