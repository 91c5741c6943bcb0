"""Confidence sequences: intervals that hold at every moment at once, however often one looks.

For independent values within known bounds, by betting (Waudby-Smith and Ramdas): against each possible mean
one gambler stakes on the next value lying above it, another on its lying below. Were that mean the truth,
neither could expect to gain, so either's chance of ever multiplying the stake by 2/alpha is at most alpha/2.
What is left is every mean against which nobody has grown that rich.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Floats, finite, upper

_GRID = 1_000
_MOST = 0.5  # of the stake that is at risk in one bet
_CHUNK = 100


@dataclass(frozen=True)
class Running:
    """The interval after `n` values: it holds the truth at every n at once, with the level's chance.

    As it never widens again, the mean of late values may lie outside it.
    """

    mean: float | None
    low: float
    high: float
    n: int
    method: str = "betting"


class Bets:
    """A confidence sequence that grows with the data: tell it values as they come, ask it at any time.

    Values lie within [least, most]: 0 and 1 for scores, -1 and 1 for differences of scores. They count as
    independent, so give one value per case (its mean over repeats), in an order that has nothing to do with
    them. The interval never widens: what was once ruled out stays so.
    """

    def __init__(self, least: float = 0.0, most: float = 1.0, level: float = 0.95) -> None:
        if not least < most:
            raise ValueError(f"the least value must lie below the most, not {least} and {most}")
        upper(level)
        self._least, self._width, self._alpha = least, most - least, 1 - level
        self._rich = np.zeros((2, _GRID))  # the logarithm of either gambler's wealth, for each mean
        self._alive = np.ones(_GRID, dtype=bool)
        self._n, self._sum, self._squares, self._last = 0, 0.0, 0.25, 0

    def add(self, values: ArrayLike) -> Running:
        """Takes one value or many, and answers as `now` does."""
        data = (finite(np.atleast_1d(np.asarray(values, dtype=np.float64))) - self._least) / self._width
        if bool(((data < 0) | (data > 1)).any()):
            raise ValueError(f"every value must lie within [{self._least}, {self._least + self._width}]")
        for start in range(0, data.size, _CHUNK):
            self._bet(data[start : start + _CHUNK])
        return self.now()

    def now(self) -> Running:
        """The interval so far, rounded outwards to the grid of a thousandth of the range."""
        left = np.flatnonzero(self._alive)
        # Every mean may have been ruled out, with a chance below alpha: the last word is then a single cell.
        low, high = (left[0], left[-1] + 1) if left.size else (self._last, self._last + 1)
        mean = None if self._n == 0 else self._scaled(self._sum / self._n)
        return Running(mean, self._scaled(low / _GRID), self._scaled(high / _GRID), self._n)

    def _scaled(self, share: float) -> float:
        return float(self._least + self._width * share)

    def _bet(self, data: Floats) -> None:
        stakes, left = self._stakes(data)[:, None], np.flatnonzero(self._alive)
        # A cell stands for all its means, so each gambler plays against the one that favours him least.
        up, down = (left + 1) / _GRID, left / _GRID
        gains = np.log1p(np.minimum(stakes, _MOST / up) * (data[:, None] - up))
        losses = np.log1p(-np.minimum(stakes, _MOST / (1 - down)) * (data[:, None] - down))
        for side, steps in enumerate((gains, losses)):
            path = self._rich[side, left] + np.cumsum(steps, axis=0)
            self._rich[side, left] = path[-1]
            self._alive[left] &= path.max(axis=0) < math.log(2 / self._alpha)
        if not self._alive.any():
            self._last = min(_GRID - 1, int(self._sum / self._n * _GRID))

    def _stakes(self, data: Floats) -> Floats:
        """What to risk on each value, from the values before it: more when they vary little."""
        n = self._n + np.arange(1, data.size + 1)
        sums = self._sum + np.cumsum(data)
        means = (0.5 + sums) / (n + 1)
        squares = self._squares + np.cumsum((data - means) ** 2)
        before = np.concatenate([[self._squares / (self._n + 1)], (squares / (n + 1))[:-1]])
        self._n, self._sum, self._squares = int(n[-1]), float(sums[-1]), float(squares[-1])
        found: Floats = np.sqrt(2 * math.log(2 / self._alpha) / (before * n * np.log(n + 1)))
        return found


def sequence(values: ArrayLike, least: float = 0.0, most: float = 1.0, level: float = 0.95) -> Running:
    """The confidence sequence after all these values."""
    return Bets(least, most, level).add(values)
