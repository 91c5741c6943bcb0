"""Cancelling jobs, in whatever state, also of a stream that nobody serves."""

from __future__ import annotations

from peira.core.contracts import Op
from peira.core.log.events import CommandTaken
from peira.engine.attempts.cancellation import cancelled_elsewhere
from peira.engine.commands import HANDLERS, CommandService
from peira.engine.control import Command
from peira.engine.streams.declaration import last_opening
from peira.engine.streams.jobs import JOB
from peira.engine.streams.submission import host_of

CANCEL_JOBS = "cancel-jobs"
"""The command that cancels jobs; its body names their stream."""


def cancel_jobs_command(stream: str, jobs: tuple[str, ...], by: str) -> Command:
    """The command that cancels jobs."""
    return Command(CANCEL_JOBS, "", by, tasks=jobs, body={"stream": stream})


def _cancel(service: CommandService, command: Command) -> None:
    """Let the host that serves the stream cancel them; without one, end those that have not ended."""
    stream, host, store = str(command.body.get("stream", "")), host_of(service), service.store
    note = CommandTaken(command.command, command.id, command.by)
    if host is not None and host.serves(stream):
        host.cancel(stream, command.tasks, command.by, note)
        return
    run, _ = last_opening(store, stream)
    rows = store.find("task", list(command.tasks))
    jobs = [task for task in command.tasks if task in rows and rows[task].kind == JOB]
    owner, now = str(store.incarnation), service.clock.now()
    ops = cancelled_elsewhere(store, run.id, owner, jobs, command.by, now)
    if ops:
        store.commit([Op(run.id, (note,)), *ops]).result()


HANDLERS[CANCEL_JOBS] = _cancel
