"""Submissions: from a command of another process to a queued job.

The process that owns the store queues the job, in the stream's last opening, also if it does not serve the
stream: whoever serves it next finds the job. A host that serves it is told, and says how arms are drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Protocol
from weakref import WeakKeyDictionary

import msgspec

from peira.core.contracts import OpenStore
from peira.core.log.events import CommandTaken
from peira.engine.commands import HANDLERS, CommandService
from peira.engine.control import Command
from peira.engine.streams.declaration import last_opening
from peira.engine.streams.jobs import Job, assigned, queued

SUBMIT = "submit"
"""The command that submits a job; its body has the job."""


DRAIN = "drain"
"""The command that ends a stream once its jobs have ended; its body names the stream."""


class ServingHost(Protocol):
    """A host, as submissions see it."""

    def accept(self, jobs: Sequence[Job]) -> None:
        """Queue these jobs durably and offer them; those that are there already change nothing."""
        ...

    def close(self, stream: str) -> None:
        """Take no more jobs of this stream; it ends when all its jobs have."""
        ...

    def serves(self, stream: str) -> bool:
        """Whether the stream is being served."""
        ...


_hosts: WeakKeyDictionary[CommandService, ServingHost] = WeakKeyDictionary()
_changing = threading.Lock()


def register_host(service: CommandService, host: ServingHost | None) -> None:
    """Tell submissions of this store who serves its streams; None if nobody does any more."""
    with _changing:
        if host is None:
            _hosts.pop(service, None)
        else:
            _hosts[service] = host


def submit_command(job: Job, by: str) -> Command:
    """The command that submits a job."""
    return Command(SUBMIT, "", by, body={"job": msgspec.to_builtins(job)})


def _submit(service: CommandService, command: Command) -> None:
    """Queue the job of a command, unless there is one with its key."""
    job = msgspec.convert(command.body.get("job"), Job)
    host = _hosts.get(service)
    if host is not None and host.serves(job.stream):
        host.accept([job])
    else:
        _queue(service.store, job, command)


def _queue(store: OpenStore, job: Job, command: Command) -> None:
    run, declaration = last_opening(store, job.stream)
    op = queued(run.id, assigned(declaration.assign, job, len(declaration.arms)))
    note = CommandTaken(command.command, command.id, command.by)
    store.commit([msgspec.structs.replace(op, events=(note, *op.events))]).result()


def _drain(service: CommandService, command: Command) -> None:
    """Let the host close a stream."""
    stream, host = str(command.body.get("stream", "")), _hosts.get(service)
    if host is not None and host.serves(stream):
        host.close(stream)


HANDLERS.update({SUBMIT: _submit, DRAIN: _drain})
