"""Student's t around an estimate: what an error of so many degrees of freedom is worth."""

from __future__ import annotations

import math
from dataclasses import dataclass

from peira.stats.inputs import known, upper
from peira.stats.values import ALTERNATIVES, Alternative


@dataclass(frozen=True)
class Spread:
    """A standard error, and the degrees of freedom it is worth."""

    error: float
    df: float


def around(mean: float, spread: Spread, level: float) -> tuple[float, float]:
    """The two-sided t interval."""
    half = quantile(spread.df, upper(level)) * spread.error
    return mean - half, mean + half


def quantile(df: float, probability: float) -> float:
    from scipy.special import stdtrit

    return float(stdtrit(df, probability))


def p_value(statistic: float, df: float, alternative: Alternative) -> float:
    """The chance of a t at least as far out as this, on the side or sides that the alternative names."""
    from scipy.special import stdtr

    known("the alternative", alternative, ALTERNATIVES)
    if alternative == "two-sided":
        return 2 * float(stdtr(df, -abs(statistic)))
    return float(stdtr(df, -statistic if alternative == "greater" else statistic))


def independent(one: Spread, two: Spread) -> Spread:
    """The error of a difference of two independent means, with Welch's degrees of freedom."""
    error = math.hypot(one.error, two.error)
    a, b = (one.error / error) ** 2, (two.error / error) ** 2
    return Spread(error, 1 / (a * a / one.df + b * b / two.df))
