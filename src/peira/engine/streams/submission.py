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
from peira.core.log.events import CommandTaken, OutcomeValue
from peira.engine.commands import GROUP_HANDLERS, HANDLERS, CommandService
from peira.engine.control import Command
from peira.engine.streams.declaration import last_opening
from peira.engine.streams.jobs import Job, assigned, queued
from peira.errors import Invalid

SUBMIT = "submit"
"""The command that submits jobs; its body has them."""

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

    def note_outcome(self, job: Job, name: str, value: OutcomeValue) -> None:
        """An outcome of a job is recorded, the first of its name."""
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


def host_of(service: CommandService) -> ServingHost | None:
    """Who serves the streams of a store; None if nobody does."""
    return _hosts.get(service)


def submit_command(jobs: Sequence[Job], by: str) -> Command:
    """The command that submits jobs, all of them or none."""
    return Command(SUBMIT, "", by, body={"jobs": msgspec.to_builtins(jobs)})


def submitted_jobs(command: Command) -> list[Job]:
    """The jobs of a command that submits some; Invalid if it is none."""
    try:
        return msgspec.convert(command.body.get("jobs", []), list[Job])
    except msgspec.ValidationError as problem:
        raise Invalid(f"submit: {problem}") from None


def _submit(service: CommandService, commands: Sequence[Command]) -> None:
    """Queue the jobs of commands, unless there are jobs with their keys: one commit for all of them."""
    host = _hosts.get(service)
    served, others = list[Job](), list[tuple[Job, Command]]()
    for command in commands:
        for job in submitted_jobs(command):
            if host is not None and host.serves(job.stream):
                served.append(job)
            else:
                others.append((job, command))
    if host is not None and served:
        host.accept(served)
    if others:
        _queue(service.store, others)


def _queue(store: OpenStore, jobs: Sequence[tuple[Job, Command]]) -> None:
    """Queue jobs of streams that nobody serves here, in the last opening of each."""
    openings = {name: last_opening(store, name) for name in {job.stream for job, _ in jobs}}
    ops = []
    for job, command in jobs:
        run, declaration = openings[job.stream]
        op = queued(run.id, assigned(declaration.assign, job, len(declaration.arms), run.traffic))
        note = CommandTaken(command.command, command.id, command.by)
        ops.append(msgspec.structs.replace(op, events=(note, *op.events)))
    store.commit(ops).result()


def _drain(service: CommandService, command: Command) -> None:
    """Let the host close a stream."""
    stream, host = str(command.body.get("stream", "")), _hosts.get(service)
    if host is not None and host.serves(stream):
        host.close(stream)


HANDLERS.update({SUBMIT: lambda service, command: _submit(service, [command]), DRAIN: _drain})
GROUP_HANDLERS[SUBMIT] = _submit
