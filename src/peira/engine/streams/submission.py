"""Submissions: from a command of another process to a queued job.

The process that owns the store queues the job, in the stream's last opening, also if it does not serve the
stream: its next host finds the job. A host that serves it is notified, and gives the shares by which arms are
drawn.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import groupby
from operator import attrgetter
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar
from weakref import WeakKeyDictionary, WeakValueDictionary

import msgspec

from peira.core.contracts import OpenStore
from peira.core.log.events import AnyEvent, CommandTaken, OutcomeValue
from peira.engine.calls.live_text import LiveText
from peira.engine.commands import GROUP_HANDLERS, HANDLERS, CommandService
from peira.engine.control import MOST_BYTES, Command, Control, ControlFolder
from peira.engine.streams.declaration import last_opening
from peira.engine.streams.jobs import Job, assigned, queued
from peira.errors import Invalid

Item = TypeVar("Item")
SUBMIT = "submit"
"""The command that submits jobs; its body has them."""

DRAIN = "drain"
"""The command that ends a stream once its jobs have ended; its body names the stream."""


class ServingHost(Protocol):
    """A host, as submissions see it."""

    live: LiveText

    def accept(self, jobs: Sequence[Job]) -> None:
        """Queue these jobs durably and offer them; those that are there already change nothing."""
        ...

    def close(self, stream: str) -> None:
        """Take no more jobs of this stream; it ends when all its jobs have."""
        ...

    def serves(self, stream: str) -> bool:
        """Whether the stream is being served."""
        ...

    def cancel(self, stream: str, jobs: Sequence[str], by: str, note: AnyEvent) -> None:
        """Cancel jobs of this stream, in whatever state; durable when it returns."""
        ...

    def decide(self, stream: str, arm: int, by: str, why: str, note: AnyEvent) -> None:
        """End the experiment of this stream by hand: all jobs get this arm. Durable when it returns."""
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


class Submission(NamedTuple):
    """Jobs that are submitted together, by whom, and who waits until they are sent."""

    jobs: Sequence[Job]
    by: str
    sent: Future[None]


class Outbox:
    """Sends submissions to the owner of a store; those of several threads go together.

    What comes while a message is being written waits, and is sent with the next one: one message, written and
    synced once, for all of them. Thread-safe.
    """

    def __init__(self, control: Control) -> None:
        self._control = control
        self._adding, self._sending = threading.Lock(), threading.Lock()
        self._waiting: list[Submission] = []

    def send(self, jobs: Sequence[Job], by: str) -> None:
        """Submit these jobs, all of them or none; they are durable when this returns."""
        mine: Future[None] = Future()
        with self._adding:
            self._waiting.append(Submission(jobs, by, mine))
        with self._sending:  # who gets here first sends for all who wait
            if not mine.done():
                with self._adding:
                    taken, self._waiting = self._waiting, []
                for some in _messages(taken):
                    self._send(some)
        mine.result()

    def _send(self, some: Sequence[Submission]) -> None:
        try:
            self._control.send(submit_command([job for one in some for job in one.jobs], some[0].by))
        except BaseException as problem:
            for one in some:
                one.sent.set_exception(problem)
        else:
            for one in some:
                one.sent.set_result(None)


def _messages(taken: Sequence[Submission]) -> Iterator[Sequence[Submission]]:
    """These submissions in messages that are not too large, each of one sender."""
    for _, some in groupby(taken, attrgetter("by")):
        yield from _packed(list(some), lambda one: len(msgspec.json.encode(one.jobs)))


def in_messages(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    """Jobs in parts that fit into one message each, in their order."""
    yield from _packed(jobs, lambda job: len(msgspec.json.encode(job)))


def _packed(items: Sequence[Item], size_of: Callable[[Item], int]) -> Iterator[Sequence[Item]]:
    """The items in parts that fit into one message each, in their order."""
    if len(items) == 1:  # as most are: its size does not matter
        yield items
        return
    found, size = list[Item](), 0
    for item in items:
        more = size_of(item)
        if found and size + more > MOST_BYTES // 2:
            yield found
            found, size = [], 0
        found.append(item)
        size += more
    if found:
        yield found


_outboxes: WeakValueDictionary[Path, Outbox] = WeakValueDictionary()


def outbox_of(control: Control) -> Outbox:
    """What sends submissions this way: one for each folder, shared by all threads of the process."""
    if not isinstance(control, ControlFolder):
        return Outbox(control)
    with _changing:
        found = _outboxes.get(control.folder)
        if found is None:
            found = _outboxes[control.folder] = Outbox(control)
        return found


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
