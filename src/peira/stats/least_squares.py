"""Least squares: coefficients, what they leave, and how they vary, by orthogonal columns of equal length.

Columns are brought to one scale first, so that a polynomial in large numbers loses no more digits than it
must. The matrix of squares is never formed.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from peira.stats.inputs import Floats

_DEPENDENT = 1e-13


@dataclass(frozen=True, eq=False)
class Solution:
    """`bread` is the inverse of X'X: times the variance of an error it is the covariance of `beta`."""

    beta: Floats
    bread: Floats
    residuals: Floats

    @property
    def squares(self) -> float:
        """What the columns leave of the response."""
        return float(self.residuals @ self.residuals)


def solve(matrix: Floats, response: Floats) -> Solution | None:
    """None where some column is a combination of the others, or there are more columns than rows."""
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
    # What is lost in the first pass is found again in what it leaves.
    beta = beta + inverse @ (basis.T @ (response - matrix @ beta))
    return Solution(beta, inverse @ inverse.T, response - matrix @ beta)
