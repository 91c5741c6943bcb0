"""Confidence sequences for running means whose values may drift, and whose weights may depend on the past.

Values arrive one by one, each with a prediction made before it was seen. The running mean of their
*conditional* means (given everything before each) is covered at every sample size at once, however these
drift and whatever they depend on: no identical distribution and no independence is assumed.

- `RunningMean`, for values that deviate from their predictions by at most a known `scale`: empirical
  Bernstein (Howard, Ramdas, McAuliffe and Sekhon 2021, theorem 4). With deviations x of at least -scale,
  exp(lambda S - psi(lambda) V), where S is the sum of the errors and V that of the squared deviations, is a
  nonnegative supermartingale for every lambda; it is mixed over a gamma distribution of lambda, which has a
  closed form (their proposition 9), and Ville's inequality bounds it for all times.
- `UnboundedRunningMean`, for values without known limits: the asymptotic confidence sequence of Waudby-Smith,
  Arbour, Sinha, Kennedy and Ramdas (2024). It is right for many values, and says nothing of the first ones.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from peira.stats.inputs import upper
from peira.stats.sequential.confidence_sequence import SequenceInterval

MOST_POINTS = 48
"""Moments of a sequence that are kept to be drawn."""
TYPICAL = 25.0
"""The sum of squared deviations, in units of the squared scale, at which the interval is to be narrowest."""
LEAST = 100
"""The number of values below which nothing is said where there are no limits."""
BERNSTEIN, ASYMPTOTIC = "empirical Bernstein, valid at every look", "asymptotic, valid at every look"
"""The names of the methods."""


class RunningMean:
    """The confidence sequence of a running mean, updated value by value and read at any time.

    `scale` is the most by which a value can deviate from its prediction, on either side. `typical` is the sum
    of squared deviations at which the interval is narrowest; it must not depend on the values.
    """

    method = BERNSTEIN

    def __init__(self, scale: float, level: float = 0.95, typical: float | None = None) -> None:
        if not scale > 0:
            raise ValueError(f"the scale must be above 0, not {scale}")
        self._scale, self._side = scale, upper(level)
        log = math.log(1 / (1 - self._side))
        self._prior = (TYPICAL * scale**2 if typical is None else typical) / (2 * log + math.log1p(2 * log))
        self.n, self.sum, self.variation = 0, 0.0, 0.0

    def add(self, value: float, prediction: float) -> None:
        """Add the next value; the prediction may depend on what came before it only."""
        self.n += 1
        self.sum += value
        self.variation += (value - prediction) ** 2

    @property
    def mean(self) -> float | None:
        """The mean of the values."""
        return self.sum / self.n if self.n else None

    def now(self) -> SequenceInterval:
        """The current interval."""
        return SequenceInterval(self.mean, self.low(), self.high(), self.n, self.method)

    def low(self) -> float:
        """The lower end of the interval."""
        return -math.inf if self.mean is None else self.mean - self.reach() / self.n

    def high(self) -> float:
        """The upper end of the interval."""
        return math.inf if self.mean is None else self.mean + self.reach() / self.n

    def above(self, mean: float) -> float:
        """The p-value, valid at every look, of the hypothesis that the running mean is at most this one."""
        return self._p(self.sum - self.n * mean)

    def below(self, mean: float) -> float:
        """The p-value, valid at every look, of the hypothesis that the running mean is at least this one."""
        return self._p(self.n * mean - self.sum)

    def _p(self, error: float) -> float:
        """The p-value of a sum of errors: the reciprocal of the wealth of a bet against it."""
        if error <= 0 or not self.n:
            return 1.0
        return min(1.0, math.exp(-float(self.log_wealth(error, self.variation))))

    def reach(self) -> float:
        """The least sum of errors that is rejected on one side, given the squared deviations."""
        wanted, most = -math.log(1 - self._side), self._scale
        while float(self.log_wealth(most, self.variation)) < wanted:
            most *= 2
        least = 0.0
        while most - least > 1e-9 * most:
            middle = (least + most) / 2
            if float(self.log_wealth(middle, self.variation)) < wanted:
                least = middle
            else:
                most = middle
        return most

    def log_wealth(self, error: Any, variation: Any) -> Any:
        """The logarithm of the mixture supermartingale at a sum of errors (at least 0) and its variation.

        Both may be arrays.
        """
        from scipy.special import gammainc, gammaln

        scale = self._scale
        start = self._prior / scale**2
        shape = np.asarray(variation) / scale**2 + start
        at = np.asarray(error) / scale + shape
        first = start * math.log(start) - gammaln(start) - np.log(gammainc(start, start))
        return first + gammaln(shape) + np.log(gammainc(shape, at)) - shape * np.log(at) + at - start


class UnboundedRunningMean(RunningMean):
    """The asymptotic confidence sequence of a running mean, for values without known limits.

    The interval is unknown (infinite) below `LEAST` values.
    """

    method = ASYMPTOTIC

    def __init__(self, level: float = 0.95, typical: int = 1000) -> None:
        """`typical` is the number of values at which the interval is narrowest."""
        super().__init__(1.0, level)
        log = math.log(1 / (2 * (1 - self._side)))
        self._prior = (2 * log + math.log1p(2 * log)) / typical

    def reach(self) -> float:
        """The least sum of errors that is rejected, by the present estimate of the variance."""
        if self.n < LEAST:
            return math.inf
        grown, alpha = self.n * self._prior + 1, 2 * (1 - self._side)
        deviation = math.sqrt(self.variation / self.n)
        return deviation * math.sqrt(2 * grown / self._prior * math.log(math.sqrt(grown) / alpha))

    def log_wealth(self, error: Any, variation: Any) -> Any:
        """The logarithm of the normal mixture at a sum of errors; both sides share one bet."""
        if self.n < LEAST or not self.variation:
            return 0.0
        grown = self.n * self._prior + 1
        square = np.asarray(error) ** 2 * self.n / variation
        return square * self._prior / (2 * grown) - math.log(grown) / 2 + math.log(2)


class BracketedMean:
    """The confidence sequence of a running mean of values that may be known within bounds only.

    The lower end of the interval assumes the lower bound of every value, the upper end the upper bound, so
    that it holds whatever the values are. `scale` is the most by which a value can deviate from its
    prediction, None if there is no limit; `reach` are the limits of the mean, if it has any.
    """

    def __init__(
        self,
        scale: float | None,
        level: float = 0.95,
        typical: float | None = None,
        reach: tuple[float, float] | None = None,
    ) -> None:
        def made() -> RunningMean:
            return UnboundedRunningMean(level) if scale is None else RunningMean(scale, level, typical)

        self.low, self.high = made(), made()
        self._reach = reach

    @property
    def n(self) -> int:
        """The number of values."""
        return self.low.n

    def add(self, least: float, most: float, prediction: float) -> None:
        """Add the next value, by its bounds; the prediction may depend on what came before it only."""
        self.low.add(least, prediction)
        self.high.add(most, prediction)

    def now(self) -> SequenceInterval:
        """The current interval; the estimate is the middle of the means of both bounds."""
        low, high = self.low.low(), self.high.high()
        mean = (
            None if self.low.mean is None or self.high.mean is None else (self.low.mean + self.high.mean) / 2
        )
        if self._reach is not None:
            least, most = self._reach
            low, high = min(max(low, least), most), max(min(high, most), least)
            mean = None if mean is None else min(max(mean, least), most)
        return SequenceInterval(mean, low, high, self.n, self.low.method)

    @property
    def p(self) -> float:
        """The p-value of a mean of 0, two-sided and valid at every look."""
        return min(1.0, 2 * min(self.low.above(0.0), self.high.below(0.0)))


class SequencePoint(NamedTuple):
    """A confidence sequence after `n` values; ends that are unknown are None."""

    n: int
    mean: float | None
    low: float | None
    high: float | None


class SequencePath:
    """A confidence sequence at growing numbers of values, at most `MOST_POINTS` of them, to be drawn."""

    def __init__(self, expected: int) -> None:
        """`expected` is about how many values will come."""
        self._every = max(1, expected // MOST_POINTS)
        self._found: list[SequencePoint] = []

    def look(self, mean: BracketedMean) -> None:
        """Called after each value."""
        if mean.n % self._every == 0:
            self._add(mean)

    def _add(self, mean: BracketedMean) -> None:
        now = mean.now()
        low, high = (end if math.isfinite(end) else None for end in (now.low, now.high))
        self._found.append(SequencePoint(now.n, now.mean, low, high))

    def points(self, mean: BracketedMean) -> tuple[SequencePoint, ...]:
        """All of them, the last of which is the present."""
        if mean.n and (not self._found or self._found[-1].n != mean.n):
            self._add(mean)
        return tuple(self._found)
