"""Intervals for statistics that have no formula: the cases (or clusters of them) are drawn again, many times.

A statistic is a function of column means, which covers means, ratios, differences and what is made of them;
then a resample is two fast array operations, and leaving one case out needs no second look at the data. BCa
(Efron) corrects for bias and skewness. Resampling cannot invent what was not sampled: few cases give too
narrow intervals here as with any bootstrap, and cases that are all alike give none.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peira.stats import normal
from peira.stats.inputs import Floats, coded, finite, flat, sizes, totals, upper
from peira.stats.values import Interval

Statistic = Callable[[Floats], Floats]
RESAMPLES = 10_000
_CELLS = 1 << 18  # of a piece of work: small enough to stay in the processor's cache


def bootstrap(
    columns: ArrayLike,
    statistic: Statistic,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """BCa interval of a statistic of independent rows.

    `statistic` takes column means, one row for each resample, and returns one number for each.
    """
    table = finite(np.asarray(columns, dtype=np.float64))
    if table.ndim != 2 or table.size == 0:
        raise ValueError("need a table of cases by columns")
    limit, n = upper(level), len(table)
    value = float(statistic(table.mean(axis=0)[None])[0])
    if n < 2 or bool((table == table[0]).all()):
        return Interval(value if np.isfinite(value) else None, None, None, n, "unknown")
    draws = np.concatenate([statistic(means) for means in _resampled(table, seed, resamples)])
    left_out = statistic((table.sum(axis=0) - table) / (n - 1))
    if not (np.isfinite(value) and np.isfinite(draws).all() and np.isfinite(left_out).all()):
        return Interval(value if np.isfinite(value) else None, None, None, n, "unknown")
    low, high = _bca(draws, left_out, value, limit)
    return Interval(value, low, high, n, "bootstrap BCa")


def bootstrap_mean(
    values: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """BCa interval of a mean; with clusters, whole clusters are drawn."""
    data = flat(values)
    if clusters is None:
        return bootstrap(data[:, None], lambda means: means[:, 0], level, seed, resamples)
    codes, _ = coded(clusters, data.size)
    table = np.stack([totals(codes, data), sizes(codes)], axis=1)
    return bootstrap(table, lambda means: means[:, 0] / means[:, 1], level, seed, resamples)


def _resampled(table: Floats, seed: int, resamples: int) -> Iterator[Floats]:
    """Column means of resamples, some at a time."""
    n, columns = len(table), [np.ascontiguousarray(column) for column in table.T]
    rng, each = np.random.default_rng(seed), max(1, _CELLS // len(table))
    for start in range(0, resamples, each):
        chosen = rng.integers(0, n, (min(each, resamples - start), n))
        # No position is out of range; saying "clip" spares numpy looking.
        yield np.stack([column.take(chosen, mode="clip").mean(axis=1) for column in columns], axis=1)


def _bca(draws: Floats, left_out: Floats, value: float, limit: float) -> tuple[float, float]:
    below = float((draws < value).mean() + (draws == value).mean() / 2)
    bias = normal.quantile(min(max(below, 1 / (draws.size + 1)), 1 - 1 / (draws.size + 1)))
    distance = left_out.mean() - left_out
    distance /= float(np.abs(distance).max()) or 1.0
    squares = float((distance**2).sum())
    acceleration = float((distance**3).sum()) / (6 * squares**1.5) if squares > 0 else 0.0
    low, high = (
        float(np.quantile(draws, _shifted(normal.quantile(p), bias, acceleration)))
        for p in (1 - limit, limit)
    )
    return low, high


def _shifted(z: float, bias: float, acceleration: float) -> float:
    from scipy.special import ndtr

    moved = bias + z
    return float(ndtr(bias + moved / (1 - acceleration * moved)))


def percentile(draws: NDArray[np.float64], level: float) -> tuple[Floats, Floats]:
    """The central interval of draws, column by column."""
    limit = upper(level)
    low, high = np.quantile(draws, (1 - limit, limit), axis=0)
    return low, high
