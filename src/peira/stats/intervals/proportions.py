"""Confidence intervals of a proportion: for independent counts, and for 0/1 values in clusters.

`exact` is the default in other modules: Blaker's interval has at least the nominal coverage at every n and
every proportion, and is never wider than Clopper and Pearson's. Wilson's interval is shorter, but its
coverage can fall below the nominal level (92% instead of 95% at a proportion of 0.02 and n = 50).

For clusters, the information in the data depends on the intra-cluster correlation, which is poorly estimated
near 0 and 1 and with few clusters. Wilson's score test is therefore averaged over all correlations, weighted
by their beta-binomial likelihood at every candidate proportion. If all values are equal the correlation is
hardly known, and the interval is wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from peira.stats import normal
from peira.stats.inputs import Floats, share, upper
from peira.stats.values import Estimate

# Independent counts


def exact(successes: int, n: int, level: float = 0.95) -> Estimate:
    """Blaker's exact interval: at least the nominal coverage, and within Clopper and Pearson's.

    Intervals at increasing levels are nested.
    """
    mean, alpha = share(successes, n), 2 * (1 - upper(level))
    low, high = _blaker_low(successes, n, alpha), 1 - _blaker_low(n - successes, n, alpha)
    return Estimate(mean, min(low, mean), max(high, mean), n, "exact")


def wilson(successes: int, n: int, level: float = 0.95) -> Estimate:
    """Wilson's score interval: within [0, 1], and of positive width even at 0 or n successes.

    Shorter than `exact`, but its coverage can fall below the nominal level.
    """
    mean = share(successes, n)
    return Estimate(mean, *score_bounds(mean, n, normal.quantile(upper(level))), n, "wilson")


def clopper_pearson(successes: int, n: int, level: float = 0.95) -> Estimate:
    """Clopper and Pearson's exact interval, with at most half of alpha in each tail.

    Conservative: `exact` has the same guarantee and is never wider.
    """
    from scipy.special import betaincinv

    mean, tail = share(successes, n), 1 - upper(level)
    low = float(betaincinv(successes, n - successes + 1, tail)) if successes else 0.0
    high = 1 - float(betaincinv(n - successes, successes + 1, tail)) if successes < n else 1.0
    return Estimate(mean, low, high, n, "clopper-pearson")


def rule_of_three(n: int, level: float = 0.95) -> float:
    """The one-sided upper confidence bound of a proportion with 0 successes in `n` trials.

    Exact; about 3/n at a level of 0.95.
    """
    if n < 1 or not 0 < level < 1:
        raise ValueError(f"need n >= 1 and a level between 0 and 1, not n={n}, level={level}")
    return -math.expm1(math.log1p(-level) / n)


def score_bounds(mean: float, n: float, z: float) -> tuple[float, float]:
    """Wilson's score bounds for an observed proportion.

    `n` may be a non-integer effective sample size.
    """
    centre, scale = mean + z * z / (2 * n), 1 + z * z / n
    half = z * math.sqrt(mean * (1 - mean) / n + (z / (2 * n)) ** 2)
    low, high = (centre - half) / scale, (centre + half) / scale
    # At 0 or n successes one bound is the mean itself: rounding must not put it on the wrong side.
    return 0.0 if mean == 0 else low, 1.0 if mean == 1 else high


def _blaker_low(x: int, n: int, alpha: float) -> float:
    """Blaker's lower bound: the smallest p whose acceptability exceeds alpha.

    The acceptability of p is P(X >= x) plus the largest opposite tail that is no larger. Starting at Clopper
    and Pearson's bound, the opposite tail ends at `k`; it jumps to k + 1 where that tail equals P(X >= x).
    The bound is at this jump, or before it where the sum crosses alpha.
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
    """The largest integer up to `high` for which `holds` is true, -1 if none; by bisection.

    `holds` must be true at every integer below one where it is true.
    """
    low = -1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if holds(middle) else (low, middle - 1)
    return low


def _root(rising: Callable[[float], float], low: float, high: float) -> float:
    """The root of an increasing function by bisection, rounded down so that ties count as accepted."""
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if rising(middle) > 0 else (middle, high)
    return low * (1 - 1e-12)


# Clusters

_NODES = 33
# Correlations whose log likelihood is this far below the maximum are left out of the average.
_LOG_LIKELIHOOD_CUTOFF = 15.0


@dataclass(frozen=True)
class _Tally:
    """Distinct numbers and how many clusters have each."""

    numbers: Floats
    times: Floats

    @classmethod
    def of(cls, numbers: Floats) -> _Tally:
        """Count the distinct values of an array."""
        return cls(*(part.astype(np.float64) for part in np.unique(numbers, return_counts=True)))

    def rising(self, a: Floats) -> Floats:
        """The sum over all numbers k of the log rising factorial, log a(a+1)...(a+k-1)."""
        from scipy.special import gammaln

        found: Floats = self.times @ (gammaln(self.numbers[:, None] + a) - gammaln(a))
        return found


class Clusters:
    """Score interval of a proportion from successes and sizes of clusters."""

    def __init__(self, successes: Floats, sizes: Floats) -> None:
        self.n = float(sizes.sum())
        self.mean = float(successes.sum()) / self.n
        self._squares = float(sizes @ sizes)
        self._yes, self._no = _Tally.of(successes), _Tally.of(sizes - successes)
        self._sizes = _Tally.of(sizes)
        self._seen = self._dispersion(successes, sizes)
        self._nodes = self._likely_nodes()

    def bounds(self, level: float) -> tuple[float, float]:
        """The bounds at which each averaged tail probability is half of alpha."""
        tail = 1 - upper(level)
        low = _crossing(lambda p: self._tail(p) - tail, 0.0, self.mean) if self.mean > 0 else 0.0
        high = _crossing(lambda p: self._tail(p) - tail, 1.0, self.mean) if self.mean < 1 else 1.0
        return low, high

    def _tail(self, p: float) -> float:
        """The one-sided p-value of the null value `p`, averaged over the correlations."""
        from scipy.special import ndtr

        chances = self._log_likelihood(p, self._nodes)
        weights = np.exp(chances - chances.max())
        variance = p * (1 - p) * np.maximum(self._model(self._nodes), self._seen)
        tails = ndtr(-abs(self.mean - p) / np.sqrt(variance))
        return float(weights @ tails / weights.sum())

    def _model(self, correlation: Floats) -> Floats:
        """The modelled variance of the mean over p(1-p), at each correlation.

        It is 1/n at correlation 0 and the sum of squared cluster shares at 1.
        """
        return (self.n + correlation * (self._squares - self.n)) / self.n**2

    def _dispersion(self, successes: Floats, sizes: Floats) -> float:
        """The empirical variance of the mean over p(1-p), a lower limit of the model's."""
        if self.mean in (0.0, 1.0):
            return 0.0
        residuals = successes - sizes * self.mean
        shown = float(residuals**2 @ (1 / (1 - sizes / self.n))) / self.n**2 / (self.mean * (1 - self.mean))
        return min(shown, self._squares / self.n**2)

    def _likely_nodes(self) -> Floats:
        """Quadrature nodes for the correlation, where its likelihood is not negligible.

        They are equidistant on the arcsine scale.
        """
        angles = _middles(0.0, math.pi / 2)
        p = (self.mean * self.n + 0.5) / (self.n + 1)
        chances = self._log_likelihood(p, np.sin(angles) ** 2)
        likely = angles[chances > chances.max() - _LOG_LIKELIHOOD_CUTOFF]
        half = math.pi / (4 * _NODES)
        return np.sin(_middles(likely[0] - half, likely[-1] + half)) ** 2

    def _log_likelihood(self, p: float, correlation: Floats) -> Floats:
        """The beta-binomial log likelihood of the clusters at `p`, for each correlation."""
        looseness = 1 / correlation - 1
        return (
            self._yes.rising(p * looseness)
            + self._no.rising((1 - p) * looseness)
            - self._sizes.rising(looseness)
        )


def _middles(low: float, high: float) -> Floats:
    """The midpoints of equal subdivisions of [low, high]."""
    return low + (high - low) * (np.arange(_NODES) + 0.5) / _NODES


def _crossing(excess: Callable[[float], float], end: float, mean: float) -> float:
    """The root of `excess` between the end of the range and the mean.

    The end itself if there is none.
    """
    from scipy.optimize import brentq

    step = (mean - end) * 1e-9
    far, near = end + step, mean - step
    return float(brentq(excess, far, near, xtol=1e-12)) if excess(far) < 0 else end
