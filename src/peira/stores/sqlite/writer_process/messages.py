"""What a writer and its process tell each other, as MessagePack.

Every message to the process is answered; commits in their order, and listings in theirs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import islice

import apsw
import msgspec

from peira.core.contracts import CallWords, PlanEntry
from peira.stores.sqlite import views

CHUNK = 2_000
"""Entries of a plan in one message."""


class WriterSetup(msgspec.Struct, array_like=True):
    """The file, and the owner that writes it; where the marks of tasks and calls are (-1: nowhere)."""

    path: str
    incarnation: int
    owner: int
    tasks: int
    calls: int


class EncodedOp(msgspec.Struct, array_like=True, gc=False):
    """An op: its run, its events as they are stored, its blobs. One without events is not committed."""

    run: str
    events: list[bytes]
    blobs: tuple[bytes, ...] = ()


class CommitMessage(msgspec.Struct, array_like=True, tag=0, gc=False):
    """Commit these ops with this time, blobs compressed by this codec."""

    ops: list[EncodedOp]
    at: float
    codec: str


class PlanMessage(msgspec.Struct, array_like=True, tag=1, gc=False):
    """List these entries of a plan, for other programs."""

    plan: str
    entries: list[PlanEntry]
    complete: bool


class WordsMessage(msgspec.Struct, array_like=True, tag=2, gc=False):
    """List what these calls said, for other programs."""

    calls: list[CallWords]


ListingMessage = PlanMessage | WordsMessage
WriterMessage = CommitMessage | ListingMessage


class WriterAnswer(msgspec.Struct, array_like=True, gc=False):
    """What became of a message: the number of the last durable event, and of ops that were refused, by their
    index, why; or that something is `listed`. With a `fault` nothing was committed, and the process ends."""

    newest: int
    refused: dict[int, str] = {}
    unreadable: list[int] = []
    fault: str = ""
    listed: bool = False


encode = msgspec.msgpack.Encoder().encode
decode_setup = msgspec.msgpack.Decoder(WriterSetup).decode
decode_message = msgspec.msgpack.Decoder(WriterMessage).decode
decode_answer = msgspec.msgpack.Decoder(WriterAnswer).decode
READY = b"ready"
"""What the process says once it can take messages."""


def plan_messages(plan: str, entries: Iterable[PlanEntry], complete: bool) -> Iterator[PlanMessage]:
    """The messages that list entries of a plan; with the last one it may be complete."""
    waiting = iter(entries)
    chunk = list(islice(waiting, CHUNK))
    while True:
        following = list(islice(waiting, CHUNK))
        yield PlanMessage(plan, chunk, complete and not following)
        if not following:
            return
        chunk = following


def words_message(calls: Iterable[CallWords]) -> WordsMessage:
    """The message that lists what calls said."""
    return WordsMessage(list(calls))


def write_listings(db: apsw.Connection, messages: Iterable[ListingMessage]) -> None:
    """List what messages say. Called within a transaction."""
    for message in messages:
        if isinstance(message, PlanMessage):
            views.list_plan(db, message.plan, message.entries, message.complete)
        else:
            views.list_calls(db, message.calls)
