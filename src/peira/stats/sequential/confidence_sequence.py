"""Confidence sequences by betting: intervals that hold simultaneously at every sample size.

For independent values within known bounds (Waudby-Smith and Ramdas): for each candidate mean two betting
strategies are run, one on the next value lying above it and one below. If the candidate is the true mean,
both wealth processes are nonnegative martingales, so by Ville's inequality each ever exceeds 2/alpha with
probability at most alpha/2. The interval is the set of candidates for which neither has.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Floats, finite, upper

_GRID = 1_000
_MOST = 0.5  # the largest share of the wealth that is at risk in one bet
_CHUNK = 100


@dataclass(frozen=True)
class SequenceInterval:
    """The confidence sequence after `n` values.

    Coverage holds simultaneously at every n. The intervals are nested, so the running mean may lie outside.
    """

    mean: float | None
    low: float
    high: float
    n: int
    method: str = "betting"


class ConfidenceSequence:
    """A confidence sequence that is updated as values arrive and can be read at any time.

    Values lie within [least, most]: 0 and 1 for scores, -1 and 1 for differences of scores. They are assumed
    to be independent: add one value per case (its mean over repeats), in an order unrelated to the values.
    The interval never widens: rejected candidates stay rejected.
    """

    def __init__(self, least: float = 0.0, most: float = 1.0, level: float = 0.95) -> None:
        if not least < most:
            raise ValueError(f"the least value must lie below the most, not {least} and {most}")
        upper(level)
        self._least, self._width, self._alpha = least, most - least, 1 - level
        self._log_wealth = np.zeros(
            (2, _GRID)
        )  # log wealth of both betting strategies, for each candidate cell
        self._alive = np.ones(_GRID, dtype=bool)
        self._n, self._sum, self._squares, self._last = 0, 0.0, 0.25, 0

    def add(self, values: ArrayLike) -> SequenceInterval:
        """Add one or several values and return the current interval.

        Values are processed in order. Raises ValueError for a value outside [least, most].
        """
        data = (finite(np.atleast_1d(np.asarray(values, dtype=np.float64))) - self._least) / self._width
        if bool(((data < 0) | (data > 1)).any()):
            raise ValueError(f"every value must lie within [{self._least}, {self._least + self._width}]")
        for start in range(0, data.size, _CHUNK):
            self._bet(data[start : start + _CHUNK])
        return self.now()

    def now(self) -> SequenceInterval:
        """The current interval, rounded outwards to a grid of a thousandth of the range."""
        left = np.flatnonzero(self._alive)
        # All candidates may be rejected, with probability below alpha: then return a single cell.
        low, high = (left[0], left[-1] + 1) if left.size else (self._last, self._last + 1)
        mean = None if self._n == 0 else self._scaled(self._sum / self._n)
        return SequenceInterval(mean, self._scaled(low / _GRID), self._scaled(high / _GRID), self._n)

    def _scaled(self, share: float) -> float:
        """A position in [0, 1] in the units of the values."""
        return float(self._least + self._width * share)

    def _bet(self, data: Floats) -> None:
        """Update the wealth of every remaining candidate cell and drop rejected ones."""
        stakes, left = self._stakes(data)[:, None], np.flatnonzero(self._alive)
        # A cell stands for all means in it, so each strategy bets against its least favourable one.
        up, down = (left + 1) / _GRID, left / _GRID
        gains = np.log1p(np.minimum(stakes, _MOST / up) * (data[:, None] - up))
        losses = np.log1p(-np.minimum(stakes, _MOST / (1 - down)) * (data[:, None] - down))
        for side, steps in enumerate((gains, losses)):
            path = self._log_wealth[side, left] + np.cumsum(steps, axis=0)
            self._log_wealth[side, left] = path[-1]
            self._alive[left] &= path.max(axis=0) < math.log(2 / self._alpha)
        if not self._alive.any():
            self._last = min(_GRID - 1, int(self._sum / self._n * _GRID))

    def _stakes(self, data: Floats) -> Floats:
        """The bet size for each value, from the values before it."""
        n = self._n + np.arange(1, data.size + 1)
        sums = self._sum + np.cumsum(data)
        means = (0.5 + sums) / (n + 1)
        squares = self._squares + np.cumsum((data - means) ** 2)
        before = np.concatenate([[self._squares / (self._n + 1)], (squares / (n + 1))[:-1]])
        self._n, self._sum, self._squares = int(n[-1]), float(sums[-1]), float(squares[-1])
        found: Floats = np.sqrt(2 * math.log(2 / self._alpha) / (before * n * np.log(n + 1)))
        return found


def sequence(
    values: ArrayLike, least: float = 0.0, most: float = 1.0, level: float = 0.95
) -> SequenceInterval:
    """The confidence sequence after all these values.

    Equivalent to adding them to a `ConfidenceSequence` in this order.
    """
    return ConfidenceSequence(least, most, level).add(values)
