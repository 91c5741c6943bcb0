"""Whether the mean of what keeps arriving meets a limit, with a verdict that may be looked at for ever.

A goal is about a window of time that moves on. Windows begin at steps of half their length, counted from the
goal's own beginning; the one in use is the last that is at least as long as was asked for (so it is at most
half as long again). Window k has the share alpha / ((k + 1) (k + 2)) of the error; these add up to alpha.
Within it the confidence sequence of `RunningMean` holds at every look. So the chance that a goal *ever* gives
a wrong verdict, over its whole life, is at most alpha.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from peira.stats.sequential.randomisation import ArmPredictions
from peira.stats.sequential.running_mean import BracketedMean, SequencePath, SequencePoint

GoalVerdict = Literal["met", "missed", "undecided"]
Relation = Literal[">=", "<="]
STEPS = 2
"""Beginnings of windows in the length of one."""


@dataclass(frozen=True)
class GoalStatus:
    """The verdict on a goal, with the mean of the window, its confidence sequence and the number of values.

    `since` is when the window begins; `lost` of the `n` values are unknown, and count as the worst for the
    lower end and as the best for the upper end. Ends are infinite where nothing is known. `path` is the
    sequence as values came, if it was asked for.
    """

    verdict: GoalVerdict
    mean: float | None
    low: float
    high: float
    n: int
    lost: int
    since: float
    path: tuple[SequencePoint, ...] = ()


def window(begin: float, now: float, over: float | None) -> tuple[int, float]:
    """The number of the window in use, and when it begins; without a length there is one window, for ever."""
    if over is None:
        return 0, begin
    k = max(0, math.floor((now - over - begin) * STEPS / over))
    return k, begin + k * over / STEPS


def goal_status(
    values: Iterable[tuple[float, float | None]],
    relation: Relation,
    limit: float,
    *,
    begin: float,
    now: float,
    over: float | None = None,
    limits: tuple[float, float] | None = (0.0, 1.0),
    alpha: float = 0.05,
    with_path: bool = False,
) -> GoalStatus:
    """The verdict on "the mean is at least (or at most) `limit`, over the last `over` seconds".

    `values` are times and values in the order of arrival; None is a value that was lost. `begin` is when the
    goal began to be looked at: it must stay the same, since the error is spent from there on. `limits` are
    the least and the greatest possible value; without them the sequence is asymptotic, and lost values are
    left out. Raises ValueError for a value outside the limits.
    """
    k, since = window(begin, now, over)
    level = 1 - alpha / ((k + 1) * (k + 2))
    width = None if limits is None else limits[1] - limits[0]
    mean, predictions, lost = BracketedMean(width, level, reach=limits), ArmPredictions(1, limits), 0
    within = [value for at, value in values if since <= at <= now]
    path = SequencePath(len(within))
    for value in within:
        if value is None:
            lost += 1
        elif limits is not None and not limits[0] <= value <= limits[1]:
            raise ValueError(f"{value:g} does not lie within [{limits[0]:g}, {limits[1]:g}]")
        if (ends := limits if value is None else (value, value)) is None:
            continue
        mean.add(*ends, predictions.of(0))
        if value is not None:
            predictions.add(0, value)
        if with_path:
            path.look(mean)
    known, found = predictions.counts[0], mean.now()
    seen = predictions.sums[0] / known if known else None
    verdict = _verdict(relation, limit, found.low, found.high)
    return GoalStatus(
        verdict,
        seen,
        found.low,
        found.high,
        known + lost,
        lost,
        since,
        path.points(mean) if with_path else (),
    )


def _verdict(relation: Relation, limit: float, low: float, high: float) -> GoalVerdict:
    if relation == ">=":
        return "met" if low >= limit else "missed" if high < limit else "undecided"
    return "met" if high <= limit else "missed" if low > limit else "undecided"
