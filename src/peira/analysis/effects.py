"""What each factor does, and what factors do together: effects with intervals, tests, marginal means."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np

from peira.analysis.effect_values import Effect, Effects, Marginal, TermTest
from peira.analysis.fitting import Fit, Table, fit, names_of, table_of
from peira.analysis.groups import check_names
from peira.analysis.measures import Measured, measure
from peira.analysis.terms import Factor, Term
from peira.analysis.trials import TrialResult
from peira.analysis.variance import variance
from peira.errors import Invalid
from peira.stats import student
from peira.stats.inputs import Floats
from peira.stats.intervals import estimate
from peira.stats.student import Spread
from peira.stats.values import Estimate


def effects(
    trials: Iterable[TrialResult],
    names: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    order: int = 2,
    notes: Sequence[str] = (),
) -> Effects:
    """Main effects and interactions up to `order` of the named factors; without names, of all that vary."""
    _check(level, order)
    measured = measure(trials, score)
    table = table_of(measured)
    every = names_of([one.trial for one in measured.observations])
    check_names(names, every, ())
    said = [*_remarks(measured), *notes]
    if not len(table.values):
        return Effects(measured.name, level, notes=("No trial has a score: nothing can be said.", *said))
    found = fit(table, names or every, order)
    if not found.factors:
        return Effects(measured.name, level, notes=("No factor varies: there are no effects.", *said))
    return Effects(
        measured.name,
        level,
        tuple(_effects(found, level)),
        tuple(_tests(found)),
        tuple(_marginals(found, level)),
        variance(measured),
        found.paired,
        table.groups,
        (*_said(found), *said),
    )


def _check(level: float, order: int) -> None:
    problems = [f"level: must lie between 0 and 1, not {level!r}"] if not 0 < level < 1 else []
    problems += [f"order: must be at least 1, not {order!r}"] if order < 1 else []
    if problems:
        raise Invalid(problems)


def _effects(found: Fit, level: float) -> Iterator[Effect]:
    for term, place in zip(found.kept.terms, found.kept.places, strict=True):
        for label, weights in term.contrasts:
            yield _effect(term, label, weights, place, found, level)


def _effect(term: Term, label: str, weights: Floats, place: slice, found: Fit, level: float) -> Effect:
    mean, n = float(weights @ found.beta[place]), len(found.table.values)
    variance = 0.0 if found.covariance is None else float(weights @ found.covariance[place, place] @ weights)
    tiny = found.rounding
    if variance <= tiny**2:
        p = 1.0 if abs(mean) <= tiny and found.df > 0 else None
        return Effect(term.name, label, Estimate(round(mean, 12), None, None, n, "unknown"), p)
    spread = Spread(variance**0.5, found.df)
    p = student.p_value(mean / spread.error, found.df, "two-sided")
    method = "paired t on cases" if found.paired else "cluster-robust t"
    return Effect(term.name, label, Estimate(mean, *student.around(mean, spread, level), n, method), p)


def _tests(found: Fit) -> Iterator[TermTest]:
    """Hotelling's test that a term has no effect at all: cases may react to each level differently."""
    from scipy.special import fdtrc

    for term, place in zip(found.kept.terms, found.kept.places, strict=True):
        beta, q = found.beta[place], place.stop - place.start
        within = found.df + 1 - q
        block = None if found.covariance is None else found.covariance[place, place]
        if block is None or within < 1 or float(np.linalg.eigvalsh(block)[0]) <= found.rounding**2:
            yield TermTest(term.name, None, q, None, None)
            continue
        t2 = float(beta @ np.linalg.solve(block, beta))
        f = t2 * within / (q * found.df)
        yield TermTest(term.name, f, q, within, float(fdtrc(q, within, f)))


def _marginals(found: Fit, level: float) -> Iterator[Marginal]:
    table = found.table
    for factor in found.factors:
        for code, label in enumerate(factor.levels):
            chosen = factor.codes == code
            units = [int(unit) for unit in table.units[chosen]]
            yield Marginal(factor.name, label, _marginal(table, found, factor, code, chosen, units, level))


def _marginal(
    table: Table, found: Fit, factor: Factor, code: int, chosen: Floats, units: list[int], level: float
) -> Estimate:
    """The mean at a level, every combination of the other factors counting alike."""
    others = [other for other in found.factors if other is not factor]
    cells = np.zeros(int(np.count_nonzero(chosen)), dtype=np.intp)
    for other in others:
        cells = cells * len(other.levels) + other.codes[chosen]
    values = table.values[chosen]
    _, place, counts = np.unique(cells, return_inverse=True, return_counts=True)
    if len(set(counts.tolist())) == 1:
        return estimate(values, units, level)
    weighed = values * (len(values) / (len(counts) * counts[place]))
    return estimate(weighed, units, level)


def _said(found: Fit) -> Iterator[str]:
    if found.table.groups < 2:
        yield "One case says nothing about others: no interval can be given."
    elif found.covariance is None:
        yield "Nothing varies beside the conditions: no interval can be given."
    if not found.paired:
        yield "Not every factor varies within cases: cases are not their own controls."
    yield from found.kept.aliased
    plots = [(one.block, one.plot) for one in found.table.trials]
    whole = [f.name for f in found.factors if any(p for _, p in plots) and _one_in_each(f, plots)]
    if whole:
        yield f"set for whole plots: {', '.join(whole)}; `strata` tests against plots, these intervals do not"


def _one_in_each(factor: Factor, plots: Sequence[tuple[str, str]]) -> bool:
    """Whether the factor has one level in each plot."""
    return len(set(zip(plots, factor.codes.tolist(), strict=True))) == len(set(plots))


def _remarks(measured: Measured) -> Iterator[str]:
    if lost := sum(one.value is None for one in measured.observations):
        yield f"not in the effects: {lost} lost {'trial' if lost == 1 else 'trials'}"
