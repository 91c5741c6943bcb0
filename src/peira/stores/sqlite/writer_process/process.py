"""The process that commits for a busy writer: started, sent messages, and heard.

The process commits in the order in which messages are sent, and whatever has come meanwhile in one
transaction. If it ends by itself, everything that was not answered is refused, and may or may not be durable,
as after any fault of a disk.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from peira.core.codec import encode as encoded
from peira.core.codec import encode_event
from peira.core.contracts import Op, Outcome
from peira.errors import Fenced, StoreFault, Unwritable
from peira.sandbox.child_module import start_module
from peira.stores.sqlite.digest_filter import DigestFilter
from peira.stores.sqlite.writer_process.messages import (
    READY,
    CommitMessage,
    EncodedOp,
    ListingMessage,
    WriterAnswer,
    WriterMessage,
    WriterSetup,
    decode_answer,
    encode,
)

UNENCODABLE = (TypeError, ValueError, RecursionError)
"""What encoding an event raises if it is none that could be stored."""
PATIENCE = 10.0
"""Seconds in which the process must have ended once it was told to."""
CHILD = "peira.stores.sqlite.writer_process.child"
GONE = "the process that commits to it has ended"
Answered = Callable[[list[Outcome], int], None]
"""Told what became of the ops of a message, and the number of the last durable event."""
_SentCommit = tuple[Sequence[Op], dict[int, Outcome], Answered]
"""Ops that were sent, those that were refused before, by their index, and who is told."""


class WriterProcess:
    """Messages are sent by one thread; answers come on a thread of this object."""

    def __init__(
        self,
        path: Path,
        incarnation: int,
        recorded: Mapping[str, DigestFilter],
        failed: Callable[[Exception], None],
    ) -> None:
        """Start it; OSError if that cannot be. Nobody may mark ids in `recorded` until this returns. `failed`
        is called once if it ends before it is closed although it was ready; nothing more is answered then."""
        self._failed = failed
        self._sent: deque[_SentCommit] = deque()
        self._listings: deque[Callable[[], None] | None] = deque()  # who is told of those that were sent
        self._changed = threading.Condition()
        self._ready = self._over = False
        marks = [recorded[kind].share() for kind in ("task", "call")]
        shared = [file for file in marks if file >= 0]
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = start_module(
                CHILD,
                theirs.fileno(),
                {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                files=shared,
                silent=True,  # a run that is detached lets go of its terminal
            )
        for file in shared:
            os.close(file)  # the marks stay mapped
        self._pipe = Connection(ours.detach())
        self._pipe.send_bytes(encode(WriterSetup(str(path), incarnation, os.getpid(), *marks)))
        self._thread = threading.Thread(target=self._hear, name="peira-written", daemon=True)
        self._thread.start()

    @property
    def pid(self) -> int:
        """The number of the process."""
        return self._process.pid

    @property
    def ready(self) -> bool:
        """Whether it can take messages; until then its owner writes itself."""
        return self._ready

    @property
    def ended(self) -> bool:
        """Whether it takes no messages any more, or never will."""
        return self._over

    def start(self) -> None:
        """Wait until it is ready, or has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or self._over)

    def commit(self, ops: Sequence[Op], at: float, codec: str, answered: Answered) -> None:
        """Have ops committed; `answered` is called once that is durable, after those of earlier messages."""
        refused: dict[int, Outcome] = {}
        sent = _encoded(ops, refused)
        self._send(CommitMessage(sent, at, codec), (ops, refused, answered))

    def list(self, message: ListingMessage, listed: Callable[[], None] | None) -> None:
        """Have something listed once no commit waits; `listed` is called then."""
        self._send(message, listed)

    def _send(self, message: WriterMessage, waits: _SentCommit | Callable[[], None] | None) -> None:
        """Send a message; StoreFault if the process is gone, and then nobody is told what became of it."""
        data = encode(message)
        with self._changed:
            if self._over:
                raise StoreFault(GONE)
            if isinstance(waits, tuple):
                self._sent.append(waits)
            else:
                self._listings.append(waits)
        try:
            self._pipe.send_bytes(data)
        except OSError as problem:
            raise StoreFault(GONE) from problem

    def wait(self) -> None:
        """Until everything that was sent is answered; StoreFault if it never will be."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or not self._waits)
            if self._waits:
                raise StoreFault(GONE)

    def close(self) -> None:
        """End it, after everything that was sent."""
        with self._changed:
            self._changed.wait_for(lambda: self._over or not self._waits)
            self._over = True
            if not self._ready:  # it has nothing to finish
                self._process.kill()
        self._pipe_ends()
        self._thread.join()
        self._pipe.close()
        try:
            self._process.wait(PATIENCE)
        except subprocess.TimeoutExpired:  # it was stopped by a signal, or its disk does not answer
            self._process.kill()
            self._process.wait()

    @property
    def _waits(self) -> bool:
        """Whether something was sent that is not answered."""
        return bool(self._sent or self._listings)

    def _pipe_ends(self) -> None:
        """Tell both sides that nothing more comes; this wakes whoever reads."""
        with socket.socket(fileno=os.dup(self._pipe.fileno())) as pipe:
            pipe.shutdown(socket.SHUT_RDWR)

    def _hear(self) -> None:
        try:
            if self._pipe.recv_bytes() != READY:
                raise StoreFault(GONE)
            with self._changed:
                self._ready = True
                self._changed.notify_all()
            while True:
                self._settle(decode_answer(self._pipe.recv_bytes()))
        except (EOFError, OSError, StoreFault) as problem:
            with self._changed:
                closed, self._over = self._over, True
                self._changed.notify_all()
            if self._ready and not closed:
                self._failed(problem if isinstance(problem, StoreFault) else StoreFault(GONE))

    def _settle(self, answer: WriterAnswer) -> None:
        if answer.fault:
            raise StoreFault(answer.fault)
        if answer.listed:
            waiting: deque[Any] = self._listings
            if (listed := self._listings[0]) is not None:
                listed()
        else:
            waiting = self._sent
            ops, refused, answered = self._sent[0]
            answered(_outcomes(ops, refused, answer), answer.newest)
        with self._changed:
            waiting.popleft()
            if not self._waits:
                self._changed.notify_all()


def _outcomes(ops: Sequence[Op], refused: Mapping[int, Outcome], answer: WriterAnswer) -> list[Outcome]:
    """What became of the ops of a commit."""
    outcomes: list[Outcome] = [None] * len(ops)
    for index, why in answer.refused.items():
        outcomes[index] = Fenced(why)
    for index in answer.unreadable:
        outcomes[index] = _why_unreadable(ops[index])
    for index, outcome in refused.items():
        outcomes[index] = outcome
    return outcomes


def _encoded(ops: Sequence[Op], refused: dict[int, Outcome]) -> list[EncodedOp]:
    """Ops as they are sent; those that cannot be are noted among those that are refused."""
    sent = []
    for op in ops:
        try:
            sent.append(EncodedOp(op.run, list(map(encoded, op.events)), op.blobs))
        except UNENCODABLE:
            refused[len(sent)] = _why_unreadable(op)
            sent.append(EncodedOp(op.run, []))
    return sent


def _why_unreadable(op: Op) -> Outcome:
    """Why an op is refused of which an event could not be read again."""
    try:
        for event in op.events:
            encode_event(event)
    except Unwritable as problem:
        return problem
    return Unwritable("an event could not be read again")
