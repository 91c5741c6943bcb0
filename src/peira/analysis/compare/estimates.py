"""Estimates of the difference of two sides.

Each is chosen by the data: paired or not, yes/no answers to unrelated cases or anything else.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from peira.analysis.table.groups import Unit
from peira.analysis.table.intervals import with_interval
from peira.errors import Invalid
from peira.stats import power
from peira.stats.inputs import Floats, coded, is_binary, sizes, totals
from peira.stats.intervals.means import Limits
from peira.stats.intervals.resampling import bootstrap, studentised_mean
from peira.stats.tests import bayes
from peira.stats.tests import paired as pairwise
from peira.stats.tests import unpaired as apart
from peira.stats.tests.bayes import Posterior
from peira.stats.values import Estimate


@dataclass(frozen=True)
class TwoSamples:
    """The values of two sides, each with its unit of evidence; paired sides are in one order.

    `limits` are the least and the greatest possible score, None if it has none.
    """

    one: Floats
    two: Floats
    units_one: Sequence[Unit]
    units_two: Sequence[Unit]
    paired: bool
    limits: Limits | None = None

    @cached_property
    def needs_bounds(self) -> bool:
        """Whether Student's t does not do: the interval within the limits is used, and its test."""
        if self.binary or self.limits is None:
            return False
        if self.paired:
            return not pairwise.is_t_enough(self.one, self.two, self.limits, self.clusters)
        return not apart.is_welch_enough(self.one, self.two, self.limits, self.clusters, self.clusters_two)

    @property
    def binary(self) -> bool:
        """Yes/no values of unrelated cases."""
        single = self.clusters is None and (self.paired or self.clusters_two is None)
        return single and is_binary(self.one) and is_binary(self.two)

    @property
    def clusters(self) -> Sequence[Unit] | None:
        return None if len(set(self.units_one)) == len(self.units_one) else self.units_one

    @property
    def clusters_two(self) -> Sequence[Unit] | None:
        return None if len(set(self.units_two)) == len(self.units_two) else self.units_two

    @property
    def units(self) -> int:
        return len(set(self.units_one)) if self.paired else len({*self.units_one, *self.units_two})

    @property
    def unit(self) -> str:
        """What a unit of evidence is."""
        return (
            "cluster" if any(kind == "cluster" for kind, _ in (*self.units_one, *self.units_two)) else "case"
        )

    @property
    def is_even(self) -> bool:
        """Whether all units have equally many values."""
        return len(set(Counter(self.units_one).values())) == 1

    @property
    def wins(self) -> tuple[int, int]:
        """How many pairs the first side won, and lost."""
        return int((self.one > self.two).sum()), int((self.one < self.two).sum())

    @property
    def counts(self) -> tuple[int, int, int, int]:
        """Of yes/no values: how many are yes, and how many there are, on either side."""
        return int(self.one.sum()), self.one.size, int(self.two.sum()), self.two.size

    def by_unit(self) -> tuple[Floats, Floats]:
        """One mean for each unit, on either side."""
        return _means(self.one, self.units_one), _means(self.two, self.units_two)


def _means(values: Floats, units: Sequence[Unit]) -> Floats:
    gathered: dict[Unit, list[float]] = {}
    for value, unit in zip(values, units, strict=True):
        gathered.setdefault(unit, []).append(float(value))
    return np.array([sum(each) / len(each) for each in gathered.values()])


def difference(data: TwoSamples, level: float) -> Estimate:
    """The difference with the interval that fits the data."""
    skewed = data.limits is None
    limits = data.limits if data.needs_bounds else None
    if data.paired:
        return pairwise.difference(data.one, data.two, data.clusters, level, limits, skewed)
    return apart.unpaired_difference(
        data.one, data.two, data.clusters, data.clusters_two, level, limits, skewed
    )


def posterior(data: TwoSamples, margin: float | None, level: float) -> Posterior:
    """The posterior of the difference, with the margin as region of practical equivalence."""
    rope = (-(margin or 0.0), margin or 0.0)
    if data.binary and data.paired:
        return bayes.matched(*data.wins, data.one.size, rope, level)
    if data.binary:
        return bayes.proportions(*data.counts, rope, level)
    if data.paired and data.needs_bounds and data.limits is not None:
        reach = data.limits[1] - data.limits[0]
        return bayes.within_limits(data.one - data.two, data.clusters, (-reach, reach), rope, level)
    if data.paired:
        return bayes.paired_means(data.one, data.two, data.clusters, rope, level)
    return bayes.unpaired_means(*data.by_unit(), rope, level)


def deviation(data: TwoSamples) -> float | None:
    """That of the differences of units (of the values of either side, if unpaired); None if it is unknown, or
    there is no spread."""
    first, second = data.by_unit()
    if min(first.size, second.size) < 2:
        return None
    gap = float(first.mean() - second.mean())
    variance = float((first - second).var(ddof=1)) if data.paired else _pooled(first, second)
    return None if variance <= 1e-24 * max(1.0, gap * gap) else variance**0.5


def more_cases(data: TwoSamples, gap: float, deviation: float | None, alpha: float) -> int | None:
    """About how many more units (on each side, if unpaired) would show this difference four times in five.

    By the t test, also for yes/no values: the numbers of cases that McNemar's asks for are the same but for a
    few. None where no number would: the difference is 0, or its spread is unknown.
    """
    if deviation is None:
        return None
    first, second = data.by_unit()
    design = (power.paired if data.paired else power.unpaired)(deviation)
    return power.more_cases(design, min(first.size, second.size), gap, alpha)


def _pooled(first: Floats, second: Floats) -> float:
    return float(first.var(ddof=1) + second.var(ddof=1)) / 2


def difference_by(way: str, data: TwoSamples, level: float) -> Estimate:
    """The difference of two sides; only the bootstrap is another way than the one that fits."""
    if not way:
        return difference(data, level)
    if way != "bootstrap":
        raise Invalid(f"interval: of a difference it can be bootstrap, or as fits; not {way!r}")
    if data.paired:
        found = studentised_mean(data.one - data.two, data.units_one, level)
        return with_interval(found, data.one - data.two, data.units_one, level)
    sides = [(data.one, data.units_one), (data.two, data.units_two)]
    table = np.vstack([_sums(values, units, place) for place, (values, units) in enumerate(sides)])
    return Estimate(float(data.one.mean() - data.two.mean()), *_ends(table, level))


def _sums(values: Floats, units: Sequence[Unit], side: int) -> Floats:
    """A row for each unit: sum and number of the first side, sum and number of the second."""
    codes, _ = coded(units, values.size)
    own, none = np.stack([totals(codes, values), sizes(codes)], axis=1), np.zeros((int(codes.max()) + 1, 2))
    return np.hstack([none, own] if side else [own, none])


def _ends(table: Floats, level: float) -> tuple[float | None, float | None, int, str]:
    def gap(means: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            found: Floats = means[:, 0] / means[:, 1] - means[:, 2] / means[:, 3]
        return found

    found = bootstrap(table, gap, level)
    return found.low, found.high, int(table[:, [1, 3]].sum()), found.method
