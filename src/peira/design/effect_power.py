"""With what chance a design would show an effect, and the smallest effect that it would.

The size of an effect is the largest difference that its term alone makes between any two of its levels (of an
interaction: between any two combinations). It is tested with F on the model's residual, two-sided; where a
term has several parameters the least favourable effect of that size is taken, so that the chance is at least
what is said.

Each run is made on every case, `repeats` times, and how hard a case is takes no part: cases are compared with
themselves. `noise` is the standard deviation of a trial around the mean of its case and run. `case_noise` is
how much cases differ in what a run does to them: it is not lessened by repeats, only by more cases.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from peira.core.space import Space
from peira.design.dimensions import counted, is_number, numeric, require
from peira.design.fit import Fit, fit
from peira.design.laid import Laid, contrasts
from peira.design.model import INTERCEPT, Term, expand, width

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]


class Assumed(msgspec.Struct, frozen=True):
    """What is assumed of the trials, and what is asked of them.

    `effect` None leaves the chance to see one open; the smallest effect that is seen with the chance `power`
    is always told.
    """

    effect: float | None = None
    noise: float = 1.0
    case_noise: float = 0.0
    alpha: float = 0.05
    power: float = 0.8
    cases: int = 1
    repeats: int = 1

    def __post_init__(self) -> None:
        require(
            _above("effect", self.effect) if self.effect is not None else (),
            _above("noise", self.noise),
            _above("case_noise", self.case_noise) if self.case_noise != 0 else (),
            _share("alpha", self.alpha, 0.0),
            _share("power", self.power, self.alpha if is_number(self.alpha) else 0.0),
            counted("cases", self.cases, 1),
            counted("repeats", self.repeats, 1),
        )

    @property
    def trials(self) -> int:
        """Of each run."""
        return self.cases * self.repeats


class EffectPower(msgspec.Struct, frozen=True):
    """What can be seen of a term. `error` is the standard error of its least certain difference.

    All is None where the term cannot be estimated; `power` also if no effect is stated, and with `smallest`
    if no trials are left over to tell the noise by.
    """

    effect: str
    df: int
    error_df: int
    error: float | None = None
    power: float | None = None
    smallest: float | None = None


def powers(laid: Laid, terms: Sequence[Term], assumed: Assumed) -> tuple[EffectPower, ...]:
    """For each term of the model but the intercept."""
    made = fit(laid, terms, worth(laid.times, assumed))
    left = error_df(made.rank, laid.runs, len(laid.rows), assumed)
    return tuple(power_of(made, term, laid.space, left, assumed) for term in terms if term != INTERCEPT)


def worth(times: Sequence[int], assumed: Assumed) -> Matrix:
    """What the mean over all trials of each run is worth: one over its variance."""
    import numpy as np

    each = assumed.noise**2 / (assumed.repeats * np.array(times, dtype=np.float64))
    found: Matrix = assumed.cases / (assumed.case_noise**2 + each)
    return found


def error_df(rank: int, runs: int, different: int, assumed: Assumed) -> int:
    """What is left to tell the noise by, once the parameters and the cases are estimated.

    Where cases differ in what a run does, repeats tell nothing about how much.
    """
    each = different if assumed.case_noise else runs * assumed.repeats
    return each * assumed.cases - rank - (assumed.cases - 1)


def power_of(made: Fit, term: Term, space: Space, left: int, assumed: Assumed) -> EffectPower:
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
    """The largest variance that a difference between two levels (or combinations of them) has."""
    import numpy as np

    at = cells(term, space)
    products = at @ covariance @ at.T
    own = np.diag(products)
    return float((own[:, None] + own[None, :] - 2 * products).max())


def cells(term: Term, space: Space) -> Matrix:
    """The columns of a term at all combinations of its factors' levels; of numbers, ends and centre."""
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
    """The chance that F is significant if its noncentrality is so much."""
    from scipy.special import fdtri, ncfdtr

    critical = float(fdtri(df, left, 1 - alpha))
    return min(1.0, max(alpha, 1 - float(ncfdtr(df, left, shifted, critical))))


@cache
def shift(df: int, left: int, alpha: float, power: float) -> float:
    """The noncentrality at which F is significant with so much chance."""
    high = 1.0
    while chance(high, df, left, alpha) < power:
        high *= 2
    low = high / 2 if high > 1 else 0.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle, df, left, alpha) >= power else (middle, high)
    return high


def _above(name: str, value: object) -> Iterator[str]:
    if not is_number(value) or not 0 < value < float("inf"):  # type: ignore[operator]
        yield f"{name}: must be a number above 0, not {value!r}"


def _share(name: str, value: object, least: float) -> Iterator[str]:
    if not is_number(value) or not least < value < 1:  # type: ignore[operator]
        yield f"{name}: must be between {least:g} and 1, not {value!r}"
