"""Cancel a run: by a command to its owner if that is alive, otherwise by taking the store over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from peira.app.session import Session, SessionLike
from peira.app.store.follower import Follower
from peira.app.store.view import Opened
from peira.core.contracts import Op
from peira.core.log.events import CommandTaken, RunFinished, Status
from peira.core.log.state import Run
from peira.core.text.words import lasting
from peira.engine.control import CANCEL, Command, ControlFolder, StopRequest, requester
from peira.engine.progress import LEFT
from peira.engine.stages import GENERATE, STAGES
from peira.errors import StoreInUse

UNFINISHED = (Status.planned, Status.running, Status.interrupted)
PATIENCE = 60.0
"""Seconds to wait for the owner to end its run."""
PROMPT, BUSY = 0.5, 10.0
"""Seconds within which an owner takes a command (it looks several times a second): one that is stopped by a
signal does not respond after the first, one that may be busy after the second."""
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

    Raises StoreInUse if its process does not respond (the command stays queued then: it is executed once the
    process goes on), or if its process is gone and another one uses the store.
    """
    session = Session.find(store)
    opened = Opened(session)
    found = opened.run(run)
    if found.status not in UNFINISHED:
        return Cancellation(found, done=False)
    if found.status is not Status.interrupted:
        queued = _send_cancel(session, found)
        found = _wait_until_ended(session, opened, found, queued)
    if alive := found.status is not Status.interrupted:
        return Cancellation(found, found.status is Status.cancelled, alive)
    _end_dead_run(session, found)
    return Cancellation(opened.run(found.id), done=True)


def _send_cancel(session: Session, run: Run) -> Callable[[], bool]:
    """Send the cancel command to the process that owns the store.

    Returns a function that says whether it is still queued.
    """
    with session.reading() as opened:
        folder = opened.folder("control")
    if folder is None:
        raise StoreInUse(f"run {run.id[:12]} cannot be reached: its store takes no commands")
    control, command = ControlFolder(folder), Command(CANCEL, run.id, requester())
    control.send(command)
    return lambda: control.holds(command)


def _wait_until_ended(session: Session, opened: Opened, run: Run, queued: Callable[[], bool]) -> Run:
    """Wait until the run is over: ended by its owner, or interrupted because its owner died.

    Raises StoreInUse if the owner does not take the command, or is stopped.
    """
    began = time.monotonic()
    while (now := opened.run(run.id)).status in (Status.planned, Status.running):
        waited = time.monotonic() - began
        stopped = waited > PROMPT and _process_state(_owner_pid(session)) in STOPPED
        if stopped or (waited > BUSY and queued()):
            raise StoreInUse(_no_response(session, now, queued()))
        if waited > PATIENCE:
            raise StoreInUse(
                f"run {run.id[:12]} was asked to stop and does not end; its process still uses the store"
            )
        time.sleep(POLL)
    return now


STOPPED = ("T", "t")
STATES = {"T": "it is stopped", "t": "a debugger holds it", "D": "it waits for the disk"}


def _no_response(session: Session, run: Run, queued: bool) -> str:
    """The message about an owner that does not respond: who, since when, what to do."""
    pid = _owner_pid(session)
    state = STATES.get(_process_state(pid), "it is busy, or hangs")
    with session.reading() as store:
        last = max(
            (record.at for record in store.events(run.id, max(0, run.next_seq - 2))), default=run.planned
        )
    since = time.strftime("%H:%M:%S", time.localtime(last))
    who, go_on = (f"process {pid}", f" (kill -CONT {pid})") if pid else ("its process", "")
    then = "the command stays queued: the run is cancelled" if queued else "the run is cancelled"
    return (
        f"run {run.id[:12]} was asked to stop, but {who} does not respond: {state}; its last event is of "
        f"{since}, {lasting(time.time() - last)} ago; {then} once the process goes on{go_on}, or end the "
        "process and cancel again"
    )


def _owner_pid(session: Session) -> int | None:
    """The number of the process that owns the store, if that is known."""
    with session.reading() as store:
        return (store.owner() or {}).get("pid")


def _process_state(pid: int | None) -> str:
    """The state of a process as the kernel has it: T if it is stopped; "" if it cannot be looked at."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (OSError, IndexError):
        return ""


def _end_dead_run(session: Session, run: Run) -> None:
    """Record the end of a run whose process is gone."""
    with session.owned() as ours:
        command = Command(CANCEL, run.id, requester())
        end_event = RunFinished(
            Status.cancelled, Follower(session, run.id).counts(), StopRequest.cancelled(command.by).reason
        )
        command_event = CommandTaken(command.command, command.id, command.by)
        ours.commit([Op(run.id, (command_event,)), Op(run.id, (end_event,))]).result()
