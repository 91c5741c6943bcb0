"""How many cases a study needs, what it can see, and with what chance: for differences of means.

Everything is two-sided at `alpha` and in the units of the score. The power is that of the t test itself
(noncentral t), not of a normal approximation. A `Design` says what a case contributes; answers count cases.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from peira.stats import normal

_MOST = 10**12


@dataclass(frozen=True)
class Design:
    """The variance of one case's contribution to a difference, and how cases share out degrees of freedom.

    `deviation` is the standard deviation of that contribution. Unpaired studies have `sides` 2: n cases on
    each. `inflation` is the design effect of related cases, 1 + (m - 1) x correlation.
    """

    deviation: float
    sides: int = 1
    inflation: float = 1.0

    def __post_init__(self) -> None:
        if not self.deviation > 0 or self.sides not in (1, 2) or not self.inflation > 0:
            raise ValueError("need a positive deviation, 1 or 2 sides and a positive inflation")

    def error(self, n: float) -> float:
        return self.deviation * math.sqrt(self.sides * self.inflation / n)


def paired(deviation: float, inflation: float = 1.0) -> Design:
    """Both sides on the same cases; the deviation of the differences between the sides."""
    return Design(deviation, 1, inflation)


def unpaired(deviation: float, inflation: float = 1.0) -> Design:
    """Each side on its own cases, n on each; the common deviation of the values."""
    return Design(deviation, 2, inflation)


def repeated(
    between: float, within: float, repeats: int, other_within: float | None = None, inflation: float = 1.0
) -> Design:
    """Both sides on the same cases with `repeats` trials of each: variances, not deviations.

    `between` is the variance over cases of the true difference; `within` and `other_within` (the same if not
    given) are the variances over repeats of one case, of the first and the second side. With the repeats
    unlimited only `between` is left: then more cases are the only way on.
    """
    second = within if other_within is None else other_within
    if min(between, within, second) < 0 or repeats < 1:
        raise ValueError("need variances of at least 0 and at least one repeat")
    return Design(math.sqrt(between + (within + second) / repeats), 1, inflation)


def design_effect(size: float, correlation: float) -> float:
    """How many times the variance of a mean grows when cases come in clusters of `size`."""
    if size < 1 or not -1 <= correlation <= 1 or 1 + (size - 1) * correlation <= 0:
        raise ValueError(f"need size >= 1 and a possible correlation, not {size} and {correlation}")
    return 1 + (size - 1) * correlation


def power(design: Design, n: int, difference: float, alpha: float = 0.05) -> float:
    """The chance that n cases (on each side) show a difference of that size as significant."""
    _check(alpha)
    if n < 2:
        return 0.0
    df = design.sides * (n - 1)
    return _t_power(abs(difference) / design.error(n), df, alpha)


def cases_needed(design: Design, difference: float, alpha: float = 0.05, wanted: float = 0.8) -> int | None:
    """The fewest cases (on each side) with at least the wanted power; None if there is nothing to see."""
    _check(alpha, wanted)
    if difference == 0:
        return None
    return fewest(lambda n: power(design, n, difference, alpha) >= wanted)


def smallest_difference(design: Design, n: int, alpha: float = 0.05, wanted: float = 0.8) -> float | None:
    """The smallest difference that n cases (on each side) show with the wanted power; None below 2 cases."""
    _check(alpha, wanted)
    if n < 2:
        return None
    low, high = 0.0, design.error(n)
    while power(design, n, high, alpha) < wanted:
        high *= 2
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (low, middle) if power(design, n, middle, alpha) >= wanted else (middle, high)
    return high


def more_cases(
    design: Design, n: int, difference: float, alpha: float = 0.05, wanted: float = 0.8
) -> int | None:
    """How many cases (on each side) to add to n to tell a difference of that size apart from 0."""
    needed = cases_needed(design, difference, alpha, wanted)
    return None if needed is None else max(0, needed - n)


def error_bars_cases(
    between: float, within: float, difference: float, alpha: float = 0.05, wanted: float = 0.8
) -> float:
    """The closed formula of "Adding Error Bars to Evals" for paired studies, with normal quantiles.

    `between` is the variance over cases of the true difference, `within` the sum over both sides of the
    variance over repeats divided by their number. Not rounded.
    """
    _check(alpha, wanted)
    quantiles = normal.quantile(1 - alpha / 2) + normal.quantile(wanted)
    return quantiles**2 * (between + within) / difference**2


def fewest(enough: Callable[[int], bool], least: int = 2, most: int = _MOST) -> int | None:
    """The smallest number from `least` (1 or 2) on that is enough, if what is enough stays so; None if none
    up to `most` is."""
    high = least
    while not enough(high):
        high *= 2
        if high > most:
            return None
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def _t_power(shift: float, df: float, alpha: float) -> float:
    from scipy.special import nctdtr, stdtrit

    critical = float(stdtrit(df, 1 - alpha / 2))
    # Beyond 8 the wrong tail is below 1e-15, and scipy may answer NaN for it.
    wrong = float(nctdtr(df, shift, -critical)) if shift < 8 else 0.0
    return 1 - float(nctdtr(df, shift, critical)) + wrong


def _check(alpha: float, wanted: float = 0.5) -> None:
    if not 0 < alpha < 1 or not alpha < wanted < 1:
        raise ValueError(f"need 0 < alpha < power < 1, not alpha={alpha}, power={wanted}")
