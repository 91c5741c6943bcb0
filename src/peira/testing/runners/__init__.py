"""The conformance suite of runners, tested through a scripted queue."""

from __future__ import annotations

import random
import threading

import psutil

from peira.core.contracts import Runner
from peira.core.ids import seed_of
from peira.testing.fakes import AttemptEnd, ScriptedQueue
from peira.testing.runners.checks import ProcessChecks, RunnerCallChecks

__all__ = ["RunnerSuite"]


class RunnerSuite(RunnerCallChecks, ProcessChecks):
    """Override the fixture `runner` with a runner that was not started.

    A runner that loads agents by name finds this suite's at `peira/testing/script.py`, under the label
    "scripted": the function `scripted`, or `scripted_async` if the runner is declared `asynchronous`.
    """

    def test_every_attempt_is_performed_once(self, runner: Runner) -> None:
        attempts = self.returning(40)
        queue = ScriptedQueue(attempts)
        with self.at_work(runner, queue, workers=2):
            queue.wait_ended(*attempts)
        assert [queue.ended[a.key] for a in attempts] == [[AttemptEnd(i, None)] for i in range(40)]

    def test_an_exception_is_how_its_attempt_ended_and_no_more(self, runner: Runner) -> None:
        bad, good = self.attempt("raises", ["raise", "no such thing"]), self.attempt("returns", ["return", 7])
        queue = ScriptedQueue([bad, good])
        with self.at_work(runner, queue):
            raised, returned = queue.wait_ended(bad, good)
        assert type(raised.failure).__name__ == "ValueError"
        assert str(raised.failure) == "no such thing"
        assert raised.value is None
        assert returned == AttemptEnd(7, None)

    def test_what_may_not_begin_is_not_performed(self, runner: Runner) -> None:
        attempts = self.returning(6)
        queue = ScriptedQueue(attempts, refused=attempts[1:5])
        with self.at_work(runner, queue):
            queue.wait_ended(attempts[0], attempts[5])
        assert queue.turned_away == attempts[1:5]
        assert queue.ended.keys() == {attempts[0].key, attempts[5].key}

    def test_workers_work_at_the_same_time(self, runner: Runner) -> None:
        attempts = [self.attempt(f"hangs {i}", ["hang"]) for i in range(3)]
        queue = ScriptedQueue()
        with self.at_work(runner, queue, workers=3):
            for attempt in attempts:  # one by one, else the first worker may take them all
                queue.offer(attempt)
                queue.wait_begun(attempt)
        assert queue.ended == {}

    def test_abandoning_an_attempt_frees_its_worker(self, runner: Runner) -> None:
        stuck, later = self.attempt("hangs", ["hang"]), self.attempt("returns", ["return", "free"])
        queue = ScriptedQueue([stuck])
        with self.at_work(runner, queue):
            queue.wait_begun(stuck)
            queue.abandon(stuck, runner)
            queue.offer(later)
            assert queue.wait_ended(later) == [AttemptEnd("free", None)]

    def test_an_abandoned_attempt_is_made_to_end(self, runner: Runner) -> None:
        """Where that is possible: here it waits for something, and its channel is closed."""
        stuck = self.attempt("hangs", ["hang"])
        queue = ScriptedQueue([stuck])
        with self.at_work(runner, queue):
            queue.wait_begun(stuck)
            queue.abandon(stuck, runner)
            queue.wait_late(stuck)
        assert queue.ended == {}

    def test_what_was_taken_with_an_abandoned_attempt_is_not_lost(self, runner: Runner) -> None:
        stuck, others = self.attempt("hangs", ["hang"]), self.returning(5)
        queue = ScriptedQueue([stuck, *others])
        with self.at_work(runner, queue):
            queue.wait_begun(stuck)
            queue.abandon(stuck, runner)
            queue.wait_ended(*others)
        assert [queue.ended[a.key] for a in others] == [[AttemptEnd(i, None)] for i in range(5)]

    def test_abandoning_what_has_ended_harms_nobody(self, runner: Runner) -> None:
        first, second = self.returning(2)
        queue = ScriptedQueue([first])
        with self.at_work(runner, queue):
            queue.wait_ended(first)
            queue.abandon(first, runner)
            queue.offer(second)
            assert queue.wait_ended(second) == [AttemptEnd(1, None)]

    def test_work_may_come_later(self, runner: Runner) -> None:
        queue = ScriptedQueue()
        with self.at_work(runner, queue, workers=2):
            for attempt in self.returning(4):
                queue.offer(attempt)
                queue.wait_ended(attempt)

    def test_stopping_ends_every_worker(self, runner: Runner) -> None:
        threads, processes = set(threading.enumerate()), set(psutil.Process().children(recursive=True))
        attempts = self.returning(5)
        queue = ScriptedQueue(attempts)
        with self.at_work(runner, queue, workers=3):
            queue.wait_ended(*attempts)
        assert set(threading.enumerate()) <= threads
        assert set(psutil.Process().children(recursive=True)) <= processes

    def test_stopping_without_work_ends_every_worker(self, runner: Runner) -> None:
        threads = set(threading.enumerate())
        with self.at_work(runner, ScriptedQueue(), workers=2):
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
        queue = ScriptedQueue([attempt])
        with self.at_work(runner, queue):
            assert queue.wait_ended(attempt) == [AttemptEnd({"hits": 3}, None)]
        channel = queue.begun[attempt.key]
        assert channel.observed == [("found", {"value": [1, "two"]})]
        assert channel.metrics == {"tokens": 12.0}
        assert channel.attached == {"notes.txt": b"some notes"}
        assert list(channel.steps.values()) == [b'{"hits":3}']

    def test_an_attempt_has_a_private_folder(self, runner: Runner) -> None:
        attempt = self.attempt("writes", ["write", "kept for a while"])
        queue = ScriptedQueue([attempt])
        with self.at_work(runner, queue):
            assert queue.wait_ended(attempt) == [AttemptEnd("kept for a while", None)]

    def test_an_attempt_knows_its_trial_and_draws_its_own_numbers(self, runner: Runner) -> None:
        who, draws = self.attempt("who", ["trial"]), self.attempt("draws", ["random"])
        queue = ScriptedQueue([who, draws])
        with self.at_work(runner, queue):
            known, drawn = queue.wait_ended(who, draws)
        assert known.value == [who.spec.id, "who", 1]
        assert drawn.value == random.Random(seed_of(draws.spec.id)).random()
