"""Second-order response surfaces: where they turn, how they curve, and where in a region they are highest.

Coordinates are coded: the region is the cube from -1 to 1. A surface is its coefficients, in the order of
`columns`: 1, every coordinate, every square, every product of two.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np

from peira.stats.inputs import Floats

MOST = 5
"""So many coordinates have 243 faces of the cube to look at; more are too many."""


def terms(k: int) -> list[tuple[int, ...]]:
    """Which coordinates are multiplied in each column."""
    squares = [(i, i) for i in range(k)]
    return [(), *((i,) for i in range(k)), *squares, *combinations(range(k), 2)]


def columns(coded: Floats) -> Floats:
    """The columns of the model at these points, a row each."""
    parts = [coded[:, list(term)].prod(axis=1) for term in terms(coded.shape[1])]
    return np.stack(parts, axis=1)


def curvature(beta: Floats, k: int) -> tuple[Floats, Floats]:
    """The slopes at the centre and the symmetric matrix of the squares, of one surface or of many."""
    linear, matrix = beta[..., 1 : k + 1], np.zeros((*beta.shape[:-1], k, k))
    for place, term in enumerate(terms(k)):
        if len(term) == 2:
            i, j = term
            matrix[..., i, j] = matrix[..., j, i] = beta[..., place] / (1 if i == j else 2)
    return linear, matrix


@dataclass(frozen=True, eq=False)
class Canonical:
    """The point where the surface turns, with the errors of its coordinates; and how it curves away from
    there, along which directions (columns), with the errors of those curvatures."""

    point: Floats
    errors: Floats
    value: float
    curvatures: Floats
    curvature_errors: Floats
    directions: Floats

    @property
    def kind(self) -> str:
        return (
            "maximum"
            if self.curvatures.max() < 0
            else "minimum"
            if self.curvatures.min() > 0
            else "saddle point"
        )

    @property
    def inside(self) -> bool:
        return bool((np.abs(self.point) <= 1).all())


def canonical(beta: Floats, covariance: Floats, k: int) -> Canonical | None:
    """Errors by the delta method; None where the surface is flat along a line and turns nowhere."""
    linear, matrix = curvature(beta, k)
    curvatures, directions = np.linalg.eigh(matrix)
    if float(np.abs(curvatures).min()) <= 1e-9 * max(float(np.abs(beta[1:]).max()), 1e-300):
        return None
    inverse: Floats = np.asarray(np.linalg.inv(matrix), dtype=np.float64)
    point = -inverse @ linear / 2
    slopes = np.stack([_moved(inverse, point, term) for term in terms(k)], axis=1)
    bends = np.stack([_bent(directions, term) for term in terms(k)], axis=1)
    errors, curved = (
        np.sqrt(np.maximum(np.einsum("ij,jk,ik->i", part, covariance, part), 0)) for part in (slopes, bends)
    )
    value = float(columns(point[None])[0] @ beta)
    return Canonical(point, errors, value, curvatures, curved, directions)


def _moved(inverse: Floats, point: Floats, term: Sequence[int]) -> Floats:
    """How the turning point moves with one coefficient."""
    push = np.zeros(len(point))
    if len(term) == 1:
        push[term[0]] = 0.5
    elif len(term) == 2:
        i, j = term
        push[i] += point[j] / 2
        push[j] += point[i] / 2
    found: Floats = -inverse @ push
    return found


def _bent(directions: Floats, term: Sequence[int]) -> Floats:
    """How the curvatures change with one coefficient."""
    if len(term) != 2:
        return np.zeros(directions.shape[1])
    found: Floats = directions[term[0]] * directions[term[1]]
    return found


def highest(beta: Floats, k: int) -> Floats:
    """The highest point of the cube, of every surface (a row each): exact, by all faces of the cube.

    On each face (every coordinate at an end, or free) the surface turns at one point; the highest of those
    that lie on their face is the answer.
    """
    linear, matrix = curvature(beta, k)
    best, where = np.full(len(beta), -np.inf), np.zeros((len(beta), k))
    for face in product((-1.0, 1.0, None), repeat=k):
        points, there = _on_face(linear, matrix, face)
        values = np.einsum("ni,ni->n", columns(points), beta)
        better = there & (values > best)
        best[better], where[better] = values[better], points[better]
    return where


def _on_face(linear: Floats, matrix: Floats, face: Sequence[float | None]) -> tuple[Floats, np.ndarray]:
    """Where each surface turns on the face, and whether that is a point of it."""
    free = [i for i, end in enumerate(face) if end is None]
    points = np.tile([0.0 if end is None else end for end in face], (len(linear), 1))
    if not free:
        return points, np.ones(len(points), dtype=bool)
    inner = matrix[:, free][:, :, free]
    slope = linear[:, free] + 2 * np.einsum("nij,nj->ni", matrix[:, free], points)
    solvable = np.abs(np.linalg.det(inner)) > 1e-12 * np.abs(inner).max(axis=(1, 2)) ** len(free) + 1e-300
    inner[~solvable] = np.eye(len(free))
    points[:, free] = -np.linalg.solve(inner, slope[:, :, None])[:, :, 0] / 2
    return np.clip(points, -1, 1), solvable & (np.abs(points) <= 1).all(axis=1)


def drawn(beta: Floats, covariance: Floats, df: float, draws: int, seed: int) -> Floats:
    """Surfaces that the data leave possible: coefficients from their multivariate t distribution."""
    rng = np.random.default_rng(seed)
    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.maximum(values, 0))
    normals = rng.standard_normal((draws, len(beta))) @ root.T
    found: Floats = beta + normals / np.sqrt(rng.chisquare(df, (draws, 1)) / df)
    return found
