"""Server-sent events: the events of a run as they are committed, each once and in order, with resume.

The store is polled once for all clients. Each client has a cursor, the sequence number of the last event that
it was sent: what is recent is taken from a buffer that all share, and for who lags the store is read, in
chunks that are shared as well. Nobody waits for anybody, and a client that reconnects with `Last-Event-ID`
goes on where it was.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress

import msgspec

from peira.app.store.runs import UNDER_WAY
from peira.core.log.events import Record
from peira.core.text.secrets import without_keys
from peira.engine.run_log import event_values
from peira.errors import Unknown
from peira.web.reader import SiteReader

POLL = 0.1
"""Seconds between two looks at the store, however many clients there are."""
RECENT, CHUNK = 2_000, 500
"""Events that are kept for all clients of a run, and read at a time."""
MOST_CHUNKS = 64
"""Chunks of events that are kept for those who lag."""
BEAT = 15.0
"""Seconds after which something is sent, so that a client that is gone is noticed."""


class SentEvent(msgspec.Struct, frozen=True):
    """An event as it is sent: its sequence number and its message."""

    seq: int
    message: bytes


def sent_event(record: Record) -> SentEvent:
    """The message of a record: id, kind and values."""
    values = event_values(record)
    body = without_keys(msgspec.json.encode(values).decode())
    return SentEvent(record.seq, f"id: {record.seq}\nevent: {values['kind']}\ndata: {body}\n\n".encode())


class _Channel:
    """The events of one run for all its clients."""

    def __init__(self, run: str, first: int) -> None:
        self.run, self.last = run, first
        self.recent: deque[SentEvent] = deque(maxlen=RECENT)
        self.over = False
        self.changed = asyncio.Event()
        self.clients = 0

    def since(self, after: int) -> list[SentEvent] | None:
        """What comes after a sequence number; None if the store must be asked."""
        if after >= self.last:
            return []
        if not self.recent or self.recent[0].seq > after + 1:
            return None
        return [one for one in self.recent if one.seq > after][:CHUNK]


class EventFeed:
    """Follows the store while anybody listens."""

    def __init__(self, reader: SiteReader) -> None:
        self._reader = reader
        self._channels: dict[str, _Channel] = {}
        self._task: asyncio.Task[None] | None = None
        self._changed: asyncio.Event = asyncio.Event()
        self._chunks: OrderedDict[tuple[str, int], asyncio.Future[list[SentEvent]]] = OrderedDict()
        self.version: object = None
        self.number = 0
        """Raised whenever something was committed."""

    def start(self) -> None:
        """Begin to follow."""
        self._task = asyncio.create_task(self._poll(), name="peira-feed")

    async def stop(self) -> None:
        """End; clients are sent no more."""
        if self._task is not None:
            self._task.cancel()
            with suppress(asyncio.CancelledError):
                await self._task
        for channel in self._channels.values():
            channel.over = True
            channel.changed.set()

    async def _poll(self) -> None:
        while True:
            with suppress(Unknown):
                version = await self._reader.short(self._reader.version)
                if version != self.version:
                    self.version = version
                    self.number += 1
                    self._changed.set()
                    self._changed = asyncio.Event()
                for channel in list(self._channels.values()):
                    await self._advance(channel)
            await asyncio.sleep(POLL)

    async def _advance(self, channel: _Channel) -> None:
        """Read what is new in a run, once for all its clients."""
        run = await self._reader.short(self._reader.run, channel.run)
        while channel.last + 1 < run.next_seq:
            found = await self._read(channel.run, channel.last)
            if not found:
                break
            channel.recent.extend(found)
            channel.last = found[-1].seq
            self._tell(channel)
        if run.status not in UNDER_WAY and not channel.over:
            channel.over = True
            self._tell(channel)

    @staticmethod
    def _tell(channel: _Channel) -> None:
        channel.changed.set()
        channel.changed = asyncio.Event()

    async def _read(self, run: str, after: int) -> list[SentEvent]:
        def read() -> list[SentEvent]:
            return [sent_event(record) for record in self._reader.store.events(run, after, CHUNK)]

        return await self._reader.short(read)

    async def _chunk(self, run: str, after: int) -> list[SentEvent]:
        """What comes after a sequence number, at most to the end of its chunk; read once for all who lag."""
        number = after // CHUNK
        key, loop = (run, number), asyncio.get_running_loop()
        if key not in self._chunks:
            self._chunks[key] = loop.create_task(self._read(run, number * CHUNK))
            while len(self._chunks) > MOST_CHUNKS:
                self._chunks.popitem(last=False)
        reading = self._chunks[key]
        self._chunks.move_to_end(key)
        try:
            found = await asyncio.shield(reading)
        except BaseException:
            self._chunks.pop(key, None)
            raise
        if len(found) < CHUNK:  # its end is still being written
            self._chunks.pop(key, None)
        return [one for one in found if one.seq > after]

    async def follow(self, run: str, after: int, kinds: Callable[[bytes], bool]) -> AsyncIterator[bytes]:
        """The messages of a run after a sequence number, until it has ended; `kinds` says which to send."""
        channel = self._channels.get(run)
        if channel is None:
            now = await self._reader.short(self._reader.run, run)
            channel = self._channels.setdefault(run, _Channel(run, max(0, now.next_seq - 1)))
        channel.clients += 1
        try:
            async for message in self._messages(channel, after):
                if kinds(message):
                    yield message
        finally:
            channel.clients -= 1
            if not channel.clients:
                self._channels.pop(run, None)

    async def _messages(self, channel: _Channel, after: int) -> AsyncIterator[bytes]:
        while True:
            changed = channel.changed
            found = channel.since(after)
            if found is None:
                found = await self._chunk(channel.run, after)
            for one in found:
                yield one.message
                after = one.seq
            if found:
                continue
            if channel.over and after >= channel.last:
                yield b"event: end\ndata: {}\n\n"
                return
            try:
                await asyncio.wait_for(changed.wait(), BEAT)
            except TimeoutError:
                yield b": still here\n\n"

    async def changes(self, least: float) -> AsyncIterator[bytes]:
        """A message whenever something was committed, at most every `least` seconds."""
        seen = self.number
        yield f"id: {seen}\nevent: change\ndata: {seen}\n\n".encode()
        while True:
            changed = self._changed
            if self.number != seen:
                seen = self.number
                yield f"id: {seen}\nevent: change\ndata: {seen}\n\n".encode()
                await asyncio.sleep(least)
                continue
            try:
                await asyncio.wait_for(changed.wait(), BEAT)
            except TimeoutError:
                yield b": still here\n\n"
