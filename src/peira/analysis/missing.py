"""What failed, did not finish or got no verdict has no score: what the means could be, had all gone badly, or
well."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from peira.analysis import layout
from peira.analysis.groups import Unit
from peira.core.ids import Json
from peira.stats.missing import bounds

MOST = 8
"""So many groups are told of; the others are counted."""


@dataclass(frozen=True)
class Loss:
    """One score of one group: the values that are there, and the units of those that are not."""

    labels: tuple[Json, ...]
    score: str
    values: Sequence[float]
    units: Sequence[Unit]
    lost: Sequence[Unit]


def remarks(losses: Iterable[Loss], level: float) -> Iterator[str]:
    """A line for each group that lost values; none if nothing is lost."""
    some = [loss for loss in losses if loss.lost]
    yield from (_remark(loss, level) for loss in some[:MOST])
    if len(some) > MOST:
        yield f"and {len(some) - MOST} more means with lost trials"


def _remark(loss: Loss, level: float) -> str:
    name = ", ".join([*map(layout.cell, loss.labels), loss.score])
    lost = f"{len(loss.lost)} lost {'trial' if len(loss.lost) == 1 else 'trials'}"
    if not all(0 <= value <= 1 for value in loss.values):
        return f"{name}: the mean with {lost} has no known bounds"
    found = bounds(loss.values, loss.units, loss.lost, level=level)
    inner, outer = _span(found.low, found.high), _span(found.lowest, found.highest)
    return f"{name}: with {lost} at worst or best {inner}, {100 * level:g}% bounds {outer}"


def _span(low: float | None, high: float | None) -> str:
    return " to ".join("unknown" if end is None else f"{end:.3f}" for end in (low, high))
