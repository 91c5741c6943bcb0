"""Group-sequential tests: a planned share of alpha is spent at each look, so that all looks together keep it.

Two-sided and symmetric, for a statistic whose increments between looks are independent, as those of a mean
over cases are. Looks are told as the fraction of the planned information (cases) that they have; they need
not be planned, only the total must be.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from peira.stats import normal
from peira.stats.inputs import Floats, known

Spending = Literal["obrien-fleming", "pocock"]
_NEVER = 38.0  # standard errors beyond which the normal tail is 0 in floating point
_FINEST = 4_001


@dataclass(frozen=True)
class Look:
    """At `fraction` of the information the test rejects beyond `z` (inf: not at this look).

    `spent` is the alpha used so far, of both sides.
    """

    fraction: float
    z: float
    spent: float


def spend(fraction: float, alpha: float = 0.05, kind: Spending = "obrien-fleming") -> float:
    """How much of a two-sided alpha is spent by then (Lan and DeMets): hardly any early, or steadily."""
    if not 0 < fraction <= 1 or not 0 < alpha < 1:
        raise ValueError(f"need 0 < fraction <= 1 and 0 < alpha < 1, not {fraction} and {alpha}")
    known("the spending", kind, ("obrien-fleming", "pocock"))
    if kind == "pocock":
        return alpha * math.log1p((math.e - 1) * fraction)
    return 2 * normal.p_value(normal.quantile(1 - alpha / 4) / math.sqrt(fraction), "two-sided")


def boundaries(
    fractions: Sequence[float], alpha: float = 0.05, kind: Spending = "obrien-fleming"
) -> list[Look]:
    """The boundary of each look, from those before it; fractions increase, and end at 1 at the last look."""
    if not fractions or list(fractions) != sorted(set(fractions)):
        raise ValueError("need increasing fractions of the information")
    looks: list[Look] = []
    state = _Path(0.0, np.zeros(1), np.ones(1))
    for fraction in fractions:
        spent = spend(fraction, alpha, kind)
        z = state.boundary(fraction, (spent - (looks[-1].spent if looks else 0.0)) / 2)
        state = state.after(fraction, z)
        looks.append(Look(fraction, z, spent))
    return looks


def conditional_power(z: float, fraction: float, final: float, drift: float | None = None) -> float:
    """The chance to end beyond +-`final`, given `z` at this fraction: futile when it is small.

    `drift` is the mean of the final statistic under the effect that is hoped for; without it the trend so far
    goes on. Looks in between are left out, so the chance is, if anything, too small by little.
    """
    from scipy.special import ndtr

    if not 0 < fraction < 1:
        raise ValueError(f"need a fraction between 0 and 1, not {fraction}")
    slope = z / math.sqrt(fraction) if drift is None else drift
    centre, left = z * math.sqrt(fraction) + slope * (1 - fraction), math.sqrt(1 - fraction)
    return float(ndtr((centre - final) / left) + ndtr((-centre - final) / left))


def successive_rejects(arms: int, budget: int) -> list[int]:
    """How many cases each arm left has seen when the worst of them is dropped, for each drop in turn
    (Audibert, Bubeck and Munos): the budget is used up, and the best is most likely the last."""
    if arms < 2 or budget < arms:
        raise ValueError(f"need two arms and a case for each, not {arms} arms and {budget} cases")
    scale = 0.5 + sum(1 / k for k in range(2, arms + 1))
    return [math.ceil((budget - arms) / scale / (arms + 1 - k)) for k in range(1, arms)]


@dataclass(frozen=True)
class _Path:
    """Where the statistic is, on the scale of Brownian motion, among paths that crossed no boundary."""

    time: float
    points: Floats
    masses: Floats

    def boundary(self, time: float, tail: float) -> float:
        """The z beyond which the chance of crossing upwards, now for the first time, is `tail`."""
        from scipy.optimize import brentq

        if self._crossing(time, 0.0) <= tail:
            return 0.0
        if self._crossing(time, _NEVER) >= tail:
            return math.inf
        return float(brentq(lambda z: self._crossing(time, z) - tail, 0.0, _NEVER, xtol=1e-10))

    def after(self, time: float, z: float) -> _Path:
        """The same at a later time, for the paths that stay within +-z."""
        step, reach = math.sqrt(time - self.time), min(z, 9.0) * math.sqrt(time)
        points = np.linspace(-reach, reach, min(_FINEST, 2 * math.ceil(12 * reach / step) + 201))
        density = np.exp(-0.5 * ((points[:, None] - self.points) / step) ** 2) @ self.masses
        return _Path(time, points, density * _simpson(points) / (step * math.sqrt(2 * math.pi)))

    def _crossing(self, time: float, z: float) -> float:
        from scipy.special import ndtr

        distances = (self.points - z * math.sqrt(time)) / math.sqrt(time - self.time)
        return float(self.masses @ ndtr(distances))


def _simpson(points: Floats) -> Floats:
    """Simpson's weights; the number of points is odd."""
    weights = np.ones(points.size)
    weights[1:-1:2], weights[2:-1:2] = 4.0, 2.0
    found: Floats = weights * (points[1] - points[0]) / 3
    return found
