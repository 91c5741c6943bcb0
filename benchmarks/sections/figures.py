"""Converts measured rows to figures and text tables; nothing is measured here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from statistics import median

from sections.processes import Row

Rows = dict[str, list[Row]]
Figure = Callable[[Row], float]


@dataclass(frozen=True)
class Section:
    """A table, the raw measurements as JSON, and what could not be measured.

    A `failed` line is about this project, a `skipped` one about another package.
    """

    title: str
    header: tuple[str, ...]
    lines: list[tuple[str, ...]]
    data: dict[str, object]
    notes: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    skipped: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """The table as aligned text: labels to the left, figures to the right."""
        table = [self.header, *self.lines]
        widths = [max(map(len, column)) for column in zip(*table, strict=True)]
        lines = ["  ".join(_aligned(line, widths)).rstrip() for line in table]
        missing = [f"not measured: {why}" for why in (*self.failed, *self.skipped)]
        return "\n".join([self.title, *lines, *self.notes, *missing])


def rate(row: Row) -> float:
    """Trials per second."""
    return row.n / row.seconds


def time_each(row: Row) -> float:
    """Seconds per trial."""
    return row.seconds / row.n


def cpu_each(row: Row) -> float:
    """CPU microseconds per trial."""
    return row.cpu_seconds / row.n * 1e6


def bytes_each(row: Row) -> float:
    """Bytes on disk per trial."""
    return row.bytes / row.n


def memory(row: Row) -> float:
    """Peak memory in MB."""
    return row.rss_mb


def middle(rows: Sequence[Row], figure: Figure) -> float:
    """The median of a figure over rounds."""
    return median(map(figure, rows))


def ratio(ours: Sequence[Row], theirs: Sequence[Row], figure: Figure) -> float:
    """The median over rounds of the ratio of ours to theirs, both measured in the same round."""
    return median(figure(a) / figure(b) for a, b in zip(ours, theirs, strict=False))


def times(value: float | None) -> str:
    """A ratio as text."""
    if value is None:
        return "-"
    return f"{value:,.0f} x" if value >= 100 else f"{value:.3g} x"


COST = ("n", "trials/s", "CPU µs/trial", "bytes/trial", "peak MB")
"""The header of the columns of `cost`."""


def cost(rows: Sequence[Row]) -> tuple[str, ...]:
    """The columns of `COST`: medians, and the best rate in brackets."""
    rates = f"{middle(rows, rate):,.0f} ({max(map(rate, rows)):,.0f})"
    each = f"{middle(rows, cpu_each):,.1f}", f"{middle(rows, bytes_each):,.0f}"
    return f"{rows[0].n:,}", rates, *each, f"{middle(rows, memory):,.0f}"


def data(rows: Rows, ratios: dict[str, float]) -> dict[str, object]:
    """The rows and ratios as JSON."""
    return {"rows": {label: [asdict(row) for row in kept] for label, kept in rows.items()}, "ratios": ratios}


def _aligned(line: tuple[str, ...], widths: list[int]) -> list[str]:
    first, *rest = zip(line, widths, strict=True)
    return [first[0].ljust(first[1]), *(cell.rjust(width) for cell, width in rest)]
