"""Cancel a run: by a command to its owner if that is alive, otherwise by taking the store over."""

from __future__ import annotations

import time
from dataclasses import dataclass

from peira.app.session import Session, SessionLike
from peira.app.store.follower import Follower
from peira.app.store.view import Opened
from peira.core.contracts import Op
from peira.core.log.events import CommandTaken, RunFinished, Status
from peira.core.log.state import Run
from peira.engine.control import CANCEL, Command, ControlFolder, StopRequest, requester
from peira.engine.progress import LEFT
from peira.engine.stages import GENERATE, STAGES
from peira.errors import StoreInUse

UNFINISHED = (Status.planned, Status.running, Status.interrupted)
PATIENCE = 60.0
"""Seconds to wait for the owner to end its run."""
POLL = 0.05


@dataclass(frozen=True)
class Cancellation:
    """The outcome of a cancellation.

    `done` is False if the run had ended before; `alive`: a process was still running it.
    """

    run: Run
    done: bool
    alive: bool = False

    @property
    def running(self) -> int:
        """The number of trials and scores that were under way and were cancelled."""
        return sum(self.run.counts.get(f"{kind}.cancelled", 0) for kind in STAGES)

    @property
    def unstarted(self) -> int:
        """The number of trials without a result: never started, or cut off."""
        return self.run.counts.get(f"{GENERATE}.{LEFT}", 0)


def cancel(run: str = "", store: SessionLike = None) -> Cancellation:
    """Stop a run (by default the newest) now, with its running trials; returns once it has ended.

    Raises StoreInUse if its process does not answer, or if its process is gone and another one uses the
    store.
    """
    session = Session.find(store)
    opened = Opened(session)
    found = opened.run(run)
    if found.status not in UNFINISHED:
        return Cancellation(found, done=False)
    if found.status is not Status.interrupted:
        _send_cancel(session, found)
        found = _wait_until_ended(opened, found)
    if alive := found.status is not Status.interrupted:
        return Cancellation(found, found.status is Status.cancelled, alive)
    _end_dead_run(session, found)
    return Cancellation(opened.run(found.id), done=True)


def _send_cancel(session: Session, run: Run) -> None:
    """Send the cancel command to the process that owns the store."""
    with session.reading() as opened:
        folder = opened.folder("control")
    if folder is None:
        raise StoreInUse(f"run {run.id[:12]} cannot be reached: its store takes no commands")
    ControlFolder(folder).send(Command(CANCEL, run.id, requester()))


def _wait_until_ended(opened: Opened, run: Run) -> Run:
    """Wait until the run is over: ended by its owner, or interrupted because its owner died."""
    deadline = time.monotonic() + PATIENCE
    while (now := opened.run(run.id)).status in (Status.planned, Status.running):
        if time.monotonic() > deadline:
            raise StoreInUse(
                f"run {run.id[:12]} was asked to stop and does not answer; its process still uses the store"
            )
        time.sleep(POLL)
    return now


def _end_dead_run(session: Session, run: Run) -> None:
    """Record the end of a run whose process is gone."""
    with session.owned() as ours:
        command = Command(CANCEL, run.id, requester())
        end_event = RunFinished(
            Status.cancelled, Follower(session, run.id).counts(), StopRequest.cancelled(command.by).reason
        )
        command_event = CommandTaken(command.command, command.id, command.by)
        ours.commit([Op(run.id, (command_event,)), Op(run.id, (end_event,))]).result()
