"""The progress of a work plan on standard error: a line for each unit that runs, and one for each end."""

from __future__ import annotations

import sys
import time
from typing import Any

from peira.core.log.events import State
from peira.core.text.secrets import without_keys
from peira.core.text.terminal import printable
from peira.core.text.words import lasting
from peira.engine.progress import Progress
from peira.engine.work.monitor import LiveUnit, UnitEnd, WorkMonitor
from peira.report.progress import Silent

MOST_LINES = 20
"""The units that are shown while they run."""


def work_display(plan: str, monitor: WorkMonitor, wanted: bool | None) -> WorkDisplay:
    """The display that fits: live lines in a terminal, one line for each end elsewhere."""
    if wanted is False:
        return WorkDisplay(monitor, quiet=True)
    return LiveLines(monitor) if sys.stderr.isatty() else WorkDisplay(monitor)


class WorkDisplay(Silent):
    """Prints how each unit ended, once."""

    def __init__(self, monitor: WorkMonitor, quiet: bool = False) -> None:
        self._monitor, self._quiet = monitor, quiet

    def __enter__(self) -> WorkDisplay:
        return self

    def __call__(self, progress: Progress) -> None:
        while self._monitor.ends:
            one = self._monitor.ends.popleft()
            if not self._quiet:
                self._say(end_line(one))

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


def end_line(one: UnitEnd) -> str:
    """How a unit ended, in a line."""
    why = f": {one.why.splitlines()[0]}" if one.why else ""
    took = " (reused)" if one.reused else f" in {lasting(one.took)}" if one.state is State.succeeded else ""
    return printable(without_keys(f"{one.name}: {one.state.value}{took}{why}"))


def live_line(one: LiveUnit, now: float, width: int) -> str:
    """A running unit: its name, for how long, what it cost, and the last line that it printed."""
    cost = "" if one.cost is None else f"  ${one.cost:.4f}"
    text = f"  {one.name}  {lasting(now - one.began)}{cost}  {one.log.last_line()}"
    return printable(without_keys(text)).rstrip()[: max(20, width - 1)]


class LiveLines(WorkDisplay):
    """In a terminal: ends scroll by, and below them is a line for each unit that is running."""

    def __init__(self, monitor: WorkMonitor) -> None:
        from rich.console import Console
        from rich.live import Live

        super().__init__(monitor)
        self._console = Console(stderr=True, highlight=False, markup=False)
        self._live: Any = Live(console=self._console, transient=True, auto_refresh=False)

    def __enter__(self) -> LiveLines:
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._live.stop()

    def __call__(self, progress: Progress) -> None:
        super().__call__(progress)
        from rich.text import Text

        now, width = time.monotonic(), self._console.width
        running = sorted(self._monitor.running.values(), key=lambda one: one.began)
        lines = [live_line(one, now, width) for one in running[:MOST_LINES]]
        if len(running) > MOST_LINES:
            lines.append(f"  and {len(running) - MOST_LINES} more are running")
        counts = self._monitor.counts
        ended = ", ".join(f"{n:,} {state.value}" for state, n in sorted(counts.items()))
        total = f" of {progress.total:,}" if progress.total is not None else ""
        head = f"{progress.done:,}{total} units done{f' ({ended})' if ended else ''}"
        self._live.update(Text("\n".join([head, *lines])), refresh=True)

    def _say(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def notice(self, text: str) -> None:
        self._say(printable(f"peira: {text}"))
