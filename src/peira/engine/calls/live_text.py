"""Live text: what models say while they say it, in a bounded ring beside the event log.

Models that stream (`stream = true`) are heard while they speak, others once they have answered. Who reads
keeps a number; what was dropped before it was read is marked as a gap. The whole answer is recorded with its
call, as ever.
"""

from __future__ import annotations

import threading
from collections import deque
from typing import NamedTuple, Protocol

MOST = 10_000
"""How many pieces of text are kept."""


class LivePiece(NamedTuple):
    """A piece of text: its number, its task and its call; `gap` says that some before it were dropped.

    `stream` is the stream whose job it belongs to.
    """

    n: int
    task: str
    call: str
    text: str
    gap: bool = False
    stream: str = ""


class TextSink(Protocol):
    """Receives the text of calls while it is streamed."""

    def add(self, task: str, call: str, text: str) -> None:
        """Add a piece of the text of a call; never waits."""
        ...


class LiveText:
    """The last pieces of streamed text of all models, in a ring; thread-safe. Adding never waits."""

    def __init__(self, most: int = MOST) -> None:
        self._pieces: deque[LivePiece] = deque(maxlen=most)
        self._lock = threading.Lock()
        self._next = 1
        self.closed = False
        """Nothing more will come: its host has ended."""

    def add(self, task: str, call: str, text: str, stream: str = "") -> None:
        """Add a piece of the text of a call; the oldest piece is dropped if there are too many."""
        with self._lock:
            self._pieces.append(LivePiece(self._next, task, call, text, stream=stream))
            self._next += 1

    def of_stream(self, stream: str) -> TextSink:
        """The sink of the calls of one stream."""
        return StreamText(self, stream)

    def read(self, after: int = 0, task: str = "", stream: str = "") -> list[LivePiece]:
        """The pieces after a number, of one task or stream if one is given; the first says if some were
        dropped."""
        with self._lock:
            pieces = [piece for piece in self._pieces if piece.n > after]
        dropped = bool(pieces) and pieces[0].n > after + 1
        if dropped:
            pieces[0] = pieces[0]._replace(gap=True)
        return [
            piece
            for piece in pieces
            if piece.gap or (task in ("", piece.task) and stream in ("", piece.stream))
        ]


class StreamText:
    """The sink of one stream's calls."""

    def __init__(self, live: LiveText, stream: str) -> None:
        self._live, self._stream = live, stream

    def add(self, task: str, call: str, text: str) -> None:
        """Add a piece of the text of a call."""
        self._live.add(task, call, text, self._stream)
