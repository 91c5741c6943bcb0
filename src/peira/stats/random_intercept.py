"""Logistic regression in which every group has a level of its own, drawn from a normal distribution.

Maximum likelihood; the levels are integrated out by adaptive Gauss-Hermite quadrature around each group's
most likely one (Pinheiro and Bates), so that few answers per group do no harm. Rows of one group that are
alike are counted, not repeated.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from peira.stats.inputs import Codes, Floats, totals

NODES = 15
_STEP = 1e-4


@dataclass(frozen=True, eq=False)
class Fitted:
    """Coefficients on the scale of log odds, their covariance, and the deviation of the groups' levels."""

    beta: Floats
    covariance: Floats
    deviation: float


@dataclass(frozen=True, eq=False)
class _Counts:
    """Of each group and distinct row of the matrix: how many answers, and how many of them yes."""

    matrix: Floats
    groups: Codes
    yes: Floats
    n: Floats

    def level(self, beta: Floats, deviation: float) -> tuple[Floats, Floats]:
        """The most likely level of each group, and how sharply it is known, as a deviation."""
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
        beta, deviation = parameters[:-1], math.exp(float(parameters[-1]))
        level, width = self.level(beta, deviation)
        nodes, weights = np.polynomial.hermite.hermgauss(NODES)
        fixed = self.matrix @ beta
        found = np.empty((NODES, level.size))
        for k, node in enumerate(nodes):
            at = level + math.sqrt(2) * width * node
            eta = fixed + at[self.groups]
            told = totals(self.groups, self.yes * eta - self.n * np.logaddexp(0, eta))
            found[k] = told - at**2 / (2 * deviation**2) + node**2 + math.log(weights[k])
        most = found.max(axis=0)
        each = most + np.log(np.exp(found - most).sum(axis=0)) + np.log(width / deviation)
        return float(each.sum()) - level.size * math.log(math.pi) / 2


def logistic(values: Floats, matrix: Floats, groups: Codes) -> Fitted | None:
    """None where the fit does not settle, or its errors are not finite."""
    from scipy.optimize import minimize

    counts = _counted(values, matrix, groups)
    start = np.append(np.zeros(matrix.shape[1]), math.log(0.5))
    found = minimize(lambda at: -counts.log_likelihood(at), start, method="BFGS", options={"gtol": 1e-5})
    at = np.asarray(found.x, dtype=np.float64)
    if not np.isfinite(at).all() or float(np.abs(at[:-1]).max()) > 30:
        return None
    # Where groups do not differ the deviation goes to 0, and the rest is as if it were.
    free = at.size if at[-1] > math.log(1e-3) else at.size - 1
    curve = _curvature(counts, at, free)
    if float(np.linalg.eigvalsh(curve)[0]) <= 0:
        return None
    covariance = np.asarray(np.linalg.inv(curve), dtype=np.float64)
    k = matrix.shape[1]
    return Fitted(at[:-1], covariance[:k, :k], math.exp(float(at[-1])) if free == at.size else 0.0)


def _counted(values: Floats, matrix: Floats, groups: Codes) -> _Counts:
    rows, codes = np.unique(np.column_stack([groups, matrix]), axis=0, return_inverse=True)
    flat = codes.reshape(-1)
    n = np.bincount(flat).astype(np.float64)
    return _Counts(rows[:, 1:], rows[:, 0].astype(np.intp), totals(flat, values), n)


def _curvature(counts: _Counts, at: Floats, free: int) -> Floats:
    """Minus the second derivatives of the log likelihood, by central differences."""
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
