"""Group-sequential boundaries by alpha spending, conditional power, successive rejects.

Two-sided and symmetric, for a statistic with independent increments between looks, such as a mean over cases.
Looks are given as fractions of the planned information (cases); only the total has to be planned, not the
looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from peira.stats import normal
from peira.stats.inputs import Floats, known

Spending = Literal["obrien-fleming", "pocock"]
"""The alpha-spending function."""
_NEVER = 38.0  # standard errors beyond which the normal tail is 0 in floating point
_FINEST = 4_001


@dataclass(frozen=True)
class Boundary:
    """The test rejects beyond `z` at this fraction of the information (inf: not at this look).

    `spent` is the cumulative two-sided alpha.
    """

    fraction: float
    z: float
    spent: float


def spend(fraction: float, alpha: float = 0.05, kind: Spending = "obrien-fleming") -> float:
    """The two-sided alpha spent up to this fraction of the information (Lan and DeMets).

    "obrien-fleming" spends hardly any alpha early, "pocock" spends it steadily; all of it is spent at 1.
    """
    if not 0 < fraction <= 1 or not 0 < alpha < 1:
        raise ValueError(f"need 0 < fraction <= 1 and 0 < alpha < 1, not {fraction} and {alpha}")
    known("the spending", kind, ("obrien-fleming", "pocock"))
    if kind == "pocock":
        return alpha * math.log1p((math.e - 1) * fraction)
    return 2 * normal.p_value(normal.quantile(1 - alpha / 4) / math.sqrt(fraction), "two-sided")


def boundaries(
    fractions: Sequence[float], alpha: float = 0.05, kind: Spending = "obrien-fleming"
) -> list[Boundary]:
    """The boundary of each look given the earlier ones; fractions increase, the last look has 1.

    Computed by recursive numerical integration of the Brownian path. Raises ValueError for fractions that do
    not increase.
    """
    if not fractions or list(fractions) != sorted(set(fractions)):
        raise ValueError("need increasing fractions of the information")
    return list(_boundaries(tuple(fractions), alpha, kind))


@lru_cache(maxsize=64)
def _boundaries(fractions: tuple[float, ...], alpha: float, kind: Spending) -> tuple[Boundary, ...]:
    """The boundaries, kept: integrating takes a while, and all monitors of a study ask for the same."""
    looks: list[Boundary] = []
    state = _Path(0.0, np.zeros(1), np.ones(1))
    for fraction in fractions:
        spent = spend(fraction, alpha, kind)
        z = state.boundary(fraction, (spent - (looks[-1].spent if looks else 0.0)) / 2)
        state = state.after(fraction, z)
        looks.append(Boundary(fraction, z, spent))
    return tuple(looks)


def conditional_power(z: float, fraction: float, final: float, drift: float | None = None) -> float:
    """The probability to end beyond +-`final`, given `z` at this fraction.

    Small values mean futility.

    `drift` is the expected final statistic under the assumed effect; without it the current trend continues.
    Looks in between are ignored, which slightly underestimates the probability.
    """
    from scipy.special import ndtr

    if not 0 < fraction < 1:
        raise ValueError(f"need a fraction between 0 and 1, not {fraction}")
    slope = z / math.sqrt(fraction) if drift is None else drift
    centre, left = z * math.sqrt(fraction) + slope * (1 - fraction), math.sqrt(1 - fraction)
    return float(ndtr((centre - final) / left) + ndtr((-centre - final) / left))


def successive_rejects(arms: int, budget: int) -> list[int]:
    """The cumulative cases per remaining arm at each rejection (Audibert, Bubeck and Munos).

    After each phase the worst arm is dropped; the phases use up the budget.
    """
    if arms < 2 or budget < arms:
        raise ValueError(f"need two arms and a case for each, not {arms} arms and {budget} cases")
    scale = 0.5 + sum(1 / k for k in range(2, arms + 1))
    return [math.ceil((budget - arms) / scale / (arms + 1 - k)) for k in range(1, arms)]


@dataclass(frozen=True)
class _Path:
    """The distribution of the Brownian path among those that crossed no boundary."""

    time: float
    points: Floats
    masses: Floats

    def boundary(self, time: float, tail: float) -> float:
        """The z at which the probability of a first upward crossing at this look is `tail`."""
        from scipy.optimize import brentq

        if self._crossing(time, 0.0) <= tail:
            return 0.0
        if self._crossing(time, _NEVER) >= tail:
            return math.inf
        return float(brentq(lambda z: self._crossing(time, z) - tail, 0.0, _NEVER, xtol=1e-10))

    def after(self, time: float, z: float) -> _Path:
        """The distribution at a later time for the paths that stay within +-z."""
        step, reach = math.sqrt(time - self.time), min(z, 9.0) * math.sqrt(time)
        points = np.linspace(-reach, reach, min(_FINEST, 2 * math.ceil(12 * reach / step) + 201))
        density = np.exp(-0.5 * ((points[:, None] - self.points) / step) ** 2) @ self.masses
        return _Path(time, points, density * _simpson(points) / (step * math.sqrt(2 * math.pi)))

    def _crossing(self, time: float, z: float) -> float:
        """The probability to be above z at this time without an earlier crossing."""
        from scipy.special import ndtr

        distances = (self.points - z * math.sqrt(time)) / math.sqrt(time - self.time)
        return float(self.masses @ ndtr(distances))


def _simpson(points: Floats) -> Floats:
    """The weights of Simpson's rule; the number of points must be odd."""
    weights = np.ones(points.size)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    found: Floats = weights * (points[1] - points[0]) / 3
    return found
