"""Sensitivity of a difference to lost trials: how different would these have to be from those that ended?

Each lost trial is imputed as it would be expected from its like: from the other repeats of the case, or else
from the other side's value of the case and the mean difference; and then shifted against the observed
difference. The curve shows the difference at each shift; the tipping point is the smallest shift at which it
is no longer clear.

What is imputed is no evidence: without a shift the difference is the one that was observed, with its
interval, and a shift moves both.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from peira.analysis.compare.difference import Difference
from peira.analysis.compare.sides import CaseCell, Key
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.stats.inputs import Floats
from peira.stats.intervals.means import Limits
from peira.stats.values import Estimate, within

STEPS = 6
"""The number of points of the curve."""


@dataclass(frozen=True)
class SensitivityPoint:
    """The difference if the lost trials had been worse by `shift` than expected from their like."""

    shift: float
    difference: Estimate


@dataclass(frozen=True)
class Sensitivity(ResultValue):
    """The curve of one difference: at which shift of the lost trials it is no longer clear.

    `clear` says whether the difference is clear without a shift. `tipping` is None if it is not clear to
    begin with, or remains clear at every possible shift; `widest` is the largest shift considered.
    """

    first: str
    second: str
    score: str
    lost: int
    clear: bool
    tipping: float | None
    widest: float
    points: tuple[SensitivityPoint, ...]

    @property
    def overturnable(self) -> bool:
        """Whether the difference is clear, and lost trials could make it unclear."""
        return self.clear and self.tipping is not None

    @property
    def sentence(self) -> str:
        """How different the lost trials would have to be to overturn the difference."""
        what, lost = f"{self.first} - {self.second} in {self.score}", counted(self.lost, "lost trial")
        if not self.clear:
            return f"{what} is not clear, with or without the {lost}."
        if self.tipping is None:
            return f"{what} stays clear whatever the {lost} would have scored."
        one, two = ("lower", "higher") if self.points[0].difference.mean > 0 else ("higher", "lower")
        return (
            f"{what} is no longer clear if the {lost} scored {one} with {self.first}, and {two} with "
            f"{self.second}, by {self.tipping:.2g} than trials alike that ended."
        )

    def grids(self) -> list[TextGrid]:
        """One row per shift."""
        rows = [[f"{p.shift:.2g}", _shown(p.difference)] for p in self.points]
        return [TextGrid(["lost trials differ by", f"{self.first} - {self.second}"], rows)]


def _shown(found: Estimate) -> str:
    """A difference with its interval, as text."""
    return layout.interval(found.mean, found.low, found.high)


def sensitivity(found: Difference, score: str, level: float = 0.95) -> Sensitivity | None:
    """The sensitivity curve of a difference; None without lost trials or without values."""
    lost = found.found.one.lost + found.found.two.lost
    if not lost or not found.known:
        return None
    expected, widest, observed = _Expected.of(found), _widest(found), found.estimate(level)
    sign = 1.0 if observed.mean >= 0 else -1.0

    def at(shift: float) -> Estimate:
        return within(_moved(observed, expected.moved(sign * shift)), found.reach)

    points = tuple(SensitivityPoint(float(s), at(float(s))) for s in np.linspace(0, widest, STEPS))
    clear = points[0].difference.excludes_zero
    tipping = _tipping(at, sign, widest) if clear else None
    one, two = found.found.one.label, found.found.two.label
    return Sensitivity(one, two, score, lost, clear, tipping, widest, points)


def _moved(found: Estimate, by: float) -> Estimate:
    """An estimate with its interval, moved."""
    low, high = (None if end is None else end + by for end in (found.low, found.high))
    return replace(found, mean=found.mean + by, low=low, high=high)


def _holds(one: Estimate, sign: float) -> bool:
    """Whether the interval lies on this side of 0."""
    end = one.low if sign > 0 else one.high
    return end is not None and sign * end > 0


def _tipping(at: Callable[[float], Estimate], sign: float, widest: float) -> float | None:
    """The smallest shift at which the difference is not clear, by bisection; None if there is none."""
    if _holds(at(widest), sign):
        return None
    low, high = 0.0, widest
    for _ in range(20):
        middle = (low + high) / 2
        low, high = (middle, high) if _holds(at(middle), sign) else (low, middle)
    return high


def _widest(found: Difference) -> float:
    """The width of the scale, or of the observed values of a score without limits."""
    if found.reach is not None:
        return found.reach
    values = np.concatenate([found.data.one, found.data.two])
    return float(np.ptp(values)) or 1.0


@dataclass(frozen=True, eq=False)
class _Expected:
    """Both sides with lost trials as expected; `weights` are the shares of each value that were lost."""

    one: Floats
    two: Floats
    weights_one: Floats
    weights_two: Floats
    limits: Limits | None

    @classmethod
    def of(cls, found: Difference) -> _Expected:
        """Impute the lost trials of all cells of both sides, or of the pairs."""
        first, second = found.found.one.cells, found.found.two.cells
        gap = float(found.data.one.mean() - found.data.two.mean())
        means = float(found.data.one.mean()), float(found.data.two.mean())
        paired = found.data.paired
        keys = [key for key in found.found.keys if first[key].values or second[key].values]
        sides = (keys, keys) if paired else (list(first), list(second))
        one = [_expected(first[k], second.get(k) if paired else None, gap, means[0]) for k in sides[0]]
        two = [_expected(second[k], first.get(k) if paired else None, -gap, means[1]) for k in sides[1]]
        shares = _shares(first, sides[0]), _shares(second, sides[1])
        return cls(np.array(one), np.array(two), *shares, found.data.limits)

    def moved(self, shift: float) -> float:
        """By how much the difference moves with the lost trials of the first side lower by `shift`.

        Those of the second are higher by it. No value is shifted beyond the limits of the score.
        """
        one, two = self.one - shift * self.weights_one, self.two + shift * self.weights_two
        limits = self.limits
        if limits is not None and shift > 0:
            one, two = np.maximum(one, limits[0]), np.minimum(two, limits[1])
        elif limits is not None and shift < 0:
            one, two = np.minimum(one, limits[1]), np.maximum(two, limits[0])
        before = float(self.one.mean() - self.two.mean())
        return float(one.mean() - two.mean()) - before


def _expected(cell: CaseCell, other: CaseCell | None, gap: float, mean: float) -> float:
    """The mean of a cell with its lost values as expected from its like."""
    if cell.values:
        return cell.mean
    return other.mean + gap if other is not None and other.values else mean


def _shares(cells: Mapping[Key, CaseCell], keys: Sequence[Key]) -> Floats:
    """The share of lost values in each cell."""
    return np.array([cells[k].lost / (cells[k].lost + len(cells[k].values)) for k in keys])
