"""How many cases a yes/no comparison needs: two sides on the same cases, or each on its own.

Of paired cases only those count on which the sides differ: `won` and `lost` are the chances of a case that
only the first, or only the second side gets right; `discordance` is their sum.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from peira.stats import normal
from peira.stats.matched import beyond, largest_p
from peira.stats.power import fewest


def mcnemar_power(won: float, lost: float, n: int, alpha: float = 0.05) -> float:
    """The chance that n cases show the difference as significant by McNemar's exact test.

    Over every outcome up to n = 2,000; Connor's normal approximation beyond.
    """
    _check(won, lost, alpha)
    if n > 2_000:
        return _connor(won, lost, n, alpha)
    return _exact(won, lost, n, alpha)


def mcnemar_cases(won: float, lost: float, alpha: float = 0.05, wanted: float = 0.8) -> int | None:
    """How many cases have the wanted power, with one fewer not enough; None if the sides do not differ."""
    _check(won, lost, alpha)
    if won == lost:
        return None
    return fewest(lambda n: mcnemar_power(won, lost, n, alpha) >= wanted)


def mcnemar_smallest(discordance: float, n: int, alpha: float = 0.05, wanted: float = 0.8) -> float | None:
    """The smallest difference of proportions that n cases of that discordance show; None if none is."""

    def shown(difference: float) -> bool:
        won, lost = (discordance + difference) / 2, (discordance - difference) / 2
        return mcnemar_power(won, max(lost, 0.0), n, alpha) >= wanted

    if not shown(discordance):
        return None
    low, high = 0.0, discordance
    for _ in range(24):
        middle = (low + high) / 2
        low, high = (low, middle) if shown(middle) else (middle, high)
    return high


def proportions_power(one: float, two: float, n: int, alpha: float = 0.05) -> float:
    """The chance that n cases on each side show two independent proportions as different (pooled z)."""
    _check(one, 0.0, alpha)
    _check(two, 0.0, alpha)
    pooled = (one + two) / 2
    under_null = math.sqrt(2 * pooled * (1 - pooled) / n)
    error = math.sqrt((one * (1 - one) + two * (1 - two)) / n)
    return _z_power(abs(one - two), under_null, error, alpha)


def proportions_cases(one: float, two: float, alpha: float = 0.05, wanted: float = 0.8) -> int | None:
    """The fewest cases on each side with the wanted power; None if the proportions are the same."""
    if one == two:
        return None
    return fewest(lambda n: proportions_power(one, two, n, alpha) >= wanted)


def _connor(won: float, lost: float, n: int, alpha: float) -> float:
    difference, discordance = abs(won - lost), won + lost
    error = math.sqrt(max(discordance - difference**2, 0.0) / n)
    return _z_power(difference, math.sqrt(discordance / n), error, alpha)


def _z_power(difference: float, under_null: float, error: float, alpha: float) -> float:
    """Both tails: beyond the critical value on the side of the difference, and beyond it on the other."""
    from scipy.special import ndtr

    critical = normal.quantile(1 - alpha / 2) * under_null
    if error == 0:
        return float(difference > critical)
    return float(ndtr((difference - critical) / error) + ndtr((-difference - critical) / error))


def _exact(won: float, lost: float, n: int, alpha: float) -> float:
    from scipy.stats import binom

    discordance = won + lost
    if discordance == 0:
        return 0.0
    chances = binom.pmf(np.arange(n + 1), n, discordance)
    return float(chances @ beyond(_critical(n, alpha), n, won / discordance, "two-sided"))


@lru_cache(maxsize=256)
def _critical(n: int, alpha: float) -> float:
    """The score beyond which McNemar's exact test of n cases rejects."""
    low, high = 0.0, 40.0
    for _ in range(30):
        middle = (low + high) / 2
        low, high = (low, middle) if largest_p(middle, n, "two-sided") <= alpha else (middle, high)
    return high


def _check(won: float, lost: float, alpha: float) -> None:
    if min(won, lost) < 0 or won + lost > 1 or not 0 < alpha < 1:
        raise ValueError(f"need chances that sum to at most 1 and 0 < alpha < 1, not {won}, {lost}, {alpha}")
