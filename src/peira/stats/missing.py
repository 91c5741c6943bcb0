"""What failed or never finished has no score, and whoever leaves it out assumes it was like the rest.

The complete-case estimate stands beside the two extremes: every missing value the worst the score can be, and
every one the best. The truth for all cases lies between those, whatever made the values go missing.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import flat
from peira.stats.intervals import estimate
from peira.stats.values import Estimate


@dataclass(frozen=True)
class Bounds:
    """`low` and `high` are None where the score has no worst or best value.

    `lowest` and `highest` are the outer bounds of the intervals of the two extremes: sampling and missingness
    together. `complete` is None when everything is missing.
    """

    complete: Estimate | None
    low: float | None
    high: float | None
    lowest: float | None
    highest: float | None
    missing: int


def bounds(
    values: ArrayLike,
    clusters: Iterable[Hashable],
    missing: Iterable[Hashable],
    worst: float | None = 0.0,
    best: float | None = 1.0,
    level: float = 0.95,
) -> Bounds:
    """The scores that are there with their clusters, and the clusters of those that are not.

    `worst` and `best` are the smallest and largest possible score; None for a score without such an end.
    """
    known, labels, lost = np.asarray(values, dtype=np.float64), list(clusters), list(missing)
    if known.size != len(labels):
        raise ValueError(f"{known.size} values, but {len(labels)} cluster labels")
    if worst is not None and best is not None and not worst < best:
        raise ValueError(f"the worst value must lie below the best, not {worst} and {best}")
    if known.size and not _inside(known, worst, best):
        raise ValueError(f"every value must lie between {worst} and {best}")
    complete = estimate(flat(known), labels, level) if known.size else None
    ends = [_filled(known, labels, lost, end, level) for end in (worst, best)]
    low, high = (None if end is None else end.mean for end in ends)
    lowest = None if ends[0] is None else ends[0].low
    highest = None if ends[1] is None else ends[1].high
    return Bounds(complete, low, high, lowest, highest, len(lost))


def _filled(
    known: np.ndarray, labels: list[Hashable], lost: list[Hashable], end: float | None, level: float
) -> Estimate | None:
    if (end is None and lost) or not (labels or lost):
        return None
    filled = np.concatenate([known, np.full(len(lost), end or 0.0)])
    return estimate(filled, labels + lost, level)


def _inside(known: np.ndarray, worst: float | None, best: float | None) -> bool:
    return (worst is None or float(known.min()) >= worst) and (best is None or float(known.max()) <= best)
