"""Power of a design for each effect, and the minimum detectable effect.

The size of an effect is the largest difference that its term alone makes between any two of its levels (for
an interaction: between any two combinations). For a term with several parameters the least favourable effect
of that size is assumed, so the stated power is a lower bound.

Each run is made on every case, `repeats` times; case difficulty cancels out, because runs are compared within
cases. `noise` is the standard deviation of a trial around the mean of its case and run. `case_noise` is the
standard deviation of the case-by-run interaction: it is reduced by more cases, not by repeats.

The error is the one that `effects`, `compare` and the hypotheses use later (`ErrorModel`): cases are the
sample, so that c cases leave c - 1 degrees of freedom, however many runs and repeats there are. One case says
nothing about others; its effects are tested against the residual, as `anova` does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING

import msgspec

from peira.core.space import Space
from peira.design.diagnose.design_matrix import DesignMatrix, contrasts
from peira.design.diagnose.efficiency import ModelInformation, fit
from peira.design.dimensions import count_problems, is_number, numeric, require
from peira.design.model import INTERCEPT, Term, expand, width
from peira.stats.values import FEW_UNITS, FULLY_EVIDENT

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from peira.stats.student import Spread

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
    """The significance level of the tests."""
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
    """The degrees of freedom of the error (see `ErrorModel`)."""
    error: float | None = None
    """The standard error of its least precise difference; None if inestimable."""
    power: float | None = None
    """The power for the assumed effect size; None if none is assumed."""
    smallest: float | None = None
    """The minimum detectable effect at the assumed power."""


SHAPED = 3
"""The least number of cases whose skewness can be estimated."""
MOST_VALUES = 16
"""More values of each case than this make no difference to the test of a contrast."""


@dataclass(frozen=True)
class ErrorModel:
    """What an effect is tested against: the model of error that the analysis has.

    - cases: each case gives one value of the effect, and the mean of these is tested by Student's t, for
      several parameters by Hotelling's T-squared.
    - pairs: a factor of two levels that is crossed with all others is tested by the cases' differences: for
      up to `FEW_UNITS` cases by every flip of their signs, for fewer than `FULLY_EVIDENT` by t adjusted for
      skewness, which few normal values have by chance too.
    - contrasts: every other term with one parameter is tested by t in the linear model, adjusted for a
      skewness that shows in single values or if the values of a case agree, which happens by chance too.
    - residual: for one case; and for surfaces over ranges with no more cases than parameters.
    """

    cases: int
    runs: int = 0
    """The number of different runs."""
    residual: int | None = None
    """The residual degrees of freedom, if these are used."""
    crossed: frozenset[str] = frozenset()
    """The factors whose levels meet the same combinations of the others."""

    def degrees(self, wide: int) -> int:
        """The degrees of freedom of the error of a term with `wide` parameters."""
        return self.cases - wide if self.residual is None else self.residual

    def values(self, term: Term, wide: int) -> int:
        """The number of values of each case whose shape decides the test of a term; 0 if it is an F test.

        One for pairs.
        """
        if self.residual is not None or wide > 1 or self.cases >= FULLY_EVIDENT:
            return 0
        if len(term.factors) == 1 and term.factors[0] in self.crossed:
            return 1
        return min(self.runs, MOST_VALUES) if self.cases >= SHAPED and self.runs > 2 else 0

    def chance(self, term: Term, wide: int, shifted: float, alpha: float) -> float:
        """The power for a term at this noncentrality."""
        if values := self.values(term, wide):
            return t_chance(shifted, self.cases, alpha, values)
        return chance(shifted, wide, self.degrees(wide), alpha)

    def shift(self, term: Term, wide: int, alpha: float, power: float) -> float | None:
        """The noncentrality at which the power is reached; None if it is never."""
        if values := self.values(term, wide):
            return t_shift(self.cases, alpha, power, values)
        return shift(wide, self.degrees(wide), alpha, power)


def powers(design: DesignMatrix, terms: Sequence[Term], assumed: Assumed) -> tuple[EffectPower, ...]:
    """The power for each term of the model except the intercept."""
    made = fit(design, terms, worth(design.times, assumed))
    error = error_model(design, made.rank, design.times, assumed)
    return tuple(power_of(made, term, design.space, error, assumed) for term in terms if term != INTERCEPT)


def worth(times: Sequence[int], assumed: Assumed) -> Matrix:
    """The weight of each run: the inverse variance of the mean over its trials."""
    import numpy as np

    each = assumed.noise**2 / (assumed.repeats * np.array(times, dtype=np.float64))
    found: Matrix = assumed.cases / (assumed.case_noise**2 + each)
    return found


def error_model(design: DesignMatrix, rank: int, times: Sequence[int], assumed: Assumed) -> ErrorModel:
    """The error of a model of this rank in which run i is made times[i] times."""
    residual = _residual(rank, sum(times), len(times), design.space, assumed)
    few = residual is None and assumed.cases < FULLY_EVIDENT
    return ErrorModel(assumed.cases, len(times), residual, _crossed(design) if few else frozenset())


def full_error_model(space: Space, rank: int, runs: int, assumed: Assumed) -> ErrorModel:
    """The error of a model of this rank in a full factorial, in which every factor is crossed with all."""
    crossed = frozenset(d.name for d in space.dimensions if not numeric(d))
    return ErrorModel(assumed.cases, runs, _residual(rank, runs, runs, space, assumed), crossed)


def _residual(rank: int, runs: int, different: int, space: Space, assumed: Assumed) -> int | None:
    """Residual degrees of freedom, after the parameters and the case effects; None if cases are the sample.

    With case noise, repeats contribute none, because they carry no information about it.
    """
    surface = any(d.ranged for d in space.dimensions)
    if assumed.cases > (rank if surface else 1):
        return None
    each = different if assumed.case_noise else runs * assumed.repeats
    return max(0, each * assumed.cases - rank - (assumed.cases - 1))


def _crossed(design: DesignMatrix) -> frozenset[str]:
    """The factors of two levels that meet the same combinations of the other factors at both."""
    import numpy as np

    codes = {
        d.name: np.unique(design.columns[d.name], axis=0, return_inverse=True)[1].reshape(-1)
        for d in design.space.dimensions
    }
    found = set()
    for d in design.space.dimensions:
        own = codes[d.name]
        if numeric(d) or int(own.max()) != 1:
            continue
        others = [codes[other] for other in codes if other != d.name] or [np.zeros_like(own)]
        rows = np.stack(others, axis=1)
        one, two = ({tuple(row) for row in rows[own == level].tolist()} for level in (0, 1))
        if one == two:
            found.add(d.name)
    return frozenset(found)


def power_of(
    made: ModelInformation, term: Term, space: Space, error: ErrorModel, assumed: Assumed
) -> EffectPower:
    """The power for one term, given the model of error."""
    wide = width(term, space)
    left = error.degrees(wide)
    if not made.estimable(term):
        return EffectPower(term.label, wide, max(left, 0))
    variance = least_certain(made.of(term), term, space)
    known = left >= 1
    reach = error.shift(term, wide, assumed.alpha, assumed.power) if known else None
    return EffectPower(
        effect=term.label,
        df=wide,
        error_df=max(left, 0),
        error=variance**0.5,
        power=error.chance(term, wide, assumed.effect**2 / variance, assumed.alpha)
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
    """The noncentrality at which the F test reaches this power."""
    return _reaching(lambda shifted: chance(shifted, df, left, alpha), power, 50)


def _reaching(chance: Callable[[float], float], power: float, steps: int) -> float:
    """The noncentrality at which `chance` reaches this power, by bisection."""
    high = 1.0
    while chance(high) < power:
        high *= 2
    low = high / 2 if high > 1 else 0.0
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (low, middle) if chance(middle) >= power else (middle, high)
    return high


TINY = 1e-12
"""The smallest number of an assumption; squares of smaller ones, and levels beyond, are lost in rounding."""


FLIPPED, SAMPLED = 4000, 1000
"""Number of simulated studies behind the power of flips of signs, and of t adjusted for skewness."""


def t_chance(shifted: float, cases: int, alpha: float, values: int = 1) -> float:
    """The power of the test of a term with one parameter on few cases, each with so many normal values."""
    if values == 1 and cases <= FEW_UNITS:
        return flip_chance(shifted, cases, alpha)
    return max(alpha, chance(shifted, 1, cases - 1, alpha) - _forgone(shifted, cases, alpha, values))


@cache
def t_shift(cases: int, alpha: float, power: float, values: int = 1) -> float | None:
    """The noncentrality at which that test reaches this power; None if so few cases never do."""
    flips = values == 1 and cases <= FEW_UNITS
    if flips and alpha * 2**cases < 2:
        return None
    return _reaching(lambda shifted: t_chance(shifted, cases, alpha, values), power, 12 if flips else 30)


def flip_chance(shifted: float, cases: int, alpha: float) -> float:
    """The power of the exact test by flips of signs; simulated."""
    import numpy as np

    if alpha * 2**cases < 2:
        return 0.0
    values = np.random.default_rng(cases).standard_normal((FLIPPED, cases)) + (shifted / cases) ** 0.5
    signs = 1 - 2 * ((np.arange(2 ** (cases - 1))[:, None] >> np.arange(cases)) & 1)
    sums = np.abs(values @ signs.T)
    extreme = (sums >= np.abs(values.sum(axis=1))[:, None] * (1 - 1e-12)).mean(axis=1)
    return float((extreme <= alpha).mean())


def _forgone(shifted: float, cases: int, alpha: float, values: int) -> float:
    """The power that t loses by its adjustment for the skewness of normal samples."""
    from scipy.special import ndtr

    size, (plain, below, above) = shifted**0.5, _reaches(cases, alpha, values)
    by_t = ndtr(size - plain) + ndtr(-size - plain)
    adjusted = ndtr(size - below) + ndtr(-size - above)
    return float((by_t - adjusted).mean())


@cache
def _reaches(cases: int, alpha: float, values: int) -> tuple[Matrix, Matrix, Matrix]:
    """How far intervals of normal samples reach from their mean, as the analysis makes them.

    By t to either side, and adjusted for skewness downwards and upwards; in true standard errors. The mean of
    a normal sample is independent of them.
    """
    import numpy as np

    from peira.stats.student import Spread, around

    found = []
    for sample in np.random.default_rng(cases).standard_normal((SAMPLED, cases, values)):
        made = _spread(sample)
        plain = around(0.0, Spread(made.error, made.df), 1 - alpha)
        low, high = around(0.0, made, 1 - alpha) if made.skewness else (-plain[1], plain[1])
        found.append((plain[1], -low, high))
    plain_reach, below, above = np.sqrt(cases * values) * np.array(found).T
    return plain_reach, below, above


def _spread(values: Matrix) -> Spread:
    """The error of the mean of cases, which have a row of values each, as the analysis finds it.

    Several values of a case stand for the runs of a contrast, half of which count against it; the case's own
    mean is no part of them.
    """
    import numpy as np

    from peira.stats.intervals.means import EVIDENT, contrast_skewness, skewed_spread, spread

    codes, (cases, each) = np.arange(len(values)), values.shape
    if each == 1:
        return skewed_spread(values[:, 0], codes, EVIDENT)
    by_case, signs = values.mean(axis=1), np.where(np.arange(each) % 2, 1.0, -1.0)
    runs = values * signs
    within = (runs - runs.mean(axis=1, keepdims=True) - (runs.mean(axis=0) - runs.mean())) * signs
    skewness = contrast_skewness(within.ravel(), np.repeat(np.arange(cases), each), by_case)
    return replace(spread(by_case, codes), skewness=skewness)


def _above(name: str, value: object) -> Iterator[str]:
    if not is_number(value) or not TINY <= value <= 1 / TINY:  # type: ignore[operator]
        yield f"{name}: must be a number above 0 (from {TINY:g} to {1 / TINY:g}), not {value!r}"


def _share(name: str, value: object, least: float) -> Iterator[str]:
    if not is_number(value) or not least < value < 1 or not TINY < value < 1 - 1e-12:  # type: ignore[operator]
        yield f"{name}: must be between {least:g} and 1, not {value!r}"
