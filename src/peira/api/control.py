"""Stopping a run from anywhere: through its owner if that lives, else by taking the store oneself."""

from __future__ import annotations

import time
from dataclasses import dataclass

from peira.api.follow import Follower
from peira.api.look import Opened
from peira.api.stores import StoreLike, owned, reading
from peira.core.contracts import Op
from peira.core.events import CommandTaken, RunFinished, Status
from peira.core.state import Run
from peira.engine.control import CANCEL, Command, ControlFolder, who
from peira.engine.progress import LEFT
from peira.engine.stopping import Stop
from peira.engine.work import GENERATE, STAGES
from peira.errors import StoreInUse
from peira.spec.project import Project

UNFINISHED = (Status.planned, Status.running, Status.interrupted)
PATIENCE = 60.0
POLL = 0.05


@dataclass(frozen=True)
class Cancelled:
    """What a cancellation stopped. `done` is False if the run had ended before it came; `alive` says whether
    a process was still running it."""

    run: Run
    done: bool
    alive: bool = False

    @property
    def running(self) -> int:
        """Trials and scores that were under way and were ended."""
        return sum(self.run.counts.get(f"{kind}.cancelled", 0) for kind in STAGES)

    @property
    def unstarted(self) -> int:
        """Trials that never started, or were cut off before they could finish."""
        return self.run.counts.get(f"{GENERATE}.{LEFT}", 0)


def cancel(run: str = "", store: StoreLike = None) -> Cancelled:
    """Stop a run (by default the newest) now, its running trials too; returns once it has ended.

    StoreInUse, if its own process is gone and another one uses the store, or if its process does not answer.
    """
    opened = Opened(store)
    found = opened.run(run)
    if found.status not in UNFINISHED:
        return Cancelled(found, done=False)
    if found.status is not Status.interrupted:
        _ask(store, found)
        found = _ended(store, found)
    if alive := found.status is not Status.interrupted:
        return Cancelled(found, found.status is Status.cancelled, alive)
    _close(store, found)
    return Cancelled(opened.run(found.id), done=True)


def _ask(store: StoreLike, run: Run) -> None:
    with reading(store, Project.find()) as opened:
        ControlFolder(opened.control_path).send(Command(CANCEL, run.id, who()))


def _ended(store: StoreLike, run: Run) -> Run:
    """The run once it is over: as its owner closed it, or interrupted if its owner died over it."""
    opened, deadline = Opened(store), time.monotonic() + PATIENCE
    while (now := opened.run(run.id)).status in (Status.planned, Status.running):
        if time.monotonic() > deadline:
            raise StoreInUse(
                f"run {run.id[:12]} was asked to stop and does not answer; its process still uses the store"
            )
        time.sleep(POLL)
    return now


def _close(store: StoreLike, run: Run) -> None:
    """Nobody is running it any more: write its end ourselves."""
    project = Project.find()
    with owned(store, project) as ours:
        command = Command(CANCEL, run.id, who())
        end = RunFinished(
            Status.cancelled, Follower(store, run.id).counts(), Stop.cancelled(command.by).reason
        )
        taken = CommandTaken(command.command, command.id, command.by)
        ours.commit([Op(run.id, (taken,)), Op(run.id, (end,))]).result()
