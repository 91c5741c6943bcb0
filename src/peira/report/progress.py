"""Progress on standard error (a bar in a terminal, a line every few seconds elsewhere), or to a callback."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager
from types import TracebackType
from typing import Any, Protocol

from peira.core.text.terminal import printable
from peira.core.text.words import duration
from peira.engine.progress import Progress
from peira.errors import message_of

LINE_EVERY = 5.0
LAST_WAIT = 5.0
"""Seconds that a callback has for the last progress, once the run is over."""
ProgressOption = bool | Callable[[Progress], None] | None
"""Whether progress is shown (None: as fits the terminal), or the function that is given it."""
log = logging.getLogger("peira")


class Display(Protocol):
    def __enter__(self) -> Display: ...
    def __exit__(
        self, kind: type[BaseException] | None, value: object, trace: TracebackType | None
    ) -> None: ...
    def __call__(self, progress: Progress) -> None: ...
    def notice(self, text: str) -> None: ...


def display(study: str, wanted: ProgressOption) -> Display:
    """The display that fits: `wanted` None shows a bar in a terminal and lines elsewhere."""
    if callable(wanted):
        return ProgressCallback(wanted)
    if wanted is False:
        return Silent()
    return Bar(study) if sys.stderr.isatty() else Lines(study)


class Silent(AbstractContextManager["Silent"]):
    def __exit__(self, *_: object) -> None:
        return None

    def __call__(self, progress: Progress) -> None:
        return None

    def notice(self, text: str) -> None:
        print(printable(f"peira: {text}"), file=sys.stderr, flush=True)


class Lines(Silent):
    """For logs: one line every few seconds, none for what is over before."""

    def __init__(self, study: str) -> None:
        self._study = study
        self._next = time.monotonic() + LINE_EVERY

    def __call__(self, progress: Progress) -> None:
        if time.monotonic() >= self._next:
            self._next = time.monotonic() + LINE_EVERY
            print(printable(f"{self._study}: {describe(progress)}"), file=sys.stderr, flush=True)


class ProgressCallback(Silent):
    """Hands progress to a function, on a thread of its own: one that sleeps costs the run nothing.

    It gets the newest there is when it returns, and the last in the end. If it fails, that is logged once,
    and it is called no more.
    """

    def __init__(self, callback: Callable[[Progress], None]) -> None:
        self._callback = callback
        self._newest: Progress | None = None
        self._over = False
        self._changed = threading.Condition()
        self._thread = threading.Thread(target=self._serve, name="peira-progress", daemon=True)

    def __enter__(self) -> ProgressCallback:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._over = True
            self._changed.notify()
        self._thread.join(LAST_WAIT)

    def __call__(self, progress: Progress) -> None:
        with self._changed:
            self._newest = progress
            self._changed.notify()

    def _serve(self) -> None:
        """Call the function with whatever is newest, until the run is over or it fails."""
        while (progress := self._next()) is not None:
            try:
                self._callback(progress)
            except BaseException as problem:  # a failing callback must never stop a run
                log.warning(
                    "progress callback failed and is not called again: %s: %s",
                    type(problem).__name__,
                    printable(message_of(problem)),
                )
                return

    def _next(self) -> Progress | None:
        """Wait for progress that was not handed over yet; None if the run is over and there is none."""
        with self._changed:
            while self._newest is None and not self._over:
                self._changed.wait()
            newest, self._newest = self._newest, None
            return newest


class Bar:
    def __init__(self, study: str) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TextColumn
        from rich.progress import Progress as RichProgress

        self._study = study
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[words]}", markup=False),
        )
        self._rich = RichProgress(*columns, console=Console(stderr=True), transient=True)
        self._task: Any = None
        self._told: set[str] = set()

    def __enter__(self) -> Bar:
        self._rich.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._rich.stop()

    def __call__(self, progress: Progress) -> None:
        if self._task is None:
            self._task = self._rich.add_task(printable(self._study), total=progress.total, words="")
        self._update(progress)
        self._tell(progress.waits)

    def _tell(self, waits: tuple[str, ...]) -> None:
        """Say in full what is waited for, once each time that begins: the bar may have no space for it."""
        waiting = {line.partition(":")[0]: line for line in waits}
        for what in waiting.keys() - self._told:
            self.notice(waiting[what])
        self._told = set(waiting)

    def notice(self, text: str) -> None:
        self._rich.console.print(printable(f"peira: {text}"), markup=False, highlight=False)

    def _update(self, progress: Progress) -> None:
        self._rich.update(
            self._task, completed=progress.done, total=progress.total, words=printable(describe(progress))
        )


def describe(progress: Progress) -> str:
    """Done, reused, failed, running, rate, time left: what there is of it, in a few words."""
    of = "" if progress.total is None else f"/{progress.total}"
    words = [f"{progress.done}{of} trials"]
    words += [f"{progress.reused} reused"] * bool(progress.reused)
    words += [f"{progress.failed} failed"] * bool(progress.failed)
    words += [f"{progress.exhausted} exhausted"] * bool(progress.exhausted)
    words += [f"{progress.cancelled} cancelled"] * bool(progress.cancelled)
    words += [f"{progress.running} running"] * bool(progress.running)
    words += [f"{progress.waiting} waiting for batches"] * bool(progress.waiting)
    if progress.rate > 0:
        words.append(f"{progress.rate:,.1f}/s" if progress.rate < 100 else f"{progress.rate:,.0f}/s")
    if progress.left is not None and progress.done != progress.total:
        words.append(f"{duration(progress.left)} left")
    return " | ".join([", ".join(words), *progress.waits, *([str(progress.look)] if progress.look else [])])
