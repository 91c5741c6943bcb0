"""Distribution-free confidence intervals of medians and other quantiles, from order statistics.

The bounds are two of the observed values, chosen so that the quantile lies between them with at least the
nominal probability.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable

import numpy as np
from numpy.typing import ArrayLike

from peira.stats.inputs import coded, flat, upper
from peira.stats.intervals.means import estimate
from peira.stats.values import Interval


def quantile(values: ArrayLike, q: float, level: float = 0.95) -> Interval:
    """The q-quantile of independent values, with the shortest order-statistic interval.

    A bound is None if even the smallest or largest value is not extreme enough: for example, the 99th
    percentile of 50 values has no upper bound at 95%.
    """
    data = np.sort(flat(values))
    upper(level)
    if not 0 < q < 1:
        raise ValueError(f"need a quantile between 0 and 1, not {q}")
    low, high = _ranks(data.size, q, level)
    return Interval(
        float(np.quantile(data, q, method="median_unbiased")),
        None if low == 0 else float(data[low - 1]),
        None if high == data.size + 1 else float(data[high - 1]),
        data.size,
        "order statistics",
    )


def clustered_quantile(
    values: ArrayLike, clusters: Iterable[Hashable], q: float, level: float = 0.95
) -> Interval:
    """The q-quantile of values that come in clusters, such as repeats of a case.

    Woodruff's interval: the clustered interval of the proportion of values up to the quantile (see
    `estimate`), mapped back to order statistics. With one value per cluster this is `quantile`; with a single
    cluster the bounds are unknown.
    """
    data = flat(values)
    codes, groups = coded(clusters, data.size)
    if groups == data.size:
        return quantile(data, q, level)
    found = quantile(data, q, level)
    if groups == 1:
        return Interval(found.value, None, None, data.size, "unknown")
    ordered = np.sort(data)
    # Ties at the quantile are split by position, so that the proportion is about q.
    below = np.zeros(data.size)
    below[np.argsort(data, kind="stable")[: min(max(round(q * data.size), 1), data.size - 1)]] = 1.0
    share = estimate(below, codes.tolist(), level)
    assert share.low is not None
    assert share.high is not None
    low, high = math.floor(share.low * data.size), math.ceil(share.high * data.size) + 1
    return Interval(
        found.value,
        None if low < 1 else float(ordered[low - 1]),
        None if high > data.size else float(ordered[high - 1]),
        data.size,
        "order statistics, clustered",
    )


def _ranks(n: int, q: float, level: float) -> tuple[int, int]:
    """The closest ranks r and s (from 1; 0 and n + 1 mean "no bound") that cover the quantile.

    Their coverage is the probability that a binomial count falls into r ... s - 1. Pairs that are bounded on
    both sides are preferred to closer ones, and among equally close pairs the one with the most equal tails.
    """
    from scipy.special import bdtr

    reach = 12 * math.sqrt(n * q * (1 - q)) + 12
    ranks = np.arange(max(0, math.floor(n * q - reach)), min(n + 1, math.ceil(n * q + reach)) + 1)
    below = np.where(ranks > 0, bdtr(np.maximum(ranks - 1, 0), n, q), 0.0)
    lows = np.flatnonzero(below <= 1 - level + 1e-12)
    highs = np.searchsorted(below, below[lows] + level - 1e-12)
    open_ends = (ranks[lows] == 0).astype(int) + (ranks[highs] == n + 1)
    uneven = np.abs(below[lows] - (1 - below[highs]))
    best = np.lexsort((uneven, highs - lows, open_ends))[0]
    return int(ranks[lows[best]]), int(ranks[highs[best]])
