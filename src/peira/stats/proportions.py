"""Intervals of a proportion, from counts of independent yes/no values.

`exact` is the default elsewhere: Blaker's interval holds the truth at least as often as its level says, at
every n and every proportion, and is never wider than Clopper and Pearson's. Wilson's is shorter still, but
there are proportions (0.02 of 50, for one) at which a 95% interval of his holds the truth 92 times in 100.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from peira.stats import normal
from peira.stats.inputs import share, upper
from peira.stats.values import Estimate


def exact(successes: int, n: int, level: float = 0.95) -> Estimate:
    """Blaker's exact interval: as sure as Clopper and Pearson's, never wider, and nested in the level."""
    mean, alpha = share(successes, n), 2 * (1 - upper(level))
    low, high = _blaker_low(successes, n, alpha), 1 - _blaker_low(n - successes, n, alpha)
    return Estimate(mean, min(low, mean), max(high, mean), n, "exact")


def wilson(successes: int, n: int, level: float = 0.95) -> Estimate:
    """Wilson's score interval of a proportion: within [0, 1], and of positive width even at 0 or n."""
    mean = share(successes, n)
    return Estimate(mean, *score_bounds(mean, n, normal.quantile(upper(level))), n, "wilson")


def clopper_pearson(successes: int, n: int, level: float = 0.95) -> Estimate:
    """The classical exact interval: each tail has at most half of what the level leaves."""
    from scipy.special import betaincinv

    mean, tail = share(successes, n), 1 - upper(level)
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes else 0.0
    high = 1 - float(betaincinv(n - successes, successes + 1, tail)) if successes < n else 1.0
    return Estimate(mean, low, high, n, "clopper-pearson")


def rule_of_three(n: int, level: float = 0.95) -> float:
    """The largest share that none among `n` independent trials is still compatible with (about 3/n at 0.95).

    The bound is one-sided and exact: a larger share would have shown itself with a chance of `level`.
    """
    if n < 1 or not 0 < level < 1:
        raise ValueError(f"need n >= 1 and a level between 0 and 1, not n={n}, level={level}")
    return -math.expm1(math.log1p(-level) / n)


def score_bounds(mean: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's bounds around a share of `n` values; `n` need not be whole."""
    centre, scale = mean + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(mean * (1 - mean) / n + (z / (2 * n)) ** 2)
    low, high = (centre - half) / scale, (centre + half) / scale
    # At 0 or n successes one bound is the mean itself: rounding must not put it on the wrong side.
    return 0.0 if mean == 0 else low, 1.0 if mean == 1 else high


def _blaker_low(x: int, n: int, alpha: float) -> float:
    """The smallest p that Blaker accepts: where P(X >= x), with the opposite tail no larger, exceeds alpha.

    From Clopper and Pearson's bound upwards, the opposite tail first ends at `k`. It ends at k + 1 as soon as
    that tail is no larger than P(X >= x), and there the sum exceeds alpha; it may do so before.
    """
    from scipy.special import betainc, betaincc, betaincinv

    if x == 0:
        return 0.0
    start = float(betaincinv(x, n - x + 1, alpha / 2))
    k = _largest(lambda k: betaincc(k + 1, n - k, start) <= alpha / 2, x - 2)

    def excess(p: float) -> float:
        opposite = betaincc(k + 1, n - k, p) if k >= 0 else 0.0
        return float(betainc(x, n - x + 1, p) + opposite) - alpha

    def lead(p: float) -> float:
        return float(betainc(x, n - x + 1, p) - betaincc(k + 2, n - k - 1, p))

    jump = _root(lead, start, x / n)
    return _root(excess, start, jump) if excess(jump) > 0 else jump


def _largest(holds: Callable[[int], bool], high: int) -> int:
    """The largest whole number up to `high` that holds, -1 if none does; what holds at k holds below."""
    low = -1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """Where a function that ends above 0 last crosses it, rounded downwards: a tie counts as accepted."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low * (1 - 1e-12)
