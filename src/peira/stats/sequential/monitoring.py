"""Monitors of a mean difference while values arrive: at any time, or at planned looks.

Each unit contributes two values: the difference if every lost trial had gone against the first side, and if
it had gone in its favour. The lower bound uses the former and the upper bound the latter, so that a decision
holds whatever the lost trials would have been, and failing trials cannot help a side.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal, Protocol

import numpy as np

from peira.stats import normal
from peira.stats.inputs import Floats
from peira.stats.intervals.bounded import BoundedSample
from peira.stats.intervals.means import t_suffices
from peira.stats.sequential.confidence_sequence import ConfidenceSequence
from peira.stats.sequential.group_sequential import Spending, boundaries, conditional_power


@dataclass(frozen=True)
class MonitoredMean:
    """An interval that holds at all looks simultaneously.

    `hope` is the conditional power if the current trend continues, None where it is not defined.
    """

    mean: float | None
    low: float
    high: float
    hope: float | None = None


class Monitor(Protocol):
    """The protocol of monitors: add units, ask whether a look is due, and read the interval."""

    def add(self, worst: float, best: float) -> None:
        """Add the next unit with its least and its greatest possible value."""
        ...

    def due(self) -> bool:
        """Whether to look now; called after each unit."""
        ...

    def now(self) -> MonitoredMean:
        """The current interval."""
        ...


class AnytimeMonitor:
    """A monitor for any number of looks, by confidence sequences; values lie in [-width, width].

    Values are buffered between looks. Looks come after every unit at first, later after each additional
    percent of units: fewer looks only cost delay.
    """

    def __init__(self, width: float, level: float, least: int) -> None:
        self._width, self._next, self._n = width, least, 0
        self._worst = self._best = ConfidenceSequence(-width, width, level)
        self._buffer: list[tuple[float, float]] = []

    def add(self, worst: float, best: float) -> None:
        """Add a unit; one sequence serves both bounds until the first lost trial."""
        if worst != best and self._best is self._worst:
            self._flush()
            self._best = copy.deepcopy(self._worst)
        self._n += 1
        self._buffer.append((self._within(worst), self._within(best)))

    def _within(self, value: float) -> float:
        """Clip to the range: means of means may exceed it by rounding."""
        return max(-self._width, min(self._width, value))  # rounding of means of means

    def due(self) -> bool:
        """Whether a look is due, by the number of units since the last one."""
        if self._n < self._next:
            return False
        self._next = max(self._n + 1, math.ceil(1.01 * self._n))
        return True

    def _flush(self) -> None:
        """Add the buffered values to the confidence sequences."""
        if self._buffer:
            worst, best = zip(*self._buffer, strict=True)
            self._buffer = []
            self._worst.add(worst)
            if self._best is not self._worst:
                self._best.add(best)

    def now(self) -> MonitoredMean:
        """The current interval: the lower bound of the worst case to the upper bound of the best."""
        self._flush()
        low, high = self._worst.now(), self._best.now()
        middle = None if low.mean is None or high.mean is None else (low.mean + high.mean) / 2
        return MonitoredMean(middle, min(low.low, high.high), max(low.low, high.high))


class GroupSequentialMonitor:
    """A monitor with equally spaced planned looks: a t statistic against alpha-spending boundaries.

    The interval is the repeated confidence interval, which holds at all looks simultaneously. A look with
    fewer than `least` units is skipped, and its alpha is spent at the next. The variance has a floor, as if
    one unit had differed, so that a few equal values do not count as zero variance.

    The boundaries are for means that are close to normal. Where that cannot be told (`t_suffices`: few
    values, or skewed ones), the interval also includes that of `BoundedSample` with the alpha spent since
    the last look, which makes no assumption about the values.
    """

    def __init__(
        self, width: float, level: float, least: int, looks: int, planned: int, spending: Spending
    ) -> None:
        at = sorted({math.ceil(planned * k / looks) for k in range(1, looks + 1)})
        self._at = [n for n in at if n >= min(max(least, 2), planned)]
        limits = boundaries([n / planned for n in self._at], 1 - level, spending)
        self._limits = {n: look.z for n, look in zip(self._at, limits, strict=True)}
        spent = [0.0, *(look.spent for look in limits)]
        self._tails = {n: (b - a) / 2 for n, a, b in zip(self._at, spent, spent[1:], strict=False)}
        self._values: list[tuple[float, float]] = []
        self._width, self._planned, self._final = width, planned, limits[-1].z
        self._worst, self._best = _Moments(width), _Moments(width)
        self._found = MonitoredMean(None, -width, width)
        self._last_look = 0

    def add(self, worst: float, best: float) -> None:
        """Add a unit to both imputations."""
        self._values.append((worst, best))
        self._worst.add(worst)
        self._best.add(best)

    def due(self) -> bool:
        """Whether the number of units is that of a planned look not yet taken."""
        return self._worst.n in self._limits and self._worst.n != self._last_look

    def now(self) -> MonitoredMean:
        """The interval as of the latest planned look, including the current one."""
        n = self._worst.n
        if n in self._limits and n != self._last_look:
            self._last_look, self._found = n, self._look(n)
        return self._found

    def _look(self, n: int) -> MonitoredMean:
        """The repeated confidence interval at n units."""
        z, width = self._limits[n], self._width
        low, high = self._worst.mean - self._worst.reach(z), self._best.mean + self._best.reach(z)
        worst, best = (np.clip(column, -width, width) for column in np.array(self._values).T)
        normal = self._is_normal(worst)
        if not normal:
            low = min(low, BoundedSample.of(worst, None, (-width, width)).low(self._tails[n]))
        if not (normal if (worst == best).all() else self._is_normal(best)):
            high = max(high, BoundedSample.of(best, None, (-width, width)).high(self._tails[n]))
        mean = (self._worst.mean + self._best.mean) / 2
        return MonitoredMean(mean, max(-width, low), min(width, high), self._hope(n))

    def _is_normal(self, values: Floats) -> bool:
        """Whether Student's t is as good as the interval without assumptions."""
        return t_suffices(values, np.arange(values.size), values.size, (-self._width, self._width))

    def _hope(self, n: int) -> float | None:
        """The conditional power at n units, the larger of both imputations; None at the last look."""
        if n >= self._planned:
            return None
        powers = [
            conditional_power(one.z, n / self._planned, self._final) for one in (self._worst, self._best)
        ]
        return max(powers)


class _Moments:
    """Running mean and variance by Welford's algorithm."""

    def __init__(self, width: float) -> None:
        self.n, self.mean, self._squares, self._floor = 0, 0.0, 0.0, (width / 2) ** 2

    def add(self, value: float) -> None:
        """Update the mean and the sum of squares."""
        self.n += 1
        step = value - self.mean
        self.mean += step / self.n
        self._squares += step * (value - self.mean)

    @property
    def error(self) -> float:
        """The standard error of the mean, with the variance floor."""
        return math.sqrt((self._squares + self._floor) / (self.n - 1) / self.n)

    def reach(self, z: float) -> float:
        """The half-width: the t quantile with the tail probability of z, times the error."""
        from scipy.stats import t

        if math.isinf(z) or self.n < 2:
            return math.inf
        return float(t.isf(normal.p_value(z, "greater"), self.n - 1)) * self.error

    @property
    def z(self) -> float:
        """The z statistic with the same tail probability as the t statistic."""
        from scipy.special import ndtri
        from scipy.stats import t

        if self.n < 2:
            return 0.0
        tail = float(t.sf(abs(self.mean) / self.error, self.n - 1))
        return math.copysign(-float(ndtri(tail)), self.mean)


def monitor(
    width: float,
    level: float,
    least: int,
    looks: int | Literal["always"],
    planned: int,
    spending: Spending = "obrien-fleming",
) -> Monitor:
    """The monitor of a difference in [-width, width]: anytime, or with planned looks.

    `looks` is "always" or the number of looks over the `planned` units. No look is taken before `least`
    units, unless fewer are planned. `spending` applies to planned looks only.
    """
    if looks == "always":
        return AnytimeMonitor(width, level, least)
    return GroupSequentialMonitor(width, level, least, looks, planned, spending)
