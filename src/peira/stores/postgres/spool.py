"""Answers of models that wait for a server which is away, in a file of this machine.

They were paid for. While the connection is lost, each one is written to the file, and synced, before it is
queued for the next commit; when the server is back, the queue is committed and the file removed. If the
process ends before that, the next one on this machine that opens the store for writing records them.

A file is locked by the process that writes it, so one that is not locked was left behind.
"""

from __future__ import annotations

import fcntl
import os
import zlib
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path
from struct import Struct

import msgspec

from peira.core.codec import decode_event, encode_event
from peira.core.contracts import Op, Outcome
from peira.core.log.events import CallAnswered, Unreadable
from peira.stores.blobs import StoredBlob

ENDING = ".answers"
_frame = Struct(">II")
"""Length and CRC-32 of the record that follows."""
_encode = msgspec.msgpack.Encoder().encode


class SpooledAnswer(msgspec.Struct, frozen=True, array_like=True):
    """An op that records an answer: the run, its event as JSON, and its blobs.

    A large blob is elsewhere already: then `large` is its digest and its size.
    """

    run: str
    event: bytes
    blobs: list[bytes]
    large: list[tuple[str, int]] = []

    def op(self) -> Op:
        """The op that was spooled."""
        blobs = [*self.blobs, *(StoredBlob.of(digest, size) for digest, size in self.large)]
        return Op(self.run, (decode_event(self.event),), tuple(blobs))


_decode = msgspec.msgpack.Decoder(SpooledAnswer).decode


class AnswerSpool:
    """The file of one process; it exists only while answers wait in it."""

    def __init__(self, folder: Path, member: int) -> None:
        self._path = folder / f"{member}-{os.getpid()}{ENDING}"
        self._file: int | None = None
        self._waiting: set[Future[list[Outcome]]] = set()

    def add(self, ops: Sequence[Op], done: Future[list[Outcome]]) -> None:
        """Write the answers among these ops, durably; `done` says when they are committed."""
        records = b"".join(map(_framed, filter(None, map(spooled, ops))))
        if not records or done in self._waiting:
            return
        if self._file is None:
            self._file = self._created()
        view = memoryview(records)
        while view:
            view = view[os.write(self._file, view) :]
        os.fsync(self._file)
        self._waiting.add(done)

    def _created(self) -> int:
        """A new file, which has its name only when it is locked."""
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        draft = self._path.with_suffix(".draft")
        file = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        fcntl.flock(file, fcntl.LOCK_EX)
        draft.rename(self._path)
        return file

    def tidy(self) -> None:
        """Remove the file if all that it holds was committed."""
        if self._file is not None and all(_committed(done) for done in self._waiting):
            self._path.unlink()
            self.close()

    def close(self) -> None:
        """Let go of the file; what is left in it is for the next process."""
        if self._file is not None:
            os.close(self._file)
        self._file, self._waiting = None, set()


def left_behind(folder: Path) -> Iterator[tuple[Path, list[SpooledAnswer]]]:
    """The files that ended processes left, each with its answers; locked while the caller looks at it."""
    for path in sorted(folder.glob(f"*{ENDING}")):
        try:
            file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except FileNotFoundError:  # somebody else was faster
            continue
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if path.exists():
                yield path, list(answers_in(path.read_bytes()))
        except BlockingIOError:
            continue
        finally:
            os.close(file)


def spooled(op: Op) -> SpooledAnswer | None:
    """The op as it is spooled; None if it records no answer."""
    if len(op.events) != 1 or not isinstance(op.events[0], CallAnswered):
        return None
    plain = [data for data in op.blobs if not isinstance(data, StoredBlob)]
    large = [(data.digest.hex(), data.size) for data in op.blobs if isinstance(data, StoredBlob)]
    return SpooledAnswer(op.run, encode_event(op.events[0]), plain, large)


def _framed(record: SpooledAnswer | None) -> bytes:
    body = _encode(record)
    return _frame.pack(len(body), zlib.crc32(body)) + body


def answers_in(data: bytes) -> Iterator[SpooledAnswer]:
    """The answers in the bytes of a file; the last one may be torn, and is left out."""
    at = 0
    while at + _frame.size <= len(data):
        length, check = _frame.unpack_from(data, at)
        body = data[at + _frame.size : at + _frame.size + length]
        if len(body) < length or zlib.crc32(body) != check:
            return
        record = _decode(body)
        if not isinstance(decode_event(record.event), Unreadable):
            yield record
        at += _frame.size + length


def _committed(done: Future[list[Outcome]]) -> bool:
    return done.done() and done.exception() is None
