"""What the rooms of this package hand back: plain frozen values.

Whatever cannot be known is None, and `method` says in a word or two what was done, or why nothing could be.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES = ("two-sided", "greater", "less")


@dataclass(frozen=True)
class Estimate:
    """A mean of `n` values and the interval around it; bounds are None where nothing is known of them."""

    mean: float
    low: float | None
    high: float | None
    n: int
    method: str


@dataclass(frozen=True)
class Interval:
    """A quantity other than a mean (an effect size, a ratio, a quantile) and the interval around it.

    `low` or `high` alone may be None: the quantity is then not bounded on that side by the data.
    """

    value: float | None
    low: float | None
    high: float | None
    n: int
    method: str


@dataclass(frozen=True)
class Evidence:
    """What a test found: `p` is the chance of data at least this far from the null, were it true."""

    p: float | None
    statistic: float | None
    n: int
    method: str
