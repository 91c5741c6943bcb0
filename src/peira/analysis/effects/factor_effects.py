"""Main effects and interactions of factors, with intervals, tests and marginal means."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import msgspec
import numpy as np

from peira.analysis.compare.comparison import doubt_of
from peira.analysis.compare.difference import ORDER, Differences
from peira.analysis.compare.sides import Contexts, Side, levels_of
from peira.analysis.effects.cell_means import Marginal, marginals
from peira.analysis.effects.linear_contrast import linear_contrast, row_weights
from peira.analysis.effects.regression import CaseModel, CodedFactor, EffectTerm, Fit
from peira.analysis.effects.variance import Variance, variance
from peira.analysis.table.groups import check_names
from peira.analysis.table.measures import Measured, Observation, measure
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats.inputs import Floats
from peira.stats.values import Estimate, remark_of, within


@dataclass(frozen=True)
class Effect:
    """The change of the score by a contrast of levels; `label` says which level minus which."""

    term: str
    label: str
    estimate: Estimate
    p: float | None
    tailed: float | None = None
    """The p-value if few units of a measure without limits hide a long tail; None if they could not."""


@dataclass(frozen=True)
class TermTest:
    """The test of a factor or interaction having no effect at all.

    Where Student's t cannot be trusted, `p` is not that of F, but the least of the levels' differences (of an
    interaction's contrasts), times their number.
    """

    term: str
    f: float | None
    df: int
    df_error: float | None
    p: float | None
    tailed: float | None = None
    """The p-value if few units of a measure without limits hide a long tail; None if they could not."""
    lost: int = 0
    """The number of lost trials, if the term is clear and they could overturn it."""

    def hides_tail(self, alpha: float) -> bool:
        """Whether the term is clear only if few units do not hide a long tail."""
        return self.p is not None and self.tailed is not None and self.p <= alpha < self.tailed


@dataclass(frozen=True)
class Effects(ResultValue):
    """Main effects and interactions on one score, in its units (in log odds for logistic models)."""

    score: str
    level: float
    effects: tuple[Effect, ...] = ()
    tests: tuple[TermTest, ...] = ()
    means: tuple[Marginal, ...] = ()
    variance: Variance | None = None
    paired: bool = False
    units: int = 0
    notes: tuple[str, ...] = ()

    def effect(self, term: str) -> Effect:
        """The first effect of this term; raises StopIteration if there is none."""
        return next(one for one in self.effects if one.term == term)

    @property
    def sentence(self) -> str:
        """One line for each term: the change, and whether it is clear."""
        nothing = self.notes[0] if self.notes else "Too little varies: nothing can be said."
        return "\n".join(self._sentences()) or nothing

    def _sentences(self) -> Iterator[str]:
        """One line per two-level contrast, then one per term without one."""
        alpha = round(1 - self.level, 12)
        tests = {test.term: test.p for test in self.tests}
        doubts = {test.term: self.doubt(test) for test in self.tests}
        for one in self.effects:
            if " - " not in one.label:
                continue
            found = one.estimate
            shown = layout.interval(found.mean, found.low, found.high)
            p = one.p if tests.get(one.term) is None else tests[one.term]
            clear = "nothing can be said" if p is None else "clear" if p <= alpha else "not clear"
            said = f"{one.term} ({one.label}) changes {self.score} by {shown}: {clear}."
            yield f"{doubts.get(one.term, '')}{said}"
        yield from (
            f"{doubts[test.term]}{test.term} makes {'a' if test.p <= alpha else 'no clear'} "
            f"difference in {self.score}."
            for test in self.tests
            if test.p is not None and not any(e.term == test.term and " - " in e.label for e in self.effects)
        )

    def doubt(self, test: TermTest) -> str:
        """What could overturn that a term is clear, to be said before it; empty if nothing known could."""
        hides = test.hides_tail(round(1 - self.level, 12))
        return doubt_of(test.lost, counted(self.units, "unit") if hides else "")

    def grids(self) -> list[TextGrid]:
        """The table of effects and the table of marginal means, if they are not empty."""
        return [grid for grid in (self._effects(), self._means()) if grid.rows]

    def _effects(self) -> TextGrid:
        """The table of effects."""
        rows = [[e.term, e.label, _shown(e.estimate), layout.probability(e.p)] for e in self.effects]
        header = ["effect", "levels", f"change in {self.score} [{100 * self.level:g}% interval]", "p"]
        return TextGrid(header, rows)

    def _means(self) -> TextGrid:
        """The table of marginal means."""
        rows = [[m.factor, m.level, _shown(m.estimate)] for m in self.means]
        return TextGrid(["factor", "level", f"mean [{100 * self.level:g}% interval]"], rows)

    @property
    def remarks(self) -> list[str]:
        """The kind of analysis, the variance components, and the notes."""
        lines = [self.variance.sources, self.variance.sentence] if self.variance else []
        lines = [line for line in lines if line]
        if self.effects:
            how = "each case its own control" if self.paired else "cases as a sample"
            lines = [f"{how}; {self.units:,} independent {'unit' if self.units == 1 else 'units'}", *lines]
        return [*lines, *(note for note in self.notes if note != self.sentence)]

    def document(self) -> dict[str, Any]:
        """The fields, the sentence, and the remarks as notes."""
        return {**super().document(), "notes": self.remarks}


def _shown(found: Estimate) -> str:
    """An estimate with its interval, marked if that may be too narrow."""
    return f"{layout.interval(found.mean, found.low, found.high)}{remark_of(found.method)}"


def effects(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    order: int = 2,
    notes: Sequence[str] = (),
    formula: str = "",
) -> Effects:
    """Main effects and interactions up to `order` of the named factors.

    Without names, of all that vary. A `formula` ("model + style + model:style") names the terms of the linear
    model instead; factors that it leaves out are taken to do nothing.

    Raises Invalid for a level outside (0, 1), an order below 1 or a formula that cannot be read, and Unknown
    for an unknown factor.
    """
    _check(level, order)
    measured = measure(trials, score)
    differences = Differences(measured)
    table, every = differences.table, differences.names
    check_names(names, every, ())
    if formula:
        if names:
            raise Invalid("formula: it names the factors; leave out those beside it")
        stated = parse_formula(formula, every)
        interactions = tuple(one for one in stated if len(one) > 1)
        kept = {name for term in stated for name in term}
        measured = replace(measured, observations=_without(measured.observations, set(every) - kept))
        differences = Differences(measured, interactions=interactions)
        table, every = differences.table, differences.names
    remarks = [*measured.remarks("effects"), *notes]
    if not len(table.values):
        return Effects(measured.name, level, notes=("No trial has a score: nothing can be said.", *remarks))
    whole = bool(formula) or (order == ORDER and set(names or every) == set(every))
    model = differences.model if whole else CaseModel(table, names or every, order)
    if not model.factors:
        return Effects(measured.name, level, notes=("No factor varies: there are no effects.", *remarks))
    if formula:
        remarks.append(f"in the model {' + '.join(term.name.replace(' x ', ':') for term in model.terms)}")
    found = model.fit()
    fitted = [_term(found, differences, term, level) for term in found.kept.terms]

    def again(filled: Differences) -> Fit:
        """The same model of other values."""
        return (filled.model if whole else CaseModel(filled.table, names or every, order)).fit()

    lost = _Lost(differences, again, level)
    fitted = [
        (each, replace(test, lost=lost.overturning(found, term, each, test)))
        for term, (each, test) in zip(found.kept.terms, fitted, strict=True)
    ]
    shown = tuple(one for each, _ in fitted for one in each)
    return Effects(
        measured.name,
        level,
        shown,
        tuple(test for _, test in fitted),
        tuple(marginals(found, level, measured.ends)),
        variance(measured),
        found.paired,
        table.groups,
        (*_notes(found, shown, level), *remarks),
    )


def parse_formula(formula: str, factors: Collection[str]) -> list[tuple[str, ...]]:
    """The terms of a formula, each by its factors; `a * b` stands for a, b and a:b.

    `main` stands for all factors, `interactions` for all interactions of two beside them.

    Main effects of factors that are only in interactions are added: without them an interaction would depend
    on how levels are coded. Invalid with every problem.
    """
    problems: list[str] = []
    terms: list[tuple[str, ...]] = []
    for text in (part.strip() for part in formula.split("+")):
        if text in ("main", "interactions"):
            terms += [(name,) for name in factors]
            terms += combinations(factors, 2) if text == "interactions" else []
            continue
        names = [name.strip() for name in re.split(r"[:*]", text)]
        if any("^" in name for name in names):
            problems.append(f"formula: {text}: levels have no squares here; `surface` fits them")
        elif unknown := [name for name in names if name not in factors]:
            problems += [f"formula: no factor {name!r}{nearest(name, factors)}" for name in unknown]
        elif len(set(names)) < len(names):
            problems.append(f"formula: {text}: names a factor twice")
        else:
            sizes = range(2, len(names) + 1) if "*" in text else [len(names)]
            terms += [(name,) for name in names]
            terms += [tuple(group) for size in sizes for group in combinations(names, size) if size > 1]
    if problems:
        raise Invalid(problems)
    order = list(factors)
    return list(dict.fromkeys(tuple(sorted(term, key=order.index)) for term in terms))


def _without(seen: Sequence[Observation], left_out: Collection[str]) -> tuple[Observation, ...]:
    """The observations with these factors ignored: their levels count as repeats."""
    if not left_out:
        return tuple(seen)
    conditions: dict[int, Mapping[str, Json]] = {}

    def rest(trial: TrialResult) -> TrialResult:
        place = id(trial.condition)
        if place not in conditions:
            conditions[place] = {n: v for n, v in trial.condition.items() if n not in left_out}
        agent = "" if "agent" in left_out else trial.agent
        return msgspec.structs.replace(trial, condition=conditions[place], agent=agent)

    return tuple(replace(one, trial=rest(one.trial)) for one in seen)


def _check(level: float, order: int) -> None:
    """Raise Invalid for a level or an order out of range."""
    problems = [f"level: must lie between 0 and 1, not {level!r}"] if not 0 < level < 1 else []
    problems += [f"order: must be at least 1, not {order!r}"] if order < 1 else []
    if problems:
        raise Invalid(problems)


def _term(
    found: Fit, differences: Differences, term: EffectTerm, level: float
) -> tuple[list[Effect], TermTest]:
    """The contrasts and the test of a term.

    For a two-level factor both come from the common estimator of differences (`Differences.between`),
    otherwise from the linear model.
    """
    (label, _), *others = term.contrasts
    if len(term.factors) == 1 and not others:
        return _two_levels(found, differences, term, label, level)
    place, ends = found.kept.places[found.kept.terms.index(term)], differences.measured.ends
    reach = term.reach * (ends[1] - ends[0]) if ends else None
    every = {text: linear_contrast(found, place, own, ends) for text, own in term.contrasts}
    method, n = "paired t on cases" if found.paired else "cluster-robust t", len(found.table.values)
    shown = [
        Effect(
            term.name,
            text,
            within(one.estimate(level, n, method), reach),
            one.test(n, method).p,
            one.tailed,
        )
        for text, one in every.items()
    ]
    test = _test(found, term, place)
    if test.p is None:
        return shown, test
    if all(one.is_plain for one in every.values()):
        test = replace(test, p=shown[0].p) if len(shown) == 1 else test
        if all(one.tailed is None for one in shown):
            return shown, test
        _, tails = _levels(found, differences, term, shown)
        return shown, replace(test, tailed=_joint(tails, test.p))
    # Hotelling's test rests on what t rests on: what is compared one by one has the last word.
    chances, tails = _levels(found, differences, term, shown)
    p = _joint(chances)
    return shown, replace(test, p=p, tailed=_joint(tails, p))


Chances = list[float | None]
"""P-values."""


def _joint(chances: Chances, least: float | None = 0.0) -> float | None:
    """The least of several p-values, times their number, and not below `least`; None if none is known."""
    known = [p for p in chances if p is not None]
    return max(min(1.0, len(chances) * min(known)), least or 0.0) if known else None


def _levels(
    found: Fit, differences: Differences, term: EffectTerm, shown: Sequence[Effect]
) -> tuple[Chances, Chances]:
    """The p-values of the levels' differences, of an interaction its contrasts', and those with tails."""
    if len(term.factors) > 1:
        return [one.p for one in shown], [one.tailed for one in shown]
    pairs = combinations(_sides(found, differences.measured, term.factors[0]), 2)
    every = [differences.between(later, earlier, term.name) for earlier, later in pairs]
    return [one.evidence().p for one in every], [one.tailed() for one in every]


def _two_levels(
    found: Fit, differences: Differences, term: EffectTerm, label: str, level: float
) -> tuple[list[Effect], TermTest]:
    """The effect and test of a two-level factor, from the common estimator of differences."""
    first, second = _sides(found, differences.measured, term.factors[0])
    difference = differences.between(second, first, term.name)
    tested, estimate = difference.evidence(), difference.estimate(level)
    tailed = difference.tailed()
    effect = Effect(term.name, label, estimate, tested.p, tailed)
    df = difference.degrees(tested)
    f = None if df is None or tested.statistic is None else tested.statistic**2
    return [effect], TermTest(term.name, f, 1, df, tested.p, tailed)


@dataclass(frozen=True, eq=False)
class _Lost:
    """What the lost trials of the differences could do; `again` fits the same model to other values."""

    differences: Differences
    again: Callable[[Differences], Fit]
    level: float

    def overturning(self, found: Fit, term: EffectTerm, shown: Sequence[Effect], test: TermTest) -> int:
        """The number of lost trials if they could overturn that a term is clear; else 0.

        Judged by its clearest difference, with the lost values at the ends that move it furthest.
        """
        measured, alpha = self.differences.measured, round(1 - self.level, 12)
        if not measured.lost or test.p is None or test.p > alpha:
            return 0
        p = self._of_levels(found, term) if len(term.factors) == 1 else self._of_cells(term, shown)
        return 0 if p is not None and p <= alpha else measured.lost

    def _of_levels(self, found: Fit, term: EffectTerm) -> float | None:
        """The p-value of a factor at worst."""
        pairs = list(combinations(_sides(found, self.differences.measured, term.factors[0]), 2))
        every = [self.differences.between(later, earlier, term.name) for earlier, later in pairs]
        known = [(p, one) for one in every if (p := one.evidence().p) is not None]
        if not known:
            return None
        p = min(known, key=lambda each: each[0])[1].p_at_worst(self.differences.measured.ends, self.level)
        return None if p is None else min(1.0, len(pairs) * p)

    def _of_cells(self, term: EffectTerm, shown: Sequence[Effect]) -> float | None:
        """The p-value of an interaction at worst."""
        ends, known = self.differences.measured.ends, [one for one in shown if one.p is not None]
        if ends is None or not known:
            return None
        clearest = min(known, key=lambda one: one.p or 0.0)
        middle = (ends[0] + ends[1]) / 2
        fit = self.again(self.differences.with_lost(lambda _: middle))
        there = self._contrast(fit, term, clearest.label)
        if there is None:
            return None
        rows, contexts = row_weights(fit, *there), Contexts()
        rises = {
            (trial.case_id, contexts.of(trial)): bool(weight > 0)
            for trial, weight in zip(fit.table.trials, rows, strict=True)
        }
        down = clearest.estimate.mean > 0

        def worst(trial: TrialResult) -> float:
            return ends[0 if rises[trial.case_id, contexts.of(trial)] == down else 1]

        fit = self.again(self.differences.with_lost(worst))
        there = self._contrast(fit, term, clearest.label)
        if there is None:
            return None
        moved = linear_contrast(fit, *there, ends)
        p = moved.test(len(fit.table.values), "t").p
        if p is None or moved.mean * clearest.estimate.mean <= 0:
            return 1.0
        return min(1.0, len(shown) * p)

    def _contrast(self, fit: Fit, term: EffectTerm, label: str) -> tuple[slice, Floats] | None:
        """The place and the weights of a contrast in another fit, in which levels may have another order."""
        at = next((k for k, one in enumerate(fit.kept.terms) if one.name == term.name), None)
        if at is None:
            return None
        other = fit.kept.terms[at]
        contrasts = dict(other.contrasts)
        if label in contrasts:
            return fit.kept.places[at], contrasts[label]
        if len(contrasts) > 1:
            return None
        turned = [a.levels != b.levels for a, b in zip(term.factors, other.factors, strict=True)]
        (weights,) = contrasts.values()
        return fit.kept.places[at], -weights if sum(turned) % 2 else weights


def _sides(found: Fit, measured: Measured, factor: CodedFactor) -> list[Side]:
    """The sides of a factor's levels, in the order of the levels."""
    every = list(levels_of(measured, factor.name).sides.values())
    first = [int(np.argmax(factor.codes == code)) for code in range(len(factor.levels))]
    ids = [found.table.trials[row].id for row in first]
    return [next(side for side in every if one in side.trials) for one in ids]


def _test(found: Fit, term: EffectTerm, place: slice) -> TermTest:
    """Hotelling's T-squared test of a term having no effect; reactions may differ between cases.

    It is computed from the deviations of all cells, so that the order of levels does not matter. Directions
    without variance and without difference (two levels that are always right) are left out; the test is
    unknown if there is a difference in a direction without variance. Where units do not all have the same
    rows, the degrees of freedom are fewer than the units (see `Fit.degrees`).
    """
    q = place.stop - place.start
    unknown = TermTest(term.name, None, q, None, None)
    if found.influence is None:
        return unknown
    cells = term.cells
    means, influence = cells @ found.beta[place], found.influence[:, place] @ cells.T
    _, lengths, directions = np.linalg.svd(influence, full_matrices=False)
    spread = lengths > found.rounding
    spread[q:] = False
    rank = int(spread.sum())
    along = directions[spread] @ means
    rest = means - directions[spread].T @ along
    if not rank or found.df + 1 - q < 1 or float(np.abs(rest).max()) > found.rounding:
        return unknown
    from scipy.special import fdtrc

    degrees = found.leverage.degrees(found.weights(place, cells.T @ directions[spread].T))
    df = degrees + 1 - rank
    if df < 1:
        return unknown
    f = float(((along / lengths[spread]) ** 2).sum()) * df / (rank * degrees)
    return TermTest(term.name, f, rank, int(df) if df == int(df) else df, float(fdtrc(rank, df, f)))


def _notes(found: Fit, shown: Sequence[Effect], level: float) -> Iterator[str]:
    """Notes on the fit: unknown intervals, interval against test, aliasing, plots."""
    unknown = all(one.estimate.low is None for one in shown)
    if found.table.groups < 2 and unknown:
        yield "One case says nothing about others: no interval can be given."
    elif found.influence is None and unknown:
        yield "Nothing varies beside the conditions: no interval can be given."
    for one in shown:
        if one.p is not None and one.estimate.excludes_zero != (one.p <= round(1 - level, 12)):
            yield f"{one.term} ({one.label}): interval and test disagree; go by the test"
    if not found.paired:
        yield "Not every factor varies within cases: cases are not their own controls."
    yield from found.kept.aliased
    plots = [(one.block, one.plot) for one in found.table.trials]
    whole = [f.name for f in found.factors if any(p for _, p in plots) and _one_in_each(f, plots)]
    if whole:
        yield f"set for whole plots: {', '.join(whole)}; `strata` tests against plots, these intervals do not"


def _one_in_each(factor: CodedFactor, plots: Sequence[tuple[str, str]]) -> bool:
    """Whether the factor has one level in each plot."""
    return len(set(zip(plots, factor.codes.tolist(), strict=True))) == len(set(plots))
