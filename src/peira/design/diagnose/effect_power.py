"""Power of a design for each effect, and the minimum detectable effect.

The size of an effect is the largest difference that its term alone makes between any two of its levels (for
an interaction: between any two combinations). It is tested with an F test against the model's residual; for a
term with several parameters the least favourable effect of that size is assumed, so the stated power is a
lower bound.

Each run is made on every case, `repeats` times; case difficulty cancels out, because runs are compared within
cases. `noise` is the standard deviation of a trial around the mean of its case and run. `case_noise` is the
standard deviation of the case-by-run interaction: it is reduced by more cases, not by repeats.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from peira.core.space import Space
from peira.design.diagnose.design_matrix import DesignMatrix, contrasts
from peira.design.diagnose.efficiency import ModelInformation, fit
from peira.design.dimensions import count_problems, is_number, numeric, require
from peira.design.model import INTERCEPT, Term, expand, width

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


class Assumed(msgspec.Struct, frozen=True):
    """Assumptions about the trials, and the required significance level and power.

    With `effect` None no power is computed; the minimum detectable effect at `power` always is. Raises
    `Invalid` for values out of range.
    """

    effect: float | None = None
    """The effect size to detect; None computes no power."""
    noise: float = 1.0
    """The standard deviation of a trial around the mean of its case and run."""
    case_noise: float = 0.0
    """The standard deviation of the case-by-run interaction."""
    alpha: float = 0.05
    """The significance level of the F test."""
    power: float = 0.8
    """The power at which the minimum detectable effect is computed."""
    cases: int = 1
    """The number of cases that every run is made on."""
    repeats: int = 1
    """The number of trials of each case and run."""

    def __post_init__(self) -> None:
        require(
            _above("effect", self.effect) if self.effect is not None else (),
            _above("noise", self.noise),
            _above("case_noise", self.case_noise) if self.case_noise != 0 else (),
            _share("alpha", self.alpha, 0.0),
            _share("power", self.power, self.alpha if is_number(self.alpha) else 0.0),
            count_problems("cases", self.cases, 1),
            count_problems("repeats", self.repeats, 1),
        )

    @property
    def trials(self) -> int:
        """The number of trials of each run."""
        return self.cases * self.repeats


class EffectPower(msgspec.Struct, frozen=True):
    """The power for a term; None where it cannot be computed.

    That is if the term cannot be estimated, or if there are no degrees of freedom for the error.
    """

    effect: str
    """The label of the term."""
    df: int
    """The degrees of freedom of the term."""
    error_df: int
    """The residual degrees of freedom."""
    error: float | None = None
    """The standard error of its least precise difference; None if inestimable."""
    power: float | None = None
    """The power for the assumed effect size; None if none is assumed."""
    smallest: float | None = None
    """The minimum detectable effect at the assumed power."""


def powers(design: DesignMatrix, terms: Sequence[Term], assumed: Assumed) -> tuple[EffectPower, ...]:
    """The power for each term of the model except the intercept."""
    made = fit(design, terms, worth(design.times, assumed))
    left = error_df(made.rank, design.runs, len(design.rows), assumed)
    return tuple(power_of(made, term, design.space, left, assumed) for term in terms if term != INTERCEPT)


def worth(times: Sequence[int], assumed: Assumed) -> Matrix:
    """The weight of each run: the inverse variance of the mean over its trials."""
    import numpy as np

    each = assumed.noise**2 / (assumed.repeats * np.array(times, dtype=np.float64))
    found: Matrix = assumed.cases / (assumed.case_noise**2 + each)
    return found


def error_df(rank: int, runs: int, different: int, assumed: Assumed) -> int:
    """Residual degrees of freedom, after the parameters and the case effects are estimated.

    With case noise, repeats contribute none, because they carry no information about it.
    """
    each = different if assumed.case_noise else runs * assumed.repeats
    return each * assumed.cases - rank - (assumed.cases - 1)


def power_of(made: ModelInformation, term: Term, space: Space, left: int, assumed: Assumed) -> EffectPower:
    """The power for one term, given `left` residual degrees of freedom."""
    wide = width(term, space)
    if not made.estimable(term):
        return EffectPower(term.label, wide, max(left, 0))
    variance = least_certain(made.of(term), term, space)
    known = left >= 1
    reach = shift(wide, left, assumed.alpha, assumed.power) if known else None
    return EffectPower(
        effect=term.label,
        df=wide,
        error_df=max(left, 0),
        error=variance**0.5,
        power=chance(assumed.effect**2 / variance, wide, left, assumed.alpha)
        if known and assumed.effect is not None
        else None,
        smallest=(reach * variance) ** 0.5 if reach is not None else None,
    )


def least_certain(covariance: Matrix, term: Term, space: Space) -> float:
    """The largest variance of a difference between two levels (or combinations of levels)."""
    import numpy as np

    at = cells(term, space)
    products = at @ covariance @ at.T
    own = np.diag(products)
    return float((own[:, None] + own[None, :] - 2 * products).max())


def cells(term: Term, space: Space) -> Matrix:
    """The columns of a term at all level combinations; numeric factors at their ends and centre."""
    import numpy as np

    known = {d.name: d for d in space.dimensions}
    own = [
        np.array([[-1.0], [0.0], [1.0]]) if numeric(known[name]) else contrasts(len(known[name].levels))
        for name in term.factors
    ]
    places = np.indices([len(one) for one in own]).reshape(len(own), -1)
    crossed: Mapping[str, Matrix] = {
        name: one[at] for name, one, at in zip(term.factors, own, places, strict=True)
    }
    return expand(crossed, [term], places.shape[1])


def chance(shifted: float, df: int, left: int, alpha: float) -> float:
    """The power of the F test at this noncentrality."""
    from scipy.special import fdtri, ncfdtr

    critical = float(fdtri(df, left, 1 - alpha))
    return min(1.0, max(alpha, 1 - float(ncfdtr(df, left, shifted, critical))))


@cache
def shift(df: int, left: int, alpha: float, power: float) -> float:
    """The noncentrality at which the F test reaches this power, by bisection."""
    high = 1.0
    while chance(high, df, left, alpha) < power:
        high *= 2
    low = high / 2 if high > 1 else 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle, df, left, alpha) >= power else (middle, high)
    return high


TINY = 1e-12
"""The smallest number of an assumption; squares of smaller ones, and levels beyond, are lost in rounding."""


def _above(name: str, value: object) -> Iterator[str]:
    if not is_number(value) or not TINY <= value <= 1 / TINY:  # type: ignore[operator]
        yield f"{name}: must be a number above 0 (from {TINY:g} to {1 / TINY:g}), not {value!r}"


def _share(name: str, value: object, least: float) -> Iterator[str]:
    if not is_number(value) or not least < value < 1 or not TINY < value < 1 - 1e-12:  # type: ignore[operator]
        yield f"{name}: must be between {least:g} and 1, not {value!r}"
