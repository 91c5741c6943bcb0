"""The interval of a proportion when yes/no values come in clusters: repeats of a case, cases of a family.

How much a cluster's values have in common decides how much they tell, and near 0 and 1, or with few clusters,
the data hardly say how much that is. So Wilson's score test is averaged over every correlation that the data
leave possible, each weighed by its beta-binomial likelihood, at every proportion that is tried. Nothing
special happens when all values agree: then little is known about the correlation, and the interval is wide.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from peira.stats.inputs import Floats, upper

_NODES = 33
# A correlation this many times less likely (e^15) than the likeliest is not looked at.
_FORGOTTEN = 15.0


@dataclass(frozen=True)
class _Tally:
    """Distinct numbers, and how many clusters show each."""

    numbers: Floats
    times: Floats

    @classmethod
    def of(cls, numbers: Floats) -> _Tally:
        return cls(*(part.astype(np.float64) for part in np.unique(numbers, return_counts=True)))

    def rising(self, a: Floats) -> Floats:
        """Sum of log a(a+1)...(a+k-1) over all numbers k."""
        from scipy.special import gammaln

        found: Floats = self.times @ (gammaln(self.numbers[:, None] + a) - gammaln(a))
        return found


class Clusters:
    """Successes and sizes of clusters, as far as the interval needs them."""

    def __init__(self, successes: Floats, sizes: Floats) -> None:
        self.n = float(sizes.sum())
        self.mean = float(successes.sum()) / self.n
        self._squares = float(sizes @ sizes)
        self._yes, self._no = _Tally.of(successes), _Tally.of(sizes - successes)
        self._sizes = _Tally.of(sizes)
        self._seen = self._dispersion(successes, sizes)
        self._nodes = self._likely_nodes()

    def bounds(self, level: float) -> tuple[float, float]:
        """Where either tail is half of what the level leaves."""
        tail = 1 - upper(level)
        low = _crossing(lambda p: self._tail(p) - tail, 0.0, self.mean) if self.mean > 0 else 0.0
        high = _crossing(lambda p: self._tail(p) - tail, 1.0, self.mean) if self.mean < 1 else 1.0
        return low, high

    def _tail(self, p: float) -> float:
        """The chance of a mean as far from `p` as this one, on its side, were `p` the truth."""
        from scipy.special import ndtr

        chances = self._log_likelihood(p, self._nodes)
        weights = np.exp(chances - chances.max())
        variance = p * (1 - p) * np.maximum(self._model(self._nodes), self._seen)
        tails = ndtr(-abs(self.mean - p) / np.sqrt(variance))
        return float(weights @ tails / weights.sum())

    def _model(self, correlation: Floats) -> Floats:
        """The variance of the mean over p(1-p), at each correlation: 1/n at 0, squared shares at 1."""
        return (self.n + correlation * (self._squares - self.n)) / self.n**2

    def _dispersion(self, successes: Floats, sizes: Floats) -> float:
        """The same as the clusters show it; the interval never rests on less."""
        if self.mean in (0.0, 1.0):
            return 0.0
        residuals = successes - sizes * self.mean
        shown = float(residuals**2 @ (1 / (1 - sizes / self.n))) / self.n**2 / (self.mean * (1 - self.mean))
        return min(shown, self._squares / self.n**2)

    def _likely_nodes(self) -> Floats:
        """Correlations to average over: evenly in arcsine, where the likelihood has not died away."""
        angles = _middles(0.0, math.pi / 2)
        p = (self.mean * self.n + 0.5) / (self.n + 1)
        chances = self._log_likelihood(p, np.sin(angles) ** 2)
        alive = angles[chances > chances.max() - _FORGOTTEN]
        half = math.pi / (4 * _NODES)
        return np.sin(_middles(alive[0] - half, alive[-1] + half)) ** 2

    def _log_likelihood(self, p: float, correlation: Floats) -> Floats:
        looseness = 1 / correlation - 1
        return (
            self._yes.rising(p * looseness)
            + self._no.rising((1 - p) * looseness)
            - self._sizes.rising(looseness)
        )


def _middles(low: float, high: float) -> Floats:
    return low + (high - low) * (np.arange(_NODES) + 0.5) / _NODES


def _crossing(excess: Callable[[float], float], end: float, mean: float) -> float:
    """Where the tail, 0 at the end of the range and a half at the mean, reaches its limit."""
    from scipy.optimize import brentq

    step = (mean - end) * 1e-9
    far, near = end + step, mean - step
    return float(brentq(excess, far, near, xtol=1e-12)) if excess(far) < 0 else end
