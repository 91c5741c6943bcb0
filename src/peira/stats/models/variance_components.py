"""Variance components of cases, repeats and conditions by analysis of variance.

The method of moments makes no distributional assumption; estimates are unbiased before they are truncated at
0.
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
    """Variances between cases and within cases (over repeats); None where they cannot be estimated."""

    between: float | None
    within: float | None
    cases: int
    n: int

    @property
    def correlation(self) -> float | None:
        """The intra-class correlation: between-case variance over total variance."""
        if self.between is None or self.within is None or self.between + self.within == 0:
            return None
        return self.between / (self.between + self.within)

    def error(self, cases: int, repeats: int) -> float | None:
        """The standard error of a mean over that many cases with that many repeats each."""
        if self.between is None or self.within is None:
            return None
        return math.sqrt((self.between + self.within / repeats) / cases)


@dataclass(frozen=True)
class CrossedVariance:
    """Variance components of a table of cases by conditions with repeats in its cells.

    `condition` is the variance between condition means, `case` between case means, `interaction` that of case
    by condition, and `repeat` within cells. Without repeats, `repeat` is None and contained in `interaction`.
    """

    condition: float
    case: float
    interaction: float
    repeat: float | None
    n: int


def components(values: ArrayLike, cases: Iterable[Hashable]) -> Components:
    """One-way analysis of variance of trials by case; numbers of repeats may differ between cases."""
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
    """The between-case variance of the true difference, and each side's within-case variance.

    These are the inputs of `power.repeated`. Only cases present on both sides are used. The variance of
    observed differences is corrected for the sampling variance of the repeats; the first result is None if no
    case is repeated on a side.
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


def crossed(
    values: ArrayLike, cases: Iterable[Hashable], conditions: Iterable[Hashable]
) -> CrossedVariance | None:
    """Two-way analysis of variance of a balanced table; cases are random, conditions fixed.

    Every cell must have the same number of repeats. None for an incomplete or unbalanced table, and for a
    single row or column.
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


def _two_way(data: Floats, table: Floats, cells: Codes, repeats: int) -> CrossedVariance:
    """The variance components from the cell means and the within-cell residuals."""
    n, k = table.shape
    by_case, by_condition, mean = table.mean(axis=1), table.mean(axis=0), float(table.mean())
    rest = table - by_case[:, None] - by_condition + mean
    cell = float((rest**2).sum()) * repeats / ((n - 1) * (k - 1))
    case = float(((by_case - mean) ** 2).sum()) * repeats * k / (n - 1)
    condition = float(((by_condition - mean) ** 2).sum()) * repeats * n / (k - 1)
    within = None
    if repeats > 1:
        within = float(((data - table.ravel()[cells]) ** 2).sum()) / (n * k * (repeats - 1))
    return CrossedVariance(
        condition=max(0.0, (condition - cell) / (repeats * n)),
        case=max(0.0, (case - cell) / (repeats * k)),
        interaction=cell if within is None else max(0.0, (cell - within) / repeats),
        repeat=within,
        n=data.size,
    )


def _by_case(data: Floats, cases: list[Hashable]) -> dict[Hashable, Floats]:
    """The values of each case."""
    codes, _ = coded(cases, data.size)
    order = np.argsort(codes, kind="stable")
    parts = np.split(data[order], np.cumsum(np.bincount(codes))[:-1])
    return dict(zip(dict.fromkeys(cases), parts, strict=True))


def _pooled(values: list[Floats]) -> float | None:
    """The pooled within-group variance; None without degrees of freedom."""
    df = sum(each.size - 1 for each in values)
    return sum(float(each.var()) * each.size for each in values) / df if df else None
