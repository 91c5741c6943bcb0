"""The chance that one side is better than the other, given the data, and that the difference matters.

Priors are weak and fixed: Jeffreys' for proportions (a half of every outcome), flat for means and for the
logarithm of their spread, under which the posterior of a mean is Student's t. `rope` is the region of
practical equivalence: differences within it are as good as none.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from peira.stats import student
from peira.stats.inputs import Floats, coded, counts, flat, is_rounding, pairs, share, upper
from peira.stats.robust import spread
from peira.stats.student import Spread

_DRAWS = 100_000


@dataclass(frozen=True)
class Posterior:
    """The posterior of first minus second: its mean, its central interval, and where its mass lies.

    `below`, `within` and `above` the region of practical equivalence sum to 1; without a region it is the
    single point 0. All are None where the data cannot say.
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
    """Two independent proportions, each with its own beta posterior."""
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
    """Two yes/no answers to the same cases: won, lost and agreed have a joint Dirichlet posterior."""
    counts(won=won, lost=lost)
    if won + lost > n or n < 1:
        raise ValueError(f"need won + lost <= n and n >= 1, not {won} + {lost} of {n}")
    # Agreement is two outcomes, both right and both wrong: a half of each.
    shares = np.random.default_rng(seed).dirichlet([won + 0.5, lost + 0.5, n - won - lost + 1.0], _DRAWS)
    return _summary(shares[:, 0] - shares[:, 1], rope, level, n, "dirichlet")


def paired_means(
    one: ArrayLike,
    two: ArrayLike,
    clusters: Iterable[Hashable] | None = None,
    rope: tuple[float, float] = (0.0, 0.0),
    level: float = 0.95,
) -> Posterior:
    """The mean of `one - two`, case by case; with clusters, from the cluster-robust error."""
    first, second = pairs(one, two)
    data = first - second
    codes, groups = coded(clusters, data.size)
    found = spread(data, codes) if groups > 1 else None
    known = found is not None and not is_rounding(found.error, np.concatenate([first, second]))
    return _of_t(float(data.mean()), found if known else None, rope, level, data.size)


def unpaired_means(
    one: ArrayLike, two: ArrayLike, rope: tuple[float, float] = (0.0, 0.0), level: float = 0.95
) -> Posterior:
    """The mean of `one` minus that of `two`, independent; Welch's approximation of the two t posteriors."""
    first, second = flat(one), flat(two)
    n, mean = first.size + second.size, float(first.mean() - second.mean())
    if min(first.size, second.size) < 2:
        return _of_t(mean, None, rope, level, n)
    spreads = [spread(data, np.arange(data.size)) for data in (first, second)]
    together = student.independent(*spreads) if max(found.error for found in spreads) > 0 else None
    known = together is not None and not is_rounding(together.error, np.concatenate([first, second]))
    return _of_t(mean, together if known else None, rope, level, n)


def _of_t(mean: float, found: Spread | None, rope: tuple[float, float], level: float, n: int) -> Posterior:
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
    limit = upper(level)
    _check(rope)
    low, high = (float(bound) for bound in np.quantile(draws, (1 - limit, limit)))
    below, above = (float((draws < rope[0]).mean()), float((draws > rope[1]).mean()))
    better = float((draws > 0).mean())
    return Posterior(float(draws.mean()), low, high, better, below, 1 - below - above, above, n, method)


def _check(rope: tuple[float, float]) -> None:
    if not rope[0] <= 0 <= rope[1]:
        raise ValueError(f"a region of practical equivalence holds 0, unlike {rope}")
