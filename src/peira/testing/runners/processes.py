"""Processes: their deaths, and what they started."""

from __future__ import annotations

import psutil
import pytest

from peira.core.contracts import Runner
from peira.core.ids import Json
from peira.errors import ProcessDied
from peira.testing.desk import Left, ScriptedDesk
from peira.testing.held import HeldReplies
from peira.testing.runners.bench import Bench


class Processes(Bench):
    @pytest.mark.usefixtures("killing")
    def test_a_process_that_dies_leaves_its_calls_behind(self, runner: Runner) -> None:
        model, later = HeldReplies(), self.attempt("later", ["ask", "b"])
        dies = self.attempt("dies", ["leave", "a"], ["kill"])
        desk = ScriptedDesk([dies, later], replies=model)
        with self.at_work(runner, desk):
            [died] = desk.wait_ended(dies)
            model.wait_asked("a", "b")
            for question in "ab":
                model.answer(question, f"answer to {question}")
            assert desk.wait_ended(later) == [Left("answer to b", None)]
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
        desk = ScriptedDesk([dies, later])
        with self.at_work(runner, desk):
            died, returned = desk.wait_ended(dies, later)
        assert isinstance(died.failure, ProcessDied)
        assert death in str(died.failure)
        assert returned == Left("next", None)

    @pytest.mark.usefixtures("killing")
    def test_what_an_attempt_started_ends_with_it(self, runner: Runner) -> None:
        starts = self.attempt("starts", ["spawn"])
        stuck = self.attempt("starts and hangs", ["spawn"], ["log", "started", True], ["hang"])
        desk = ScriptedDesk([starts, stuck])
        with self.at_work(runner, desk):
            [started] = desk.wait_ended(starts)
            desk.wait_said(stuck)
            assert isinstance(started.value, int)
            assert not _alive(started.value)
            left = _started_by_children()
            assert left
            desk.abandon(stuck, runner)
            assert not any(map(_alive, left))


def _started_by_children() -> list[int]:
    """The pids of all processes below this one that are not its own children."""
    me = psutil.Process()
    return [p.pid for p in me.children(recursive=True) if p.ppid() != me.pid]


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
