"""The log file of a run: one JSON line per event, appended while the run goes on."""

from __future__ import annotations

import logging
import os
import threading
from base64 import b64decode
from pathlib import Path
from typing import Any

import msgspec

from peira.core.clock import stamp
from peira.core.codec import encode
from peira.core.contracts import Store
from peira.core.log.events import CallAnswered, Record
from peira.core.text.words import HIDDEN
from peira.errors import Invalid

POLL = 0.1
"""Seconds between two reads of the store."""
CHUNK = 256
"""Events per read; few, because readers of the store share a lock."""
log = logging.getLogger("peira")


def event_values(record: Record) -> dict[str, Any]:
    """An event as plain values: sequence number, time, kind, then its fields.

    An answer that contains a key is not shown. The body of any other is text, if it is UTF-8. A moment that
    the event itself has is `moment`, so that `at` is the time of the event in all of them.
    """
    body = msgspec.json.decode(encode(record.event))
    answer = body.get("answer") if isinstance(record.event, CallAnswered) else None
    if isinstance(answer, dict) and "body" in answer:
        answer["body"] = HIDDEN if answer.get("exposed") else _text(answer["body"])
    result = body.get("result")
    if isinstance(result, dict) and result.get("exposed"):
        result["output"] = HIDDEN
    if isinstance(moment := body.pop("at", None), int | float):
        body["moment"] = stamp(moment)
    return {"seq": record.seq, "at": stamp(record.at), **body}


def _text(encoded: str) -> str:
    """The text that base64 stands for; unchanged if that is not UTF-8."""
    try:
        return b64decode(encoded, validate=True).decode()
    except ValueError:
        return encoded


def problems_of(path: str | Path) -> list[str]:
    """Why a log cannot be written to this path; checks without writing anything."""
    if not str(path) or "\0" in str(path):
        return [f"log: {str(path)!r} is not the path of a file"]
    try:
        problem = _problem_of(Path(path))
    except OSError as refused:
        problem = f"{path} cannot be written: {refused.strerror}"
    return [f"log: {problem}"] if problem else []


def _problem_of(file: Path) -> str:
    """Why a log cannot be written to this file; "" if it can."""
    if file.is_dir():
        return f"{file} is a folder; give the path of a file"
    if not file.exists():
        return _problem_of_folder(file.parent)
    if not os.access(file, os.W_OK | (os.R_OK if file.is_file() else 0)):
        return f"{file} cannot be written"
    if file.is_file() and _first_byte(file) not in (b"", b"{"):
        return f"{file} is there and is no log; give another file"
    return ""


def _problem_of_folder(folder: Path) -> str:
    if not folder.is_dir():
        return f"there is no folder {folder}"
    return "" if os.access(folder, os.W_OK | os.X_OK) else f"the folder {folder} cannot be written"


def _first_byte(file: Path) -> bytes:
    with file.open("rb") as opened:
        return opened.read(1)


class RunLog:
    """A log file that a thread of its own ("peira-log") appends to while a run goes on.

    A context manager: on exit, the remaining events are written.
    """

    def __init__(self, path: str | Path) -> None:
        """Open the file; raises Invalid if that is impossible."""
        if problems := problems_of(path):
            raise Invalid(problems)
        self._path = Path(path)
        try:
            self._file = self._path.open("ab")
        except OSError as problem:
            raise Invalid(f"log: {path} cannot be written: {problem.strerror}") from None
        self._over = threading.Event()
        self._thread: threading.Thread | None = None

    def follow(self, store: Store, run: str) -> None:
        """Start writing the run's events, from the first one on."""
        self._store, self._run, self._after = store, run, 0
        self._thread = threading.Thread(target=self._serve, name="peira-log", daemon=True)
        self._thread.start()

    def __enter__(self) -> RunLog:
        return self

    def __exit__(self, *_: object) -> None:
        """The run is over: wait until the remaining events are written."""
        if self._thread is None:
            self._file.close()
            return
        self._over.set()
        self._thread.join()

    def _serve(self) -> None:
        """Poll the store and append new events; the main loop of the log's thread."""
        try:
            with self._file:
                self._complete_last_line()
                while not self._over.wait(POLL):
                    self._catch_up()
                self._catch_up()
        except Exception as problem:  # of the disk or the store: the run reports it itself, or goes on
            log.warning("the log %s ends at event %d: %s", self._path, self._after, problem)

    def _complete_last_line(self) -> None:
        """End a half-written line that a killed process may have left."""
        if self._path.is_file() and self._path.stat().st_size:
            with self._path.open("rb") as opened:
                opened.seek(-1, os.SEEK_END)
                if opened.read(1) != b"\n":
                    self._file.write(b"\n")

    def _catch_up(self) -> None:
        """Append all events that are new."""
        while records := self._store.events(self._run, self._after, CHUNK):
            self._file.write(b"".join(map(_line, records)))
            self._file.flush()
            self._after = records[-1].seq


def _line(record: Record) -> bytes:
    return encode({"run": record.run, **event_values(record)}) + b"\n"
