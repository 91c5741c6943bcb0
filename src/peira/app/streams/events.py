"""The events of a stream as a bus: ordered, filtered, followed, and read on by subscribers that were away.

The bus is the event log itself. Who reads keeps a cursor; nobody is called by the engine, and a reader that
never reads costs nothing.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from pathlib import Path
from typing import Any

from peira.app.session import Session
from peira.app.store.access import store_folder
from peira.core.contracts import RunQuery
from peira.core.ids import digest, short
from peira.core.log.events import Record
from peira.core.log.rows import Run
from peira.core.log.state import touched, touched_calls
from peira.core.registry import nearest
from peira.engine.run_log import event_values
from peira.engine.streams.declaration import TAG
from peira.errors import Invalid

LEVELS = ("jobs", "events", "calls")
"""How much a log has: the life of jobs; what happened in them, too; and every call of a model."""
POLL = 0.05
"""Seconds between two looks of who follows."""
CHUNK = 500
_OF_JOBS = ("run.", "tasks.", "task.", "question.", "goal.")
_OF_CALLS = ("call.",)
log = logging.getLogger("peira")


class StreamCursor:
    """A place in the events of a stream: after the event of this number in this opening."""

    def __init__(self, text: str = "") -> None:
        run, colon, seq = text.partition(":")
        if text and not (colon and run and seq.isdigit()):
            raise Invalid(f"after: {text!r} is not a cursor; use the `cursor` of an event")
        self.run, self.seq = run, int(seq or 0)

    def __str__(self) -> str:
        return f"{self.run}:{self.seq}" if self.run else ""


class EventFilter:
    """Which events are wanted: of some kinds, of a level, about one job."""

    def __init__(self, kinds: Collection[str] | str = (), job: str = "", level: str = "calls") -> None:
        wanted = [kinds] if isinstance(kinds, str) else list(kinds)
        if level not in LEVELS:
            raise Invalid(f"level: must be one of {', '.join(LEVELS)}, not {level!r}{nearest(level, LEVELS)}")
        self._kinds, self._job, self._level = frozenset(filter(None, wanted)), job, level

    def __call__(self, record: Record) -> bool:
        kind = record.event.__struct_config__.tag
        if self._kinds and kind not in self._kinds:
            return False
        if self._level == "jobs" and not str(kind).startswith(_OF_JOBS):
            return False
        if self._level == "events" and str(kind).startswith(_OF_CALLS):
            return False
        if not self._job:
            return True
        event = record.event
        return (
            self._job in touched(event)
            or getattr(event, "task", "") == self._job
            or self._job in touched_calls(event)
        )


class StreamEvents:
    """Reads the events of a stream, in the order of its openings and of their commits."""

    def __init__(self, session: Session, name: str) -> None:
        self._session, self._name = session, name

    def read(self, after: StreamCursor, limit: int = CHUNK) -> list[tuple[StreamCursor, Record]]:
        """The next events after a cursor; empty if there are none yet."""
        with self._session.reading() as store:
            for run, seq in self._openings(store, after):
                if records := store.events(run.id, seq, limit):
                    return [(_cursor(run, record), record) for record in records]
        return []

    def _openings(self, store: Any, after: StreamCursor) -> Iterator[tuple[Run, int]]:
        """The openings from that of the cursor on, each with the event after which to read."""
        openings = store.runs(RunQuery(study=self._name, tag=TAG, limit=1_000_000))[::-1]
        known = [short(run.id) for run in openings]
        if after.run and after.run not in known:
            raise Invalid(f"after: there is no opening {after.run} of stream {self._name!r}")
        start = known.index(after.run) if after.run else 0
        for n, run in enumerate(openings[start:]):
            yield run, after.seq if n == 0 and after.run else 0

    def follow(
        self,
        after: str = "",
        wanted: Callable[[Record], bool] = lambda record: True,
        follow: bool = False,
        ended: Callable[[], bool] = lambda: False,
    ) -> Iterator[dict[str, Any]]:
        """The events after a cursor that are wanted, as plain values with their `cursor`.

        With `follow` it waits for more, until `ended` says so.
        """
        cursor = StreamCursor(after)
        while True:
            found = self.read(cursor)
            for cursor, record in found:
                if wanted(record):
                    yield {"cursor": str(cursor), **event_values(record)}
            if not found:
                if not follow or ended():
                    return
                time.sleep(POLL)

    def end(self) -> str:
        """The cursor after the last event."""
        with self._session.reading() as store:
            last = store.runs(RunQuery(study=self._name, tag=TAG, limit=1))
            return f"{short(last[0].id)}:{last[0].next_seq - 1}" if last else ""


def _cursor(run: Run, record: Record) -> StreamCursor:
    return StreamCursor(f"{short(run.id)}:{record.seq}")


class Subscription:
    """Calls a function with every wanted event, in a thread of its own, from where it was the last time.

    The cursor is a file beside the store, written after the function has returned: an event during which the
    process died is delivered again, all others once. A function that raises ends the subscription; its
    `problem` says why, and the next subscription of the name begins with that event.
    """

    def __init__(
        self,
        session: Session,
        stream: str,
        function: Callable[[dict[str, Any]], object],
        name: str,
        wanted: Callable[[Record], bool],
    ) -> None:
        if not name or not name.isprintable():
            raise Invalid("subscribe: give it a name, under which it goes on after a restart")
        with session.reading() as store:
            folder = store_folder(store, "subscribers")
        self._file = folder / f"{digest([stream, name])[:24]}.json"
        self._events, self._function, self._wanted = StreamEvents(session, stream), function, wanted
        self._stopping = threading.Event()
        self.name, self.problem = name, None
        self.cursor = _read_cursor(self._file)
        self._thread = threading.Thread(target=self._serve, name="peira-subscriber", daemon=True)
        self._thread.start()

    problem: BaseException | None

    def _serve(self) -> None:
        try:
            while not self._stopping.is_set():
                found = self._events.read(StreamCursor(self.cursor))
                for cursor, record in found:
                    if self._stopping.is_set():
                        return
                    if self._wanted(record):
                        self._function({"cursor": str(cursor), **event_values(record)})
                        _write_cursor(self._file, str(cursor))
                    self.cursor = str(cursor)
                if not found:
                    self._stopping.wait(POLL)
        except Exception as problem:  # the function's own, or the store is closed
            if not self._stopping.is_set():
                self.problem = problem
                log.warning("subscriber %s ended: %s: %s", self.name, type(problem).__name__, problem)

    def stop(self, timeout: float = 5.0) -> None:
        """End it; the next subscription of the name goes on from here."""
        self._stopping.set()
        if threading.current_thread() is not self._thread:
            self._thread.join(timeout)


def _read_cursor(file: Path) -> str:
    try:
        return str(json.loads(file.read_text())["cursor"])
    except FileNotFoundError:
        return ""
    except (ValueError, KeyError, TypeError):
        raise Invalid(f"subscribe: {file} is not the cursor of a subscriber") from None


def _write_cursor(file: Path, cursor: str) -> None:
    """Replace the file atomically: it is the old cursor or the new one, whenever the process is killed."""
    file.parent.mkdir(parents=True, exist_ok=True)
    draft = file.with_suffix(".draft")
    with draft.open("w") as opened:
        opened.write(json.dumps({"cursor": cursor}))
        opened.flush()
        os.fsync(opened.fileno())
    draft.replace(file)
