"""The frozen values that the functions of this package return.

What cannot be estimated is None; `method` names the method used, or "unknown".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Alternative = Literal["two-sided", "greater", "less"]
"""The alternative hypothesis of a test."""
ALTERNATIVES = ("two-sided", "greater", "less")
FEW_UNITS = 9
"""Up to this many units of evidence, pairs are tested by every flip of signs.

Beyond it Student's t also keeps its level, and does not lose power to ties.
"""
FEW = 19
"""With fewer units than this that differ from the most common value, skewness cannot be assessed."""
FULLY_EVIDENT = 40
"""Fewer units than this need not show the skewness of a difference as clearly for it to be adjusted for."""


REMARKS = ("few", "skewed")
"""What the name of a method says in parentheses if its interval may be too narrow."""


def remark_of(method: str) -> str:
    """The remark of an interval method, with a space before it: " (few)", " (skewed)" or nothing."""
    return next((f" ({remark})" for remark in REMARKS if method.endswith(f"({remark})")), "")


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` values with its confidence interval; bounds are None where they are unknown."""

    mean: float
    low: float | None
    high: float | None
    n: int
    method: str

    @property
    def excludes_zero(self) -> bool:
        """Whether the interval is known and does not contain 0."""
        return self.low is not None and self.high is not None and self.low * self.high > 0


def within(found: Estimate, reach: float | None) -> Estimate:
    """Clip an estimate to [-reach, reach], the possible range of the true value.

    None as `reach` does nothing.
    """
    return found if reach is None else between(found, -reach, reach)


def between(found: Estimate, least: float, most: float) -> Estimate:
    """Clip an estimate to [least, most], the possible range of the true value.

    An interval that lies entirely outside carries no information and becomes the whole range.
    """
    mean = min(max(found.mean, least), most)
    if found.low is None or found.high is None:
        return Estimate(mean, found.low, found.high, found.n, found.method)
    low, high = max(found.low, least), min(found.high, most)
    if low >= high:
        low, high = least, most
    return Estimate(mean, low, high, found.n, found.method)


def clipped(found: Estimate, limits: tuple[float, float] | None) -> Estimate:
    """Clip a mean and its interval to the limits of the score; None as `limits` does nothing."""
    if limits is None:
        return found
    mean, low, high = (
        None if end is None else min(max(end, limits[0]), limits[1])
        for end in (found.mean, found.low, found.high)
    )
    assert mean is not None
    return Estimate(mean, low, high, found.n, found.method)


@dataclass(frozen=True)
class Interval:
    """An estimate other than a mean (effect size, ratio, quantile) with its interval.

    One of `low` and `high` may be None: the interval is then unbounded on that side.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    method: str


@dataclass(frozen=True)
class TestResult:
    """The result of a hypothesis test: p-value and test statistic, None where they are unknown."""

    p: float | None
    statistic: float | None
    n: int
    method: str
