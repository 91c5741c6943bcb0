"""Second-order response surfaces: least squares, canonical analysis, and the optimum in the region.

Least squares is solved by QR decomposition of columns scaled to unit norm, without forming X'X, so that
polynomials in large numbers keep their precision.

Coordinates are coded: the region is the cube from -1 to 1. A surface is its vector of coefficients in the
order of `columns`: intercept, linear terms, squares, two-way products.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from peira.stats.inputs import Floats

# Least squares

_DEPENDENT = 1e-13


@dataclass(frozen=True, eq=False)
class Solution:
    """A least-squares fit.

    `bread` is the inverse of X'X, which times the error variance is Cov(beta).
    """

    beta: Floats
    bread: Floats
    residuals: Floats

    @property
    def squares(self) -> float:
        """The residual sum of squares."""
        return float(self.residuals @ self.residuals)


def solve(matrix: Floats, response: Floats) -> Solution | None:
    """Ordinary least squares; None if columns are linearly dependent or outnumber the rows."""
    rows, columns = matrix.shape
    if columns == 0:
        return Solution(np.zeros(0), np.zeros((0, 0)), response.copy())
    scales = np.linalg.norm(matrix, axis=0)
    if columns > rows or float(scales.min()) == 0:
        return None
    basis, triangle = np.linalg.qr(matrix / scales)
    if float(np.abs(np.diag(triangle)).min()) <= _DEPENDENT:
        return None
    inverse = np.linalg.inv(triangle) / scales[:, None]
    beta = inverse @ (basis.T @ response)
    # One step of iterative refinement recovers digits lost in the first solve.
    beta = beta + inverse @ (basis.T @ (response - matrix @ beta))
    return Solution(beta, inverse @ inverse.T, response - matrix @ beta)


# Second-order surfaces

MOST = 5
"""The largest number of coordinates: 5 have 3^5 = 243 faces of the cube to search."""


def terms(k: int) -> list[tuple[int, ...]]:
    """The coordinates that are multiplied in each column."""
    squares = [(i, i) for i in range(k)]
    return [(), *((i,) for i in range(k)), *squares, *combinations(range(k), 2)]


def columns(coded: Floats) -> Floats:
    """The model matrix at these points, one row per point."""
    parts = [coded[:, list(term)].prod(axis=1) for term in terms(coded.shape[1])]
    return np.stack(parts, axis=1)


def curvature(beta: Floats, k: int) -> tuple[Floats, Floats]:
    """The linear coefficients and the symmetric matrix of the second-order terms.

    `beta` may hold one surface, or many along its leading axes.
    """
    linear, matrix = beta[..., 1 : k + 1], np.zeros((*beta.shape[:-1], k, k))
    for place, term in enumerate(terms(k)):
        if len(term) == 2:
            i, j = term
            matrix[..., i, j] = matrix[..., j, i] = beta[..., place] / (1 if i == j else 2)
    return linear, matrix


@dataclass(frozen=True, eq=False)
class Canonical:
    """The canonical analysis: stationary point, curvatures (eigenvalues) and directions (columns).

    `errors` and `curvature_errors` are standard errors.
    """

    point: Floats
    errors: Floats
    value: float
    curvatures: Floats
    curvature_errors: Floats
    directions: Floats

    @property
    def kind(self) -> str:
        """Whether the stationary point is a maximum, a minimum or a saddle point."""
        return (
            "maximum"
            if self.curvatures.max() < 0
            else "minimum"
            if self.curvatures.min() > 0
            else "saddle point"
        )

    @property
    def inside(self) -> bool:
        """Whether the stationary point lies within the region."""
        return bool((np.abs(self.point) <= 1).all())


def canonical(beta: Floats, covariance: Floats, k: int) -> Canonical | None:
    """Canonical analysis with delta-method standard errors.

    None if the surface has no unique stationary point.
    """
    linear, matrix = curvature(beta, k)
    curvatures, directions = np.linalg.eigh(matrix)
    if float(np.abs(curvatures).min()) <= 1e-9 * max(float(np.abs(beta[1:]).max()), 1e-300):
        return None
    inverse: Floats = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    point = -inverse @ linear / 2
    slopes = np.stack([_point_gradient(inverse, point, term) for term in terms(k)], axis=1)
    bends = np.stack([_curvature_gradient(directions, term) for term in terms(k)], axis=1)
    errors, curved = (
        np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", part, covariance, part), 0)) for part in (slopes, bends)
    )
    value = float(columns(point[None])[0] @ beta)
    return Canonical(point, errors, value, curvatures, curved, directions)


def _point_gradient(inverse: Floats, point: Floats, term: Sequence[int]) -> Floats:
    """The derivative of the stationary point with respect to the coefficient of one term."""
    push = np.zeros(len(point))
    if len(term) == 1:
        push[term[0]] = 0.5
    elif len(term) == 2:
        i, j = term
        push[i] += point[j] / 2
        push[j] += point[i] / 2
    found: Floats = -inverse @ push
    return found


def _curvature_gradient(directions: Floats, term: Sequence[int]) -> Floats:
    """The derivative of the curvatures with respect to the coefficient of one term."""
    if len(term) != 2:
        return np.zeros(directions.shape[1])
    found: Floats = directions[term[0]] * directions[term[1]]
    return found


def highest(beta: Floats, k: int) -> Floats:
    """The maximum over the cube of each surface (one per row); exact, by enumerating all faces.

    On each face (every coordinate fixed at an end, or free) the surface has one stationary point; the highest
    of those that lie on their face is the maximum.
    """
    linear, matrix = curvature(beta, k)
    best, where = np.full(len(beta), -np.inf), np.zeros((len(beta), k))
    for face in product((-1.0, 1.0, None), repeat=k):
        points, there = _on_face(linear, matrix, face)
        values = np.einsum("ni,ni->n", columns(points), beta)
        better = there & (values > best)
        best[better], where[better] = values[better], points[better]
    return where


_FLAT = 1e-250
"""A face that curves no more than this is flat: numbers this small cannot be divided by."""


def _on_face(linear: Floats, matrix: Floats, face: Sequence[float | None]) -> tuple[Floats, np.ndarray]:
    """The stationary point of each surface on a face, and whether it lies on that face."""
    free = [i for i, end in enumerate(face) if end is None]
    points = np.tile([0.0 if end is None else end for end in face], (len(linear), 1))
    if not free:
        return points, np.ones(len(points), dtype=bool)
    inner = matrix[:, free][:, :, free]
    slope = linear[:, free] + 2 * np.einsum("nij,nj->ni", matrix[:, free], points)
    largest = np.abs(inner).max(axis=(1, 2))
    flat = largest <= _FLAT
    inner[flat], largest[flat] = 0.0, 1.0
    solvable = np.abs(np.linalg.det(inner / largest[:, None, None])) > 1e-12
    inner[~solvable] = np.eye(len(free))
    points[:, free] = -np.linalg.solve(inner, slope[:, :, None])[:, :, 0] / 2
    return np.clip(points, -1, 1), solvable & (np.abs(points) <= 1).all(axis=1)


def drawn(beta: Floats, covariance: Floats, df: float, draws: int, seed: int) -> Floats:
    """Draws of the coefficients from their multivariate t distribution.

    One row per draw. `df` are the degrees of freedom of the covariance; the same seed gives the same draws.
    """
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    normals = rng.standard_normal((draws, len(beta))) @ root.T
    found: Floats = beta + normals / np.sqrt(rng.chisquare(df, (draws, 1)) / df)
    return found
