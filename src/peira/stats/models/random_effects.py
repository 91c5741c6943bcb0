"""Random effects: logistic regression with a random intercept, and partial pooling of many means.

`logistic` is fitted by maximum likelihood; the random intercepts are integrated out by adaptive Gauss-Hermite
quadrature around each group's mode (Pinheiro and Bates), which is accurate even with few answers per group.
Identical rows of a group are counted, not repeated.

`pool` shrinks the means of slices, which scatter by chance if slices are small. Slices are modelled as a
sample from a normal population. The between-slice standard deviation is not fixed at a point estimate (which
is often 0 and would shrink everything completely) but integrated over its posterior.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from peira.stats import normal, student
from peira.stats.inputs import Codes, Floats, flat, totals, upper

# Logistic regression with a random intercept

NODES = 15
"""The number of Gauss-Hermite quadrature nodes."""
_STEP = 1e-4


@dataclass(frozen=True, eq=False)
class LogisticFit:
    """Log-odds coefficients, their covariance, and the standard deviation of the random intercepts.

    `robust` is the covariance that stays valid if groups also differ in their effects: from the groups' own
    contributions to the score (sandwich), times G/(G-1).
    """

    beta: Floats
    covariance: Floats
    deviation: float
    robust: Floats


@dataclass(frozen=True, eq=False)
class _Counts:
    """The numbers of answers and of yes answers, for each group and distinct design row."""

    matrix: Floats
    groups: Codes
    yes: Floats
    n: Floats

    def level(self, beta: Floats, deviation: float) -> tuple[Floats, Floats]:
        """The mode of each random intercept, and its Laplace standard deviation."""
        fixed = self.matrix @ beta
        level = np.zeros(int(self.groups.max()) + 1)
        precision = 1 / deviation**2
        for _ in range(50):
            p = 1 / (1 + np.exp(-(fixed + level[self.groups])))
            slope = totals(self.groups, self.yes - self.n * p) - precision * level
            curve = totals(self.groups, self.n * p * (1 - p)) + precision
            step = slope / curve
            level = level + np.clip(step, -2, 2)
            if float(np.abs(step).max()) < 1e-10:
                break
        found: Floats = 1 / np.sqrt(curve)
        return level, found

    def log_likelihood(self, parameters: Floats) -> float:
        """The marginal log likelihood.

        `parameters` are the coefficients and the log standard deviation.
        """
        return float(self.by_group(parameters).sum())

    def by_group(self, parameters: Floats) -> Floats:
        """The contribution of each group to the marginal log likelihood."""
        beta, deviation = parameters[:-1], math.exp(float(parameters[-1]))
        level, width = self.level(beta, deviation)
        nodes, weights = np.polynomial.hermite.hermgauss(NODES)
        fixed = self.matrix @ beta
        found = np.empty((NODES, level.size))
        for k, node in enumerate(nodes):
            at = level + math.sqrt(2) * width * node
            eta = fixed + at[self.groups]
            log_density = totals(self.groups, self.yes * eta - self.n * np.logaddexp(0, eta))
            found[k] = log_density - at**2 / (2 * deviation**2) + node**2 + math.log(weights[k])
        most = found.max(axis=0)
        each: Floats = most + np.log(np.exp(found - most).sum(axis=0)) + np.log(width / deviation)
        return each - math.log(math.pi) / 2


def logistic(values: Floats, matrix: Floats, groups: Codes) -> LogisticFit | None:
    """Fit a logistic regression with one random intercept per group.

    None if the optimiser does not converge to finite coefficients, or the information is not positive
    definite.
    """
    from scipy.optimize import minimize

    counts = _count_rows(values, matrix, groups)
    start = np.append(np.zeros(matrix.shape[1]), math.log(0.5))
    found = minimize(lambda at: -counts.log_likelihood(at), start, method="BFGS", options={"gtol": 1e-5})
    at = np.asarray(found.x, dtype=np.float64)
    if not np.isfinite(at).all() or float(np.abs(at[:-1]).max()) > 30:
        return None
    # If groups do not differ the deviation converges to 0, where its derivative is of no use.
    free = at.size if at[-1] > math.log(1e-3) else at.size - 1
    curve = _curvature(counts, at, free)
    if float(np.linalg.eigvalsh(curve)[0]) <= 0:
        return None
    covariance = np.asarray(np.linalg.inv(curve), dtype=np.float64)
    k, size = matrix.shape[1], int(counts.groups.max()) + 1
    scores = _scores(counts, at, free)
    robust = covariance @ (scores.T @ scores) @ covariance * (size / (size - 1))
    deviation = math.exp(float(at[-1])) if free == at.size else 0.0
    return LogisticFit(at[:-1], covariance[:k, :k], deviation, robust[:k, :k])


def _scores(counts: _Counts, at: Floats, free: int) -> Floats:
    """The derivatives of each group's log likelihood, by central differences."""
    steps = _STEP * np.maximum(1.0, np.abs(at))
    found = []
    for place in range(free):
        change = np.zeros_like(at)
        change[place] = steps[place]
        found.append((counts.by_group(at + change) - counts.by_group(at - change)) / (2 * steps[place]))
    return np.stack(found, axis=1)


def _count_rows(values: Floats, matrix: Floats, groups: Codes) -> _Counts:
    """Group equal rows of the same group and count their answers."""
    rows, codes = np.unique(np.column_stack([groups, matrix]), axis=0, return_inverse=True)
    flat = codes.reshape(-1)
    n = np.bincount(flat).astype(np.float64)
    return _Counts(rows[:, 1:], rows[:, 0].astype(np.intp), totals(flat, values), n)


def _curvature(counts: _Counts, at: Floats, free: int) -> Floats:
    """The observed information: minus the Hessian of the log likelihood, by central differences."""
    found = np.zeros((free, free))
    steps = _STEP * np.maximum(1.0, np.abs(at))
    middle = counts.log_likelihood(at)

    def moved(*changes: tuple[int, float]) -> float:
        there = at.copy()
        for place, sign in changes:
            there[place] += sign * steps[place]
        return counts.log_likelihood(there)

    for i in range(free):
        found[i, i] = -(moved((i, 1)) - 2 * middle + moved((i, -1))) / steps[i] ** 2
        for j in range(i):
            crossed = moved((i, 1), (j, 1)) - moved((i, 1), (j, -1)) - moved((i, -1), (j, 1))
            both = crossed + moved((i, -1), (j, -1))
            found[i, j] = found[j, i] = -both / (4 * steps[i] * steps[j])
    return found


# Partial pooling

_NODES = 400


@dataclass(frozen=True)
class Pooled:
    """The shrunken mean of one slice.

    `weight` is that of its own mean (1: no pooling, 0: overall mean).
    """

    mean: float
    low: float | None
    high: float | None
    weight: float


@dataclass(frozen=True)
class Pooling:
    """The shrunken slices in order, the overall mean and the between-slice deviation."""

    slices: tuple[Pooled, ...]
    overall: float
    deviation: float | None


STEADYING = 20.0
"""The weight of the common variance of all slices, in degrees of freedom, against a slice's own."""


def steady_errors(variances: Sequence[float], units: Sequence[int]) -> list[float]:
    """The standard errors of slice means, with the variances of small slices drawn to the common one.

    The variance of two or three cases is hardly known, and often 0 by chance. `variances` are those of single
    units within each slice (of any value where there is one unit). All errors are 0 if nothing varies.
    """
    degrees = [n - 1 for n in units]
    total = sum(degrees)
    common = sum(d * v for d, v in zip(degrees, variances, strict=True)) / total if total else 0.0
    return [
        math.sqrt((d * v + STEADYING * common) / (d + STEADYING) / n)
        for d, v, n in zip(degrees, variances, units, strict=True)
    ]


def pool(
    means: Sequence[float],
    errors: Sequence[float],
    level: float = 0.95,
    df: Sequence[float] | None = None,
) -> Pooling:
    """Partial pooling of slice means with standard errors.

    Flat priors on overall mean and deviation. `df` are the degrees of freedom of each slice's interval if the
    errors are estimates; None takes these for known.

    A standard error of 0 (a slice without variation) is treated as unknown and replaced by the largest of the
    others. With fewer than three slices, or no known standard error, the between-slice deviation cannot be
    estimated and nothing is pooled.
    """
    values, errs = flat(means), flat(errors)
    if values.size != errs.size or bool((errs < 0).any()):
        raise ValueError("need one standard error of at least 0 for each mean")
    z = np.full(values.size, normal.quantile(upper(level)))
    if df is not None:
        z = np.array([student.quantile(one, upper(level)) for one in df])
    known = errs > 0
    if values.size < 3 or not known.any():
        return _unpooled(values, errs, z)
    return _integrated(values, np.where(known, errs, errs.max()) ** 2, z)


def _integrated(values: Floats, variances: Floats, z: Floats) -> Pooling:
    """Posterior means over a grid of deviations (rows), for each slice (columns)."""
    angles = (np.arange(_NODES) + 0.5) / _NODES * math.pi / 2
    deviations = math.sqrt(float(variances.mean() + values.var())) * np.tan(angles)
    totals = variances + deviations[:, None] ** 2
    precision = (1 / totals).sum(axis=1)
    overall = (values / totals).sum(axis=1) / precision
    misfit = ((values - overall[:, None]) ** 2 / totals).sum(axis=1)
    chances = -0.5 * (np.log(totals).sum(axis=1) + np.log(precision) + misfit) - 2 * np.log(np.cos(angles))
    shares = np.exp(chances - chances.max())
    shares /= shares.sum()
    own = deviations[:, None] ** 2 / totals
    centres = own * values + (1 - own) * overall[:, None]
    spread = own * variances + (1 - own) ** 2 / precision[:, None]
    mean = shares @ centres
    half = z * np.sqrt(shares @ (spread + (centres - mean) ** 2))
    slices = (
        Pooled(float(m), float(m - h), float(m + h), float(w))
        for m, h, w in zip(mean, half, shares @ own, strict=True)
    )
    return Pooling(tuple(slices), float(shares @ overall), _median(deviations, shares))


def _median(points: Floats, shares: Floats) -> float:
    """The weighted median of the points."""
    return float(np.interp(0.5, np.cumsum(shares) - shares / 2, points))


def _unpooled(values: Floats, errs: Floats, z: Floats) -> Pooling:
    """Every slice with its own mean and interval: no pooling."""
    slices = (
        Pooled(float(m), float(m - q * e) if e else None, float(m + q * e) if e else None, 1.0)
        for m, e, q in zip(values, errs, z, strict=True)
    )
    return Pooling(tuple(slices), float(values.mean()), None)
