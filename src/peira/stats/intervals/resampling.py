"""Bootstrap intervals and jackknife standard errors, resampling cases or clusters.

A bootstrap statistic is a vectorised function of column means, which covers means, ratios, differences and
functions of these; a resample then takes two array operations, and leave-one-out values need no pass over the
data. BCa (Efron) corrects for bias and skewness, the studentised bootstrap of a mean also for an error that
varies with it. As with any bootstrap, intervals from few cases are too narrow, and constant data give unknown
bounds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterable, Iterator

import numpy as np
from numpy.typing import ArrayLike, NDArray

from peira.stats import normal
from peira.stats.inputs import Codes, Floats, coded, finite, flat, is_rounding, sizes, totals, upper
from peira.stats.student import Spread
from peira.stats.values import Interval

Statistic = Callable[[Floats], Floats]
"""Maps column means, one row per resample, to one number per row."""
RESAMPLES = 10_000
"""The default number of bootstrap resamples."""
_CELLS = 1 << 18  # cells per batch: small enough for the processor's cache


# Bootstrap


def bootstrap(
    columns: ArrayLike,
    statistic: Statistic,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """BCa bootstrap interval of a statistic of independent rows.

    `columns` is a table of cases by columns. `statistic` takes column means, one row per resample, and
    returns one number per row.
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
    """BCa bootstrap interval of a mean; with `clusters`, whole clusters are resampled.

    The mean is that of all values, so larger clusters have more weight. The same seed gives the same
    interval.
    """
    data = flat(values)
    if clusters is None:
        return bootstrap(data[:, None], lambda means: means[:, 0], level, seed, resamples)
    codes, _ = coded(clusters, data.size)
    table = np.stack([totals(codes, data), sizes(codes)], axis=1)
    return bootstrap(table, lambda means: means[:, 0] / means[:, 1], level, seed, resamples)


def studentised_mean(
    values: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    level: float = 0.95,
    seed: int = 0,
    resamples: int = RESAMPLES,
) -> Interval:
    """Bootstrap-t interval of a mean, in which each resample is measured in its own standard error.

    Skewed values move the mean and its error together, which BCa misses in samples of a few dozen (Hall,
    1988). With `clusters`, whole clusters are resampled. Where resamples have no error (nearly constant
    values), it is `bootstrap_mean`.
    """
    data = flat(values)
    codes, n = coded(range(data.size) if clusters is None else clusters, data.size)
    mean = float(data.mean())
    sums, counts = totals(codes, data - mean), sizes(codes)
    table = np.stack([sums, counts, sums**2, sums * counts, counts**2], axis=1)
    error = float(_studentised(table.mean(axis=0)[None], n)[1][0])
    if n > 1 and not is_rounding(float(np.abs(sums).max()), data):
        drawn = [_studentised(means, n) for means in _resampled(table, seed, resamples)]
        means, errors = (np.concatenate(part) for part in zip(*drawn, strict=True))
        with np.errstate(divide="ignore", invalid="ignore"):
            statistics = np.where(errors > 1e-6 * error, means / errors, np.sign(means) * np.inf)
        limit = upper(level)
        low, high = np.quantile(np.nan_to_num(statistics, nan=0.0), (1 - limit, limit), method="nearest")
        if np.isfinite(low) and np.isfinite(high):
            return Interval(mean, mean - float(high) * error, mean - float(low) * error, n, "bootstrap t")
    return bootstrap_mean(data, None if clusters is None else codes.tolist(), level, seed, resamples)


def _studentised(means: Floats, n: int) -> tuple[Floats, Floats]:
    """Ratio means and their standard errors, from the column means of `studentised_mean`."""
    found = means[:, 0] / means[:, 1]
    squares = means[:, 2] - 2 * found * means[:, 3] + found**2 * means[:, 4]
    errors = np.sqrt(np.maximum(squares, 0.0) / (n - 1)) / means[:, 1] if n > 1 else np.zeros_like(found)
    return found, errors


def _resampled(table: Floats, seed: int, resamples: int) -> Iterator[Floats]:
    """Column means of the resamples, in batches."""
    n, columns = len(table), [np.ascontiguousarray(column) for column in table.T]
    rng, each = np.random.default_rng(seed), max(1, _CELLS // len(table))
    for start in range(0, resamples, each):
        chosen = rng.integers(0, n, (min(each, resamples - start), n))
        # No position is out of range; mode="clip" skips numpy's bounds check.
        yield np.stack([column.take(chosen, mode="clip").mean(axis=1) for column in columns], axis=1)


def _bca(draws: Floats, left_out: Floats, value: float, limit: float) -> tuple[float, float]:
    """The bias-corrected and accelerated quantiles of the bootstrap distribution."""
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
    """The BCa-adjusted probability of a normal quantile."""
    from scipy.special import ndtr

    shifted = bias + z
    return float(ndtr(bias + shifted / (1 - acceleration * shifted)))


def percentile(draws: NDArray[np.float64], level: float) -> tuple[Floats, Floats]:
    """The central interval of draws, column by column."""
    limit = upper(level)
    low, high = np.quantile(draws, (1 - limit, limit), axis=0)
    return low, high


# Jackknife

_GROUPS = 200


def jackknife(statistic: Callable[[Codes], float | None], n: int) -> Spread | None:
    """The jackknife standard error of a statistic of `n` cases, with its degrees of freedom.

    `statistic` takes the positions of the cases to keep. Each case is left out in turn; with more than 200
    cases, each of 200 interleaved groups. None if there are fewer than three cases, if the statistic does not
    vary, or if it is None for some subset.
    """
    groups = min(n, _GROUPS)
    if groups < 3:
        return None
    group, found = np.arange(n) % groups, []
    for left_out in range(groups):
        value = statistic(np.flatnonzero(group != left_out))
        if value is None:
            return None
        found.append(value)
    values = np.array(found)
    error = math.sqrt((groups - 1) / groups * float(((values - values.mean()) ** 2).sum()))
    return Spread(error, groups - 1) if error > 1e-12 * max(1.0, float(np.abs(values).max())) else None
