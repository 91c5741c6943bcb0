"""Where the variance of a score comes from, and so what would buy more certainty: cases or repeats.

Method of moments (analysis of variance): no assumption about distributions, and estimates that are unbiased
before they are kept from falling below 0.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import Codes, Floats, coded, flat, sizes, totals


@dataclass(frozen=True)
class Components:
    """Variances between cases and within a case (over repeats); None where the data cannot tell them."""

    between: float | None
    within: float | None
    cases: int
    n: int

    @property
    def correlation(self) -> float | None:
        """The share of the variance that repeats of a case have in common."""
        if self.between is None or self.within is None or self.between + self.within == 0:
            return None
        return self.between / (self.between + self.within)

    def error(self, cases: int, repeats: int) -> float | None:
        """The standard error of a mean over that many cases with that many repeats of each."""
        if self.between is None or self.within is None:
            return None
        return math.sqrt((self.between + self.within / repeats) / cases)


@dataclass(frozen=True)
class Crossed:
    """Shares of variance in a table of cases by conditions, repeated in its cells.

    `condition` is between the conditions' means, `case` between cases over all conditions, `interaction` what
    a case gains or loses under one condition in particular, `repeat` what is left within a cell (None, and
    part of `interaction`, where no cell is repeated).
    """

    condition: float
    case: float
    interaction: float
    repeat: float | None
    n: int


def components(values: ArrayLike, cases: Iterable[Hashable]) -> Components:
    """One-way analysis of variance of trials by case; cases may have different numbers of repeats."""
    data = flat(values)
    codes, groups = coded(cases, data.size)
    each = sizes(codes)
    if groups < 2:
        return Components(None, float(data.var(ddof=1)) if data.size > 1 else None, groups, data.size)
    if groups == data.size:
        return Components(None, None, groups, data.size)
    means = totals(codes, data) / each
    within = float(((data - means[codes]) ** 2).sum()) / (data.size - groups)
    square = float(each @ (means - data.mean()) ** 2) / (groups - 1)
    typical = (data.size - float(each @ each) / data.size) / (groups - 1)
    return Components(max(0.0, (square - within) / typical), within, groups, data.size)


def paired_components(
    one: ArrayLike, one_cases: Iterable[Hashable], two: ArrayLike, two_cases: Iterable[Hashable]
) -> tuple[float | None, float | None, float | None]:
    """For `power.repeated`: the variance over cases of the true difference, and either side's over repeats.

    Only cases that both sides have are used. The variance of the observed differences is that of the true
    ones plus what the repeats leave, which is taken off; None where no case is repeated on a side.
    """
    first, second = _by_case(flat(one), list(one_cases)), _by_case(flat(two), list(two_cases))
    common = [case for case in first if case in second]
    sides = [[side[case] for case in common] for side in (first, second)]
    within = [_pooled(values) for values in sides]
    if len(common) < 2 or within[0] is None or within[1] is None:
        return None, within[0], within[1]
    differences = [float(a.mean() - b.mean()) for a, b in zip(*sides, strict=True)]
    noise = sum(
        variance * float(np.mean([1 / values.size for values in side]))
        for variance, side in zip((within[0], within[1]), sides, strict=True)
    )
    return max(0.0, float(np.var(differences, ddof=1)) - noise), within[0], within[1]


def crossed(values: ArrayLike, cases: Iterable[Hashable], conditions: Iterable[Hashable]) -> Crossed | None:
    """Two-way analysis of variance of a full table, every cell with the same number of repeats; cases are a
    sample, conditions are those of interest. None for a table that is not full, or has but one row or column.
    """
    data = flat(values)
    (rows, n_rows), (columns, n_columns) = coded(cases, data.size), coded(conditions, data.size)
    cells = rows * n_columns + columns
    counts = np.bincount(cells, minlength=n_rows * n_columns)
    repeats = int(counts[0])
    if min(n_rows, n_columns) < 2 or bool((counts != repeats).any()):
        return None
    table = (totals(cells, data) / repeats).reshape(n_rows, n_columns)
    return _two_way(data, table, cells, repeats)


def _two_way(data: Floats, table: Floats, cells: Codes, repeats: int) -> Crossed:
    n, k = table.shape
    by_case, by_condition, mean = table.mean(axis=1), table.mean(axis=0), float(table.mean())
    rest = table - by_case[:, None] - by_condition + mean
    cell = float((rest**2).sum()) * repeats / ((n - 1) * (k - 1))
    case = float(((by_case - mean) ** 2).sum()) * repeats * k / (n - 1)
    condition = float(((by_condition - mean) ** 2).sum()) * repeats * n / (k - 1)
    within = None
    if repeats > 1:
        within = float(((data - table.ravel()[cells]) ** 2).sum()) / (n * k * (repeats - 1))
    return Crossed(
        condition=max(0.0, (condition - cell) / (repeats * n)),
        case=max(0.0, (case - cell) / (repeats * k)),
        interaction=cell if within is None else max(0.0, (cell - within) / repeats),
        repeat=within,
        n=data.size,
    )


def _by_case(data: Floats, cases: list[Hashable]) -> dict[Hashable, Floats]:
    codes, _ = coded(cases, data.size)
    order = np.argsort(codes, kind="stable")
    parts = np.split(data[order], np.cumsum(np.bincount(codes))[:-1])
    return dict(zip(dict.fromkeys(cases), parts, strict=True))


def _pooled(values: list[Floats]) -> float | None:
    df = sum(each.size - 1 for each in values)
    return sum(float(each.var()) * each.size for each in values) / df if df else None
