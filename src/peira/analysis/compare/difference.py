"""The difference of two levels with its interval and test: the single estimator of differences.

Comparisons, effects, hypotheses, reports, leaderboards, gates and power analysis all use this module, so that
the same question always has the same answer. `Differences.between` is the only place that chooses the model:

- pairs: both sides have the same cases under the same other conditions. Differences are taken case by case
  (Tango and McNemar for 0/1 scores; for other scores within limits Gaffke's bound and its test, unless
  Student's t is as good; for unbounded measures the sign-flip permutation test for few units, Student's t
  otherwise).
- groups: the sides have no case in common, and the same distribution of the other conditions. Newcombe, or
  Welch.
- design: the other factors are not balanced between the sides (a fractional or constrained design, lost
  trials). The levels are compared by least squares with the other factors in the model.
- imputed: if asked for, lost values are imputed several times, and what the models above find is pooled.

Methods requested by name (a test, the bootstrap, paired or unpaired) use the values without adjustment. Where
the sides have no other condition in common these would compare averages over different conditions: t tests
are then made in the linear model, and other tests and the bootstrap are refused.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Literal

import numpy as np

from peira.analysis.compare import estimates as numbers
from peira.analysis.compare.estimates import TwoSamples, difference_by
from peira.analysis.compare.imputation import Missing, imputations, pooled
from peira.analysis.compare.sides import CaseCell, Contexts, Match, Side, match, shared, side
from peira.analysis.compare.tests import UNPAIRED, evidence
from peira.analysis.effects.linear_contrast import LinearContrast, linear_contrast
from peira.analysis.effects.regression import CaseMeans, CaseModel, Fit, names_of, table_of
from peira.analysis.table.measures import Measured, Observation
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats.inputs import Floats, coded, is_rounding
from peira.stats.intervals.means import Limits, spread
from peira.stats.student import Spread, around, p_of
from peira.stats.tests import paired as pairwise
from peira.stats.tests import unpaired as apart
from peira.stats.tests.bayes import Posterior, from_t
from peira.stats.tests.unpaired import difference_spread
from peira.stats.values import Alternative, Estimate, TestResult, within

Model = Literal["pairs", "groups", "design", "imputed"]
"""How a difference is estimated: pairs, independent groups, the design's linear model, or imputed values."""
ORDER = 2
"""The order of the linear model: main effects and interactions of up to this many factors."""
T_TESTS = ("paired t", "welch")
"""Tests by name that can be made in the linear model."""
ADJUSTED = "t, adjusted for the other factors"
"""The method name of differences adjusted in the linear model."""


@dataclass(frozen=True, eq=False)
class Adjusted:
    """A difference that is not that of the observed values: adjusted in the linear model, or imputed.

    `n` counts the values behind it.
    """

    contrast: LinearContrast
    n: int
    model: Model = "design"
    method: str = ADJUSTED


@dataclass(frozen=True, eq=False)
class Difference:
    """The first side minus the second.

    `reach` is the largest possible difference, None if scores are unbounded. `data` holds the values of the
    pairs or of both groups; a difference estimated in the design's linear model takes its number from
    `adjusted` instead.
    """

    found: Match
    data: TwoSamples
    reach: float | None
    adjusted: Adjusted | None = None
    refit: Callable[[tuple[float, float]], Difference] | None = None
    """Estimates an adjusted difference again with the lost values of each side imputed as the given ends."""

    @property
    def model(self) -> Model:
        """Which of the models estimated this difference."""
        if self.adjusted is not None:
            return self.adjusted.model
        return "pairs" if self.data.paired else "groups"

    @property
    def known(self) -> bool:
        """Whether both sides have values."""
        return bool(self.data.one.size and self.data.two.size)

    @property
    def n(self) -> int:
        """The number of pairs; without pairs, the number of values of both sides."""
        if self.adjusted is not None:
            return self.adjusted.n
        return self.data.one.size + (0 if self.data.paired else self.data.two.size)

    @property
    def units(self) -> int:
        """The number of independent units of evidence."""
        return self.data.units if self.adjusted is None else self.adjusted.contrast.units

    def estimate(self, level: float, interval: str = "") -> Estimate:
        """The difference with its confidence interval, clipped to the possible range."""
        if self.adjusted is None:
            return within(difference_by(interval, self.data, level), self.reach)
        found = self.adjusted
        return within(found.contrast.estimate(level, found.n, found.method), self.reach)

    def evidence(self, test: str = "", alternative: Alternative = "two-sided") -> TestResult:
        """The result of the named test, or without a name of the one that fits the data."""
        if self.adjusted is None:
            return evidence(self.data, test, alternative)
        found = self.adjusted
        return found.contrast.test(found.n, found.method, alternative)

    def tailed(self, alternative: Alternative = "two-sided") -> float | None:
        """The p-value if few units of a measure without limits hide a long tail.

        None if they could not: the measure has limits, or there are units enough to show a tail.
        """
        p = None if self.tailed_spread is None else self.evidence("", alternative).p
        if p is None or self.tailed_spread is None:
            return None
        return max(p, p_of(self._mean, self.tailed_spread, alternative))

    def tailed_estimate(self, level: float) -> Estimate:
        """The difference with the interval that it has if few units hide a long tail."""
        found = self.estimate(level)
        if self.tailed_spread is None or found.low is None or found.high is None:
            return found
        low, high = around(self._mean, self.tailed_spread, level)
        return replace(found, low=min(low, found.low), high=max(high, found.high))

    @cached_property
    def tailed_spread(self) -> Spread | None:
        """The standard error with the skewness of few units of a measure without limits in full.

        None if the measure has limits, or there are units enough to show a tail.
        """
        if self.reach is not None or not self.known or self.model == "imputed":
            return None
        data = self.data
        if self.adjusted is not None:
            return self.adjusted.contrast.tailed_spread
        if data.binary:
            return None
        if data.paired:
            return pairwise.tailed_spread(data.one, data.two, data.clusters)
        return apart.tailed_spread(data.one, data.two, data.clusters, data.clusters_two)

    @property
    def _mean(self) -> float:
        """The estimated difference."""
        if self.adjusted is not None:
            return self.adjusted.contrast.mean
        return float(self.data.one.mean() - self.data.two.mean())

    def p_at_worst(self, ends: Limits | None, level: float = 0.95) -> float | None:
        """The p-value with the lost trials against the observed difference; 1 if they turn it round.

        None if there are any and the score has no known ends.
        """
        if not self.found.one.lost + self.found.two.lost:
            return self.evidence().p
        if ends is None:
            return None
        mean = self.estimate(level).mean
        filled = self.imputed(ends if mean > 0 else ends[::-1])
        return 1.0 if filled.estimate(level).mean * mean <= 0 else filled.evidence().p

    @property
    def spread(self) -> Spread | None:
        """The standard error by Student's t, whatever interval fits; None if it is unknown or 0."""
        if self.adjusted is not None:
            return self.adjusted.contrast.spread
        data = self.data
        if not data.paired:
            return difference_spread(data.one, data.two, data.clusters, data.clusters_two)
        gaps = data.one - data.two
        codes, groups = coded(data.units_one, gaps.size)
        found = spread(gaps, codes) if groups > 1 else None
        scale = np.concatenate([data.one, data.two])
        return None if found is None or is_rounding(found.error, scale) else found

    def degrees(self, tested: TestResult) -> int | None:
        """The degrees of freedom if a t test with equal cluster sizes was used; else None."""
        plain = tested.method in ("paired t", "paired t, clustered")
        return self.units - 1 if plain and self.data.is_even else None

    def posterior(self, margin: float | None, level: float) -> Posterior:
        """The posterior of the difference; the margin is the region of practical equivalence."""
        if self.adjusted is None:
            return numbers.posterior(self.data, margin, level)
        rope = (-(margin or 0.0), margin or 0.0)
        contrast = self.adjusted.contrast
        return from_t(contrast.mean, contrast.spread, rope, level, self.adjusted.n)

    @property
    def deviation(self) -> float | None:
        """The standard deviation of unit differences, None if unknown or 0.

        Of unit values, in groups.
        """
        if self.adjusted is None:
            return numbers.deviation(self.data)
        spread = self.adjusted.contrast.spread
        return None if spread is None else spread.error * self.units**0.5

    @property
    def unit_data(self) -> TwoSamples:
        """The values behind effect sizes: those of the sides, or of the units if these were adjusted."""
        if self.adjusted is None:
            return self.data
        values, units = self.adjusted.contrast.by_unit, [("case", str(at)) for at in range(self.units)]
        return TwoSamples(values, np.zeros_like(values), units, units, True)

    def more_cases(self, alpha: float) -> int | None:
        """The number of additional units (on each side, in groups) for 80% power."""
        mean = self.estimate(1 - alpha).mean
        return numbers.more_cases(self.data, mean, self.deviation, alpha)

    def filled(self, ends: tuple[float, float], level: float) -> Estimate:
        """The estimate with the lost values of each side imputed as the given ends."""
        return self.imputed(ends).estimate(level)

    def imputed(self, ends: tuple[float, float]) -> Difference:
        """The difference with the lost values of each side imputed as the given ends."""
        if self.adjusted is not None and self.refit is not None:
            return self.refit(ends)
        sides = (self.found.one, self.found.two)
        cells = [[side.cells[key] for key in self.found.keys] for side in sides]
        if not self.data.paired:
            cells = [list(side.cells.values()) for side in sides]
        values = [np.array([c.filled(end) for c in group]) for group, end in zip(cells, ends, strict=True)]
        data = _data(cells, values, self.data.paired, self.data.limits)
        return Difference(self.found, data, self.reach)


@dataclass(frozen=True, eq=False)
class Differences:
    """The differences between sides on one measure; the linear model is fitted at most twice.

    With `missing` "impute", lost values are imputed several times, and the differences pooled. With
    `interactions` these alone are in the linear model beside the main effects, each by its factors' names;
    otherwise all of two factors are that the conditions can tell apart.
    """

    measured: Measured
    missing: Missing = "ended"
    interactions: tuple[tuple[str, ...], ...] | None = None

    @cached_property
    def completed(self) -> list[Differences]:
        """The differences of each imputation."""
        return [Differences(each) for each in imputations(self.measured)]

    @cached_property
    def reach(self) -> float | None:
        """The largest possible difference; None if the measure is unbounded."""
        ends = self.measured.ends
        return None if ends is None else ends[1] - ends[0]

    @cached_property
    def table(self) -> CaseMeans:
        """The case means behind the linear model."""
        return table_of(self.measured)

    @cached_property
    def names(self) -> list[str]:
        """The factors of the design."""
        return names_of([one.trial for one in self.measured.observations])

    @cached_property
    def model(self) -> CaseModel:
        """The linear model of the design."""
        if self.interactions is None:
            return CaseModel(self.table, self.names, ORDER)
        varying = {factor.name for factor in CaseModel(self.table, self.names, 1).factors}
        asked = [names for names in self.interactions if varying.issuperset(names)]
        return CaseModel(self.table, self.names, 1, asked)

    def between(
        self,
        one: Side,
        two: Side,
        by: str = "",
        paired: bool | None = None,
        test: str = "",
        interval: str = "",
    ) -> Difference:
        """The first side minus the second.

        `by` is the factor whose levels they are, if they are levels.

        `paired`, `test` and `interval` override the methods that fit the data. Raises Invalid if pairs are
        requested but the sides have no case in common, or if unpaired sides share calls or trials.
        """
        if self.missing == "impute" and one.lost + two.lost:
            return self._pooled(one, two, by, bool(test or interval) or paired is not None)
        found = match(one, two)
        is_paired = _is_paired(found, paired, test)
        simple = Difference(found, _values(found, is_paired, self.measured.ends), self.reach)
        if not simple.known or _is_balanced(found, is_paired) or by not in self.names:
            return simple
        requested = paired is not None or test or interval
        if requested and (found.matched or paired is not None):
            return simple
        adjusted = self._adjusted(found, by)
        if adjusted is not None and (interval or (test and test not in T_TESTS)):
            raise Invalid(
                f"{'interval' if interval else 'test'}: {interval or test} would compare averages of "
                f"{found.one.label} and {found.two.label} over different levels of the other factors; "
                "leave it out, and they are compared in the model of the design"
            )
        return replace(simple, adjusted=adjusted, refit=partial(self._refitted, one, two, by))

    def _pooled(self, one: Side, two: Side, by: str, named: bool) -> Difference:
        """The difference with lost values imputed, pooled over all imputations."""
        if named:
            raise Invalid(
                "missing: imputed differences have Student's t; leave out test, interval and pairing"
            )
        ended = Differences(self.measured).between(one, two, by)
        if not ended.known:
            return ended
        filled = [each._again(one, two, by) for each in self.completed]
        spreads = [each.spread for each in filled]
        means = [each.estimate(0.95).mean for each in filled]
        known = [(mean, spread) for mean, spread in zip(means, spreads, strict=True) if spread is not None]
        if len(known) < len(filled):
            return ended
        mean, total = pooled(known)
        by_unit = np.mean([each.unit_data.one.mean() - each.unit_data.two.mean() for each in filled])
        values = _with_spread(float(by_unit), total, filled[0])
        method = f"t, {len(filled)} imputations"
        imputed = Adjusted(LinearContrast(mean, total, values, 0.0), ended.n, "imputed", method)
        return replace(ended, adjusted=imputed, refit=ended.imputed)

    def _refitted(self, one: Side, two: Side, by: str, ends: tuple[float, float]) -> Difference:
        """The difference with every lost value imputed as the end that moves it furthest.

        Down if the first end is the smaller one, else up. In the linear model a value counts for or against
        the difference by its weight, whichever level it has.
        """
        middle = self.with_lost(lambda trial: (ends[0] + ends[1]) / 2)
        fitted = middle.model.fit_for(by)
        found = _contrast_weights(fitted, by, one, two)
        if found is None:
            return self.with_lost(lambda trial: None)._again(one, two, by)
        root, context = fitted.leverage.root, Contexts()
        weights = fitted.kept.matrix @ (root @ (root @ fitted.weights(found[0], found[1][:, None])[:, 0]))
        signs = {
            (trial.case_id, context.of(trial)): weight > 0
            for trial, weight in zip(fitted.table.trials, weights, strict=True)
        }
        filled = self.with_lost(lambda trial: ends[0 if signs[trial.case_id, context.of(trial)] else 1])
        return filled._again(one, two, by)

    def with_lost(self, value: Callable[[TrialResult], float | None]) -> Differences:
        """The differences with lost values as `value` says."""
        seen = tuple(
            each if each.value is not None else Observation(each.trial, value(each.trial))
            for each in self.measured.observations
        )
        measured = replace(self.measured, observations=seen)
        return Differences(measured, interactions=self.interactions)

    def _again(self, one: Side, two: Side, by: str) -> Difference:
        """The difference of the sides with the same trials."""
        first, second = (
            side(each.label, [o for o in self.measured.observations if o.trial.id in each.trials], each.leave)
            for each in (one, two)
        )
        return self.between(first, second, by)

    def _adjusted(self, found: Match, by: str) -> Adjusted | None:
        """The difference in the linear model.

        None if it is not estimable or there are no other factors.
        """
        fitted = self.model.fit_for(by)
        chosen = _contrast_weights(fitted, by, found.one, found.two)
        if chosen is None:
            return None
        place, weights = chosen
        n = len(found.one.scored) + len(found.two.scored)
        return Adjusted(linear_contrast(fitted, place, weights, self.measured.ends), n)


def _contrast_weights(fitted: Fit, by: str, one: Side, two: Side) -> tuple[slice, Floats] | None:
    """The place of a factor's coefficients and their weights in the difference of two of its levels.

    None if it is not estimable or there are no other factors.
    """
    alone = [term for term in fitted.kept.terms if len(term.factors) == 1]
    own = next((term for term in alone if term.name == by), None)
    codes = [_code(fitted, by, each) for each in (one, two)]
    if own is None or len(alone) < 2 or None in codes:
        return None
    place = fitted.kept.places[fitted.kept.terms.index(own)]
    coding = own.factors[0].coding
    weights: Floats = coding[codes[0]] - coding[codes[1]]
    return place, weights


def _with_spread(mean: float, total: Spread, like: Difference) -> Floats:
    """Values of the units with this mean and error, spread out as the units of a difference are."""
    one, two = like.unit_data.by_unit()
    gaps = one - two if like.unit_data.paired else one - float(one.mean())
    deviation = float(gaps.std(ddof=1)) if gaps.size > 1 else 0.0
    if deviation == 0:
        return np.full(gaps.size, mean)
    found: Floats = mean + (gaps - gaps.mean()) / deviation * total.error * gaps.size**0.5
    return found


def _code(fitted: Fit, by: str, side: Side) -> int | None:
    """The code of the factor level that this side is."""
    factor = next((one for one in fitted.factors if one.name == by), None)
    rows = enumerate(fitted.table.trials)
    row = next((row for row, trial in rows if trial.id in side.trials), None)
    return None if factor is None or row is None else int(factor.codes[row])


def _is_paired(found: Match, paired: bool | None, test: str) -> bool:
    """Whether to pair the sides.

    Raises Invalid if that is impossible, or if the sides are not independent.
    """
    share, what = shared(found.one, found.two)
    wanted = paired if paired is not None else test not in UNPAIRED and bool(found.keys)
    if wanted and not found.keys:
        raise Invalid(f"{found.one.label} and {found.two.label} have no case in common to be paired on")
    if not wanted and share:
        raise Invalid(
            f"{found.one.label} and {found.two.label} share {share:.0%} of their {what}: "
            "an unpaired test would take them for independent; compare them paired"
        )
    return wanted


def _is_balanced(found: Match, paired: bool) -> bool:
    """Whether the sides differ in nothing but the level, so that no adjustment is needed."""
    if paired:
        return found.matched and not found.unmatched
    one, two = (Counter(context for _, context in side.scored) for side in (found.one, found.two))
    return all(one[each] * two.total() == two[each] * one.total() for each in {*one, *two})


def _values(found: Match, paired: bool, limits: Limits | None) -> TwoSamples:
    """The case means of the pairs, or of both groups."""
    if paired:
        cells = [[side.cells[key] for key in found.pairs] for side in (found.one, found.two)]
    else:
        cells = [list(side.scored.values()) for side in (found.one, found.two)]
    values = [np.array([cell.mean for cell in group], dtype=np.float64) for group in cells]
    return _data(cells, values, paired, limits)


def _data(
    cells: Sequence[Sequence[CaseCell]], values: Sequence[Floats], paired: bool, limits: Limits | None
) -> TwoSamples:
    """The values of both sides with the units of their cells."""
    units = [[cell.unit for cell in group] for group in cells]
    return TwoSamples(values[0], values[1], units[0], units[1], paired, limits)
