"""A process that commits what its owner sends, so that the owner's interpreter has time for other things.

It takes whatever commits have come and makes one transaction of them; what is listed for other programs
waits until there are none, because workers wait for commits. It ends when its pipe is closed, or at any
error, which it tells first; a commit that is under way is finished or is none. Like its owner it can write no
more once the store has another one: every transaction checks that.
"""

from __future__ import annotations

import os
import queue
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from functools import partial
from multiprocessing.connection import Connection

import apsw

from peira.core.codec import decode_written
from peira.core.contracts import Op
from peira.core.failpoints import reach
from peira.core.garbage_collector import collection_paused
from peira.core.log.events import AnyEvent
from peira.stores.commit_thread import MOST_OPS
from peira.stores.sqlite.connection import let_log_grow, open_for_writing
from peira.stores.sqlite.digest_filter import DigestFilter
from peira.stores.sqlite.table_writer import TableWriter, derive
from peira.stores.sqlite.writer_process.messages import (
    READY,
    CommitMessage,
    ListingMessage,
    WriterAnswer,
    WriterMessage,
    WriterSetup,
    decode_message,
    decode_setup,
    encode,
    write_listings,
)


def main() -> None:
    """Say that it is there, and commit until the pipe is closed."""
    pipe = Connection(int(sys.argv[1]))
    try:
        setup = decode_setup(pipe.recv_bytes())
        db = open_for_writing(setup.path)
        pipe.send_bytes(READY)
        with collection_paused():
            _serve(pipe, setup, db)
    except (EOFError, OSError):  # the owner is gone
        pass
    # At once: the owner waits for it. The connection is not closed: that is for the owner, or, if it was
    # killed, for the next one, as if nobody else had written.
    os._exit(0)


def _serve(pipe: Connection, setup: WriterSetup, db: apsw.Connection) -> None:
    """Commit messages, and answer each."""
    writer: WriterOfMessages | None = None
    for number, messages in enumerate(MessageQueue(pipe).batches()):
        if os.getppid() != setup.owner:
            return
        try:
            if writer is None:  # only now has the owner stopped writing itself
                writer = WriterOfMessages(setup, db)
            if number % LOOK == 0:
                let_log_grow(db)
            answers = writer.write(messages)
        except Exception as problem:  # whatever it was: the owner refuses everything from then on
            pipe.send_bytes(encode(WriterAnswer(0, fault=str(problem) or type(problem).__name__)))
            return
        for answer in answers:
            pipe.send_bytes(encode(answer))


LOOK = 64
"""Transactions between two looks at the size of the file."""
MOST_LISTINGS = 50
"""Listings that may wait while commits come."""
LISTED = 5
"""Listings that are written together; a commit that comes meanwhile waits for them."""


class MessageQueue:
    """What has come through the pipe; a thread reads it, so that the owner can send during a commit."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe
        self._came: queue.SimpleQueue[WriterMessage | None] = queue.SimpleQueue()
        self._listings: deque[ListingMessage] = deque()
        threading.Thread(target=self._read, name="peira-received", daemon=True).start()

    def _read(self) -> None:
        try:
            while True:
                self._came.put(decode_message(self._pipe.recv_bytes()))
        except (EOFError, OSError):
            self._came.put(None)

    def batches(self) -> Iterator[list[WriterMessage]]:
        """The commits that have come right now, up to MOST_OPS; or some of what is to be listed."""
        while True:
            if self._listings and (self._came.empty() or len(self._listings) > MOST_LISTINGS):
                yield [self._listings.popleft() for _ in range(min(LISTED, len(self._listings)))]
                continue
            batch: list[WriterMessage] = []
            size = 0
            while not size or (size < MOST_OPS and not self._came.empty()):
                message = self._came.get()
                if message is None:
                    return
                if not isinstance(message, CommitMessage):
                    self._listings.append(message)
                    break
                batch.append(message)
                size += len(message.ops)
            if batch:
                yield batch


class WriterOfMessages:
    """Writes messages into the tables."""

    def __init__(self, setup: WriterSetup, db: apsw.Connection) -> None:
        recorded = {"task": DigestFilter.of_file(setup.tasks), "call": DigestFilter.of_file(setup.calls)}
        self._bodies: Iterator[bytes] = iter(())
        self._db, self._incarnation = db, setup.incarnation
        # Events are stored in the bytes in which they came, and from which they were read.
        self._tables = TableWriter(db, setup.incarnation, recorded, lambda event: next(self._bodies))

    def write(self, messages: Sequence[WriterMessage]) -> list[WriterAnswer]:
        """Commit messages in one transaction, and say what became of each."""
        first = messages[0]
        if not isinstance(first, CommitMessage):
            listings = [one for one in messages if not isinstance(one, CommitMessage)]
            derive(self._db, self._incarnation, partial(write_listings, messages=listings))
            return [WriterAnswer(0, listed=True)] * len(listings)
        return self._commit([one for one in messages if isinstance(one, CommitMessage)])

    def _commit(self, messages: Sequence[CommitMessage]) -> list[WriterAnswer]:
        groups, indexes, unreadable, bodies = [], [], [], list[bytes]()
        for message in messages:
            ops, places, wrong = list[Op](), list[int](), list[int]()
            for index, encoded in enumerate(message.ops):
                events = _decoded(encoded.events)
                if events is None:
                    wrong.append(index)
                else:
                    ops.append(Op(encoded.run, events, encoded.blobs))
                    places.append(index)
                    bodies += encoded.events
            groups.append((ops, message.at))
            indexes.append(places)
            unreadable.append(wrong)
        self._bodies = iter(bodies)
        _, outcomes = self._tables.commit(groups, messages[-1].codec)
        reach("store.after_commit")
        return [
            WriterAnswer(
                self._tables.newest,
                {at: str(one) for at, one in zip(places, found, strict=True) if one is not None},
                wrong,
            )
            for places, found, wrong in zip(indexes, outcomes, unreadable, strict=True)
        ]


def _decoded(bodies: Sequence[bytes]) -> tuple[AnyEvent, ...] | None:
    """The events of an op; None if one of them cannot be read, and the op is to be refused."""
    events = [event for body in bodies if (event := decode_written(body)) is not None]
    return tuple(events) if len(events) == len(bodies) else None


if __name__ == "__main__":
    main()
