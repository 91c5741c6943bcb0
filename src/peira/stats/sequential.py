"""A mean difference followed while values come: at any moment, or at planned looks.

Both take two values a unit: the difference had every lost trial gone against the first side, and had it gone
for it. The lower bound rests on the one, the upper on the other, so that what is decided holds whatever the
lost trials would have been: no side can win by failing.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Literal, Protocol

from peira.stats import normal
from peira.stats.betting import Bets
from peira.stats.spending import Spending, boundaries, conditional_power


@dataclass(frozen=True)
class Seen:
    """An interval that holds at every look at once. `hope` is the chance to end beyond 0 if the trend goes
    on, where that can be said."""

    mean: float | None
    low: float
    high: float
    hope: float | None = None


class Followed(Protocol):
    def add(self, worst: float, best: float) -> None:
        """The next unit: its least and its greatest possible value."""
        ...

    def due(self) -> bool:
        """Whether this is a moment to look; asked after each unit."""
        ...

    def now(self) -> Seen: ...


class Always:
    """Looked at whenever one likes, by betting. Values lie within [-width, width].

    Values are gathered between looks, which come after every unit at first, and later after each hundredth
    more: looking less often costs nothing but delay."""

    def __init__(self, width: float, level: float, least: int) -> None:
        self._width, self._next, self._n = width, least, 0
        self._worst = self._best = Bets(-width, width, level)
        self._gathered: list[tuple[float, float]] = []

    def add(self, worst: float, best: float) -> None:
        if worst != best and self._best is self._worst:
            self._flush()
            self._best = copy.deepcopy(self._worst)
        self._n += 1
        self._gathered.append((self._within(worst), self._within(best)))

    def _within(self, value: float) -> float:
        return max(-self._width, min(self._width, value))  # means of means may be off by a rounding

    def due(self) -> bool:
        if self._n < self._next:
            return False
        self._next = max(self._n + 1, math.ceil(1.01 * self._n))
        return True

    def _flush(self) -> None:
        if self._gathered:
            worst, best = zip(*self._gathered, strict=True)
            self._gathered = []
            self._worst.add(worst)
            if self._best is not self._worst:
                self._best.add(best)

    def now(self) -> Seen:
        self._flush()
        low, high = self._worst.now(), self._best.now()
        middle = None if low.mean is None or high.mean is None else (low.mean + high.mean) / 2
        return Seen(middle, min(low.low, high.high), max(low.low, high.high))


class Grouped:
    """Looked at a planned number of times, evenly over the planned units: a t statistic against boundaries
    that spend alpha. The interval is the repeated one, which holds at all looks together.

    A look with less than `least` units is left out; its alpha is spent at the next. Where values hardly vary,
    the spread is taken as if one unit had: a few equal values are no proof of no variance."""

    def __init__(
        self, width: float, level: float, least: int, looks: int, planned: int, spending: Spending
    ) -> None:
        at = sorted({math.ceil(planned * k / looks) for k in range(1, looks + 1)})
        self._at = [n for n in at if n >= min(max(least, 2), planned)]
        limits = boundaries([n / planned for n in self._at], 1 - level, spending)
        self._limits = {n: look.z for n, look in zip(self._at, limits, strict=True)}
        self._width, self._planned, self._final = width, planned, limits[-1].z
        self._worst, self._best = _Moments(width), _Moments(width)
        self._found = Seen(None, -width, width)
        self._seen = 0

    def add(self, worst: float, best: float) -> None:
        self._worst.add(worst)
        self._best.add(best)

    def due(self) -> bool:
        return self._worst.n in self._limits and self._worst.n != self._seen

    def now(self) -> Seen:
        """As of the last planned look, or of this one."""
        n = self._worst.n
        if n in self._limits and n != self._seen:
            self._seen, self._found = n, self._look(n)
        return self._found

    def _look(self, n: int) -> Seen:
        z, width = self._limits[n], self._width
        low, high = self._worst.mean - self._worst.reach(z), self._best.mean + self._best.reach(z)
        mean = (self._worst.mean + self._best.mean) / 2
        return Seen(mean, max(-width, low), min(width, high), self._hope(n))

    def _hope(self, n: int) -> float | None:
        if n >= self._planned:
            return None
        ends = [conditional_power(one.z, n / self._planned, self._final) for one in (self._worst, self._best)]
        return max(ends)


class _Moments:
    """Mean and spread of values, as they come (Welford)."""

    def __init__(self, width: float) -> None:
        self.n, self.mean, self._squares, self._floor = 0, 0.0, 0.0, (width / 2) ** 2

    def add(self, value: float) -> None:
        self.n += 1
        step = value - self.mean
        self.mean += step / self.n
        self._squares += step * (value - self.mean)

    @property
    def error(self) -> float:
        return math.sqrt((self._squares + self._floor) / (self.n - 1) / self.n)

    def reach(self, z: float) -> float:
        """How far the interval reaches: the quantile of t that has the tail of z."""
        from scipy.stats import t

        if math.isinf(z) or self.n < 2:
            return math.inf
        return float(t.isf(normal.p_value(z, "greater"), self.n - 1)) * self.error

    @property
    def z(self) -> float:
        """The standard normal value that is as rare as this t."""
        from scipy.special import ndtri
        from scipy.stats import t

        if self.n < 2:
            return 0.0
        tail = float(t.sf(abs(self.mean) / self.error, self.n - 1))
        return math.copysign(-float(ndtri(tail)), self.mean)


def follow(
    width: float,
    level: float,
    least: int,
    looks: int | Literal["always"],
    planned: int,
    spending: Spending = "obrien-fleming",
) -> Followed:
    """A difference within [-width, width], followed as is asked."""
    if looks == "always":
        return Always(width, level, least)
    return Grouped(width, level, least, looks, planned, spending)
