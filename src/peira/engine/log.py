"""The log of a run: one JSON line for each of its events, in a file, as they happen.

A log follows the store and never the engine, so a line is written only for what is durable, and says what
the store says. It is complete when the run is over: every event, in order, none twice. What cannot be
written (a full disk) is told once and ends the log; it never fails a run.
"""

from __future__ import annotations

import logging
import os
import threading
from pathlib import Path
from typing import Any

import msgspec

from peira.core.clock import stamp
from peira.core.codec import encode
from peira.core.contracts import Store
from peira.core.events import Record
from peira.errors import Invalid

POLL = 0.1
CHUNK = 256
"""Events read at once: few, because the store's readers take turns."""
log = logging.getLogger("peira")


def recorded(record: Record) -> dict[str, Any]:
    """An event as plain values: number, time, kind, then what it says."""
    body = msgspec.json.decode(encode(record.event))
    return {"seq": record.seq, "at": stamp(record.at), **body}


def problems_of(path: str | Path) -> list[str]:
    """Why a log cannot be kept there; nothing is written to find out."""
    if not str(path) or "\0" in str(path):
        return [f"log: {str(path)!r} is not the path of a file"]
    try:
        problem = _problem_of(Path(path))
    except OSError as refused:
        problem = f"{path} cannot be written: {refused.strerror}"
    return [f"log: {problem}"] if problem else []


def _problem_of(file: Path) -> str:
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
    with file.open("rb") as there:
        return there.read(1)


class Log:
    """A file that is appended to while a run is followed, in a thread of its own."""

    def __init__(self, path: str | Path) -> None:
        """Opens the file; Invalid if that cannot be done."""
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
        """Write the run's events, from the first on, until the log is left."""
        self._store, self._run, self._after = store, run, 0
        self._thread = threading.Thread(target=self._serve, name="peira-log", daemon=True)
        self._thread.start()

    def __enter__(self) -> Log:
        return self

    def __exit__(self, *_: object) -> None:
        """The run is over: what is not written yet is written now."""
        if self._thread is None:
            self._file.close()
            return
        self._over.set()
        self._thread.join()

    def _serve(self) -> None:
        try:
            with self._file:
                self._begin_a_line()
                while not self._over.wait(POLL):
                    self._catch_up()
                self._catch_up()
        except Exception as problem:  # of the disk, or of the store: the run itself will say so, or go on
            log.warning("the log %s ends at event %d: %s", self._path, self._after, problem)

    def _begin_a_line(self) -> None:
        """A process that was killed may have left half of one."""
        if self._path.is_file() and self._path.stat().st_size:
            with self._path.open("rb") as there:
                there.seek(-1, os.SEEK_END)
                if there.read(1) != b"\n":
                    self._file.write(b"\n")

    def _catch_up(self) -> None:
        while records := self._store.events(self._run, self._after, CHUNK):
            self._file.write(b"".join(map(_line, records)))
            self._file.flush()
            self._after = records[-1].seq


def _line(record: Record) -> bytes:
    return encode({"run": record.run, **recorded(record)}) + b"\n"
