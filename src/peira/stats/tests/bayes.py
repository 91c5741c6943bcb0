"""Posterior probability that one side is better, and that the difference exceeds a margin.

Priors are weak and fixed: Jeffreys' for proportions (0.5 for every outcome); flat for means and for the log
standard deviation, under which the posterior of a mean is Student's t. `rope` is the region of practical
equivalence, which contains 0.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from peira.stats import student
from peira.stats.inputs import Floats, coded, counts, flat, is_rounding, pairs, share, upper
from peira.stats.intervals.bounded import METHOD, BoundedSample
from peira.stats.intervals.means import spread
from peira.stats.student import Spread

_DRAWS = 100_000


@dataclass(frozen=True)
class Posterior:
    """The posterior of first minus second: mean, central interval, and probabilities.

    `better` is the probability that the difference is positive. `below`, `within` and `above` refer to the
    region of practical equivalence and sum to 1; without a region it is the point 0. All are None where they
    cannot be estimated.
    """

    mean: float
    low: float | None
    high: float | None
    better: float | None
    below: float | None
    within: float | None
    above: float | None
    n: int
    method: str


def proportions(
    yes: int,
    n: int,
    other_yes: int,
    other_n: int,
    rope: tuple[float, float] = (0.0, 0.0),
    level: float = 0.95,
    seed: int = 0,
) -> Posterior:
    """Two independent proportions with beta posteriors.

    Counts of successes and sizes of both sides; Jeffreys' prior. Computed from seeded draws.
    """
    share(yes, n), share(other_yes, other_n)
    rng = np.random.default_rng(seed)
    one, two = (rng.beta(x + 0.5, m - x + 0.5, _DRAWS) for x, m in ((yes, n), (other_yes, other_n)))
    return _summary(one - two, rope, level, n + other_n, "beta-binomial")


def matched(
    won: int,
    lost: int,
    n: int,
    rope: tuple[float, float] = (0.0, 0.0),
    level: float = 0.95,
    seed: int = 0,
) -> Posterior:
    """Paired yes/no answers: won, lost and tied have a joint Dirichlet posterior.

    `won` and `lost` count the discordant cases among `n`. Computed from seeded draws.
    """
    counts(won=won, lost=lost)
    if won + lost > n or n < 1:
        raise ValueError(f"need won + lost <= n and n >= 1, not {won} + {lost} of {n}")
    # Ties are two outcomes, both right and both wrong, with a prior of 0.5 each.
    shares = np.random.default_rng(seed).dirichlet([won + 0.5, lost + 0.5, n - won - lost + 1.0], _DRAWS)
    return _summary(shares[:, 0] - shares[:, 1], rope, level, n, "dirichlet")


def paired_means(
    one: ArrayLike,
    two: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    rope: tuple[float, float] = (0.0, 0.0),
    level: float = 0.95,
) -> Posterior:
    """The mean of the paired differences `one - two`.

    With `clusters`, from the cluster-robust error.
    """
    first, second = pairs(one, two)
    data = first - second
    codes, groups = coded(clusters, data.size)
    found = spread(data, codes) if groups > 1 else None
    known = found is not None and not is_rounding(found.error, np.concatenate([first, second]))
    return from_t(float(data.mean()), found if known else None, rope, level, data.size)


def within_limits(
    values: ArrayLike,
    clusters: Iterable[Hashable] | None,
    limits: tuple[float, float],
    rope: tuple[float, float] = (0.0, 0.0),
    level: float = 0.95,
) -> Posterior:
    """The mean of values within limits, without an assumption about their shape (the Bayesian bootstrap).

    One more value is possible, which was not seen: at the least or the greatest limit, with equal chances.
    The interval is that of `bounded_mean`.
    """
    _check(rope)
    sample, tail = BoundedSample.of(values, clusters, limits), 1 - upper(level)

    def below(point: float) -> float:
        return (sample.p_greater(point) + 1 - sample.p_less(point)) / 2

    under, over = below(rope[0]), 1 - below(rope[1])
    between = max(0.0, 1 - under - over)
    bounds = sample.low(tail), sample.high(tail)
    return Posterior(sample.mean, *bounds, 1 - below(0.0), under, between, over, sample.n, METHOD)


def unpaired_means(
    one: ArrayLike, two: ArrayLike, rope: tuple[float, float] = (0.0, 0.0), level: float = 0.95
) -> Posterior:
    """The difference of two independent means, by Welch's approximation of the two t posteriors.

    Unknown if a side has fewer than two values, or neither varies.
    """
    first, second = flat(one), flat(two)
    n, mean = first.size + second.size, float(first.mean() - second.mean())
    if min(first.size, second.size) < 2:
        return from_t(mean, None, rope, level, n)
    spreads = [spread(data, np.arange(data.size)) for data in (first, second)]
    together = student.independent(*spreads) if max(found.error for found in spreads) > 0 else None
    known = together is not None and not is_rounding(together.error, np.concatenate([first, second]))
    return from_t(mean, together if known else None, rope, level, n)


def from_t(mean: float, found: Spread | None, rope: tuple[float, float], level: float, n: int) -> Posterior:
    """The posterior of a mean with a t-distributed error; unknown if `found` is None."""
    upper(level)
    _check(rope)
    if found is None:
        return Posterior(mean, None, None, None, None, None, None, n, "unknown")

    def mass_above(point: float) -> float:
        return student.p_value((mean - point) / found.error, found.df, "less")

    below, above = 1 - mass_above(rope[0]), mass_above(rope[1])
    bounds = student.around(mean, found, level)
    return Posterior(mean, *bounds, mass_above(0.0), below, max(0.0, 1 - below - above), above, n, "t")


def _summary(draws: Floats, rope: tuple[float, float], level: float, n: int, method: str) -> Posterior:
    """The posterior summarised from draws."""
    limit = upper(level)
    _check(rope)
    low, high = (float(bound) for bound in np.quantile(draws, (1 - limit, limit)))
    below, above = (float((draws < rope[0]).mean()), float((draws > rope[1]).mean()))
    better = float((draws > 0).mean())
    return Posterior(float(draws.mean()), low, high, better, below, 1 - below - above, above, n, method)


def _check(rope: tuple[float, float]) -> None:
    """Raise ValueError unless the region contains 0."""
    if not rope[0] <= 0 <= rope[1]:
        raise ValueError(f"a region of practical equivalence holds 0, unlike {rope}")
