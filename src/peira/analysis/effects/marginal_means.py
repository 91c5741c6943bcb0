"""Marginal means: what the model of the design expects at a grid of levels, and contrasts between them.

The grid has a row for every combination of levels of the named factors, at given levels if some are; all
other factors are averaged over with equal weights, as if the design were balanced (emmeans in R). Means and
contrasts come from the case model: main effects, interactions of two, and all interactions of the grid's own
factors. Where the table is full they are the plain means and paired differences of the trials.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, product
from typing import Any

import numpy as np

from peira.analysis.compare.comparison import DifferenceBounds, doubt_of, named_level
from peira.analysis.compare.difference import ORDER, Difference, Differences
from peira.analysis.compare.family import ADJUST, stepwise, with_joint_p
from peira.analysis.compare.sides import Contexts, Side, side
from peira.analysis.effects.cell_means import GridCell, cell_mean
from peira.analysis.effects.linear_contrast import linear_contrast
from peira.analysis.effects.regression import CaseMeans, CaseModel, CodedFactor, Fit, table_of
from peira.analysis.table.groups import check_names, key_of, label_of
from peira.analysis.table.measures import Measured, Observation, measure
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Invalid, Unknown
from peira.results.trials import TrialResult
from peira.stats.inputs import Floats, sizes
from peira.stats.tests.multiplicity import LargestT, family_level, joint_t
from peira.stats.values import Estimate, TestResult, remark_of, within

JOINT = ("dunnett", "tukey")
"""Corrections by the largest t of all contrasts, with their correlation."""
CORRECTIONS = (*ADJUST, *JOINT)
"""The corrections of the contrasts of a grid."""


@dataclass(frozen=True)
class GridMean:
    """The mean at one row of the grid; `levels` are those of the grid's factors."""

    levels: tuple[str, ...]
    estimate: Estimate


@dataclass(frozen=True)
class GridContrast:
    """A difference of rows of the grid, first minus second (or a difference of differences).

    `within` are the levels of the factors that are held equal. `p` is the p-value of the single test,
    `adjusted` the one adjusted for the family, `bounds` the range over all values of lost trials.
    """

    label: str
    within: str
    difference: Estimate
    p: float | None
    adjusted: float | None
    test: str
    bounds: DifferenceBounds | None = None
    named: str = ""
    """The label and what is held equal, with the names of the factors, as sentences have it."""
    tailed: float | None = None
    """The adjusted p-value if few units hide a long tail; None if they could not."""

    def hides_tail(self, alpha: float) -> bool:
        """Whether the contrast is clear only if few units do not hide a long tail."""
        clear = self.adjusted is not None and self.adjusted <= alpha
        return clear and self.tailed is not None and self.tailed > alpha

    @property
    def overturnable(self) -> bool:
        """Whether lost trials could reverse the difference or make it unclear; False without any."""
        if self.bounds is None:
            return False
        least, most = self.bounds.lowest, self.bounds.highest
        if self.difference.mean > 0:
            return least is None or least <= 0
        return most is None or most >= 0


@dataclass(frozen=True)
class MarginalMeans(ResultValue):
    """Means over a grid of levels on one score, and contrasts between them as one family."""

    by: tuple[str, ...]
    score: str
    level: float
    correction: str
    means: tuple[GridMean, ...] = ()
    contrasts: tuple[GridContrast, ...] = ()
    units: int = 0
    notes: tuple[str, ...] = ()

    @property
    def alpha(self) -> float:
        """The significance level, 1 - level."""
        return round(1 - self.level, 12)

    @property
    def sentence(self) -> str:
        """One sentence for each contrast; if lost trials could overturn it, that comes first."""
        if not self.means:
            return "No trial has a score: nothing can be said."
        return "\n".join(map(self._said, self.contrasts)) or "There is one row: nothing to compare."

    def _said(self, one: GridContrast) -> str:
        """The sentence about one contrast."""
        shown = layout.interval(one.difference.mean, one.difference.low, one.difference.high)
        what = one.named or one.label
        p = layout.probability(one.adjusted)
        p = f"p {p}" if p[0] in "<>" else f"p = {p}"
        if one.adjusted is None:
            return f"Nothing can be said about {what} with confidence: {shown}."
        if one.adjusted > self.alpha:
            return f"{what} is not clear: {shown}, {p}."
        lost = 0
        if one.bounds is not None and one.overturnable:
            lost = one.bounds.lost
        doubt = doubt_of(lost, counted(self.units, "unit") if one.hides_tail(self.alpha) else "")
        return f"{doubt}{what} changes {self.score} by {shown}, {p}."

    def grids(self) -> list[TextGrid]:
        """The means, then the contrasts."""
        interval = f"[{100 * self.level:g}% interval]"
        means = [
            [*one.levels, layout.interval(*_ends(one.estimate)) + remark_of(one.estimate.method)]
            for one in self.means
        ]
        found = [TextGrid([*self.by, f"mean {self.score} {interval}"], means)] if means else []
        if self.contrasts:
            rows = [
                [
                    one.label,
                    *([one.within] if self.has_within else []),
                    layout.interval(*_ends(one.difference)) + remark_of(one.difference.method),
                    layout.probability(one.adjusted),
                ]
                for one in self.contrasts
            ]
            header = ["contrast", *(["with"] if self.has_within else []), f"difference {interval}"]
            found.append(TextGrid([*header, f"p ({self.correction})" if self.correction else "p"], rows))
        return found

    @property
    def has_within(self) -> bool:
        """Whether contrasts are within levels of other factors."""
        return any(one.within for one in self.contrasts)

    def document(self) -> dict[str, Any]:
        """The fields, the sentence, and for each contrast whether lost trials could overturn it."""
        document = super().document()
        for shown, one in zip(document["contrasts"], self.contrasts, strict=True):
            shown |= {"overturnable": one.overturnable, "hides_tail": one.hides_tail(self.alpha)}
        return document


def _ends(found: Estimate) -> tuple[float, float | None, float | None]:
    return found.mean, found.low, found.high


At = Mapping[str, Json | Sequence[Json]]
"""The levels at which factors are held, by name."""


@dataclass(frozen=True)
class GridQuery:
    """What is asked of a grid: its factors, the levels at which factors are held, and its contrasts.

    `within` names factors whose levels are held equal in contrasts. With a `baseline`, a level of the first
    factor that is not in `within`, rows are compared with it; else every two. `interaction` contrasts are
    differences of differences between the factors.
    """

    by: tuple[str, ...]
    at: At
    within: tuple[str, ...] = ()
    baseline: Json = None
    interaction: bool = False
    correction: str | None = "holm"
    level: float = 0.95

    def problems(self) -> Iterator[str]:
        """What is wrong with it, whatever the trials are."""
        if not 0 < self.level < 1:
            yield f"level: must lie between 0 and 1, not {self.level!r}"
        if not self.by:
            yield "name at least one factor"
        if self.correction is not None and self.correction not in CORRECTIONS:
            yield f"correction: there is no {self.correction!r}{nearest(self.correction, CORRECTIONS)}"
        yield from (f"within: {name} is not among the factors" for name in self.within if name not in self.by)
        free = [name for name in self.by if name not in self.within]
        if self.by and not free:
            yield "within: no factor is left to compare"
        if self.interaction and len(free) < 2:
            yield "interaction: needs two factors to compare"
        if self.interaction and self.baseline is not None:
            yield "interaction: leave out the baseline"


def marginal_means(
    trials: Iterable[TrialResult], query: GridQuery, score: str | None = None, notes: Sequence[str] = ()
) -> MarginalMeans:
    """The means over a grid of levels, and the contrasts between its rows.

    Raises Invalid for a query that makes no sense, and Unknown for unknown factors and levels.
    """
    if problems := list(query.problems()):
        raise Invalid(problems)
    measured = measure(trials, score)
    differences = Differences(measured)
    check_names([*query.by, *query.at], differences.names, ())
    remarks = measured.remarks("means")
    correction = query.correction or ""
    if not len(differences.table.values):
        return MarginalMeans(query.by, measured.name, query.level, correction, notes=(*remarks, *notes))
    grid = _Grid(differences, query)
    return MarginalMeans(
        query.by,
        measured.name,
        query.level,
        correction if len(grid.contrasts) > 1 else "",
        tuple(
            GridMean(levels, cell_mean(grid.fit, cell, query.level, measured.ends))
            for levels, cell in grid.cells
        ),
        tuple(grid.tested()),
        grid.fit.table.groups,
        tuple(dict.fromkeys((*grid.notes(), *remarks, *notes))),
    )


IN_MODEL = "t, in the model of the design"
"""The method name of contrasts in the linear model."""
Weights = tuple[tuple[int, float], ...]
"""Rows of the grid with their weights in a contrast."""


@dataclass(frozen=True, eq=False)
class _Contrast:
    """A contrast to estimate: its label, what is held equal, and the weights of rows."""

    label: str
    within: str
    weights: Weights
    named: str = ""


def _spoken(factors: Sequence[str], levels: Sequence[str]) -> str:
    """Levels as sentences have them: one that is a number, and several, with the names of their factors."""
    if len(factors) == 1:
        return named_level(factors[0], levels[0])
    return ", ".join(f"{layout.cell(name)}={level}" for name, level in zip(factors, levels, strict=True))


@dataclass(frozen=True, eq=False)
class _Grid:
    """The rows and contrasts of a query on one measure."""

    differences: Differences
    query: GridQuery

    @cached_property
    def model(self) -> CaseModel:
        """The case model, with all interactions of the factors that are held."""
        return self._model(self.differences.table)

    def _model(self, table: CaseMeans) -> CaseModel:
        names = self.differences.names
        held = [name for name in names if name in {*self.query.by, *self.query.at}]
        several = [group for k in range(ORDER + 1, len(held) + 1) for group in combinations(held, k)]
        varying = {factor.name for factor in CaseModel(table, names, 1).factors}
        return CaseModel(table, names, ORDER, [group for group in several if varying >= set(group)])

    @cached_property
    def fit(self) -> Fit:
        """The fit: within cases if all held factors vary within cases."""
        return self._fit(self.model)

    def _fit(self, model: CaseModel) -> Fit:
        held = [one.name for one in model.factors if one.name in {*self.query.by, *self.query.at}]
        return model.fitted(all(name in model.within for name in held))

    @cached_property
    def cells(self) -> list[tuple[tuple[str, ...], GridCell]]:
        """The rows: the levels of the grid's factors, and the cell."""
        return self._cells(self.model)

    def _cells(self, model: CaseModel) -> list[tuple[tuple[str, ...], GridCell]]:
        factors = {factor.name: factor for factor in model.factors}
        fixed = [
            (factors[name], _codes(factors[name], levels))
            for name, levels in self.query.at.items()
            if name in factors and name not in self.query.by
        ]
        choices = []
        for name in self.query.by:
            if name not in factors:
                raise Invalid(f"{name} does not vary: there is nothing to compare")
            given = self.query.at.get(name)
            every = tuple(range(len(factors[name].levels)))
            choices.append(
                [
                    (factors[name], code)
                    for code in (_codes(factors[name], given) if given is not None else every)
                ]
            )
        found = []
        for row in product(*choices):
            levels = tuple(factor.levels[code] for factor, code in row)
            held = (*((factor, (code,)) for factor, code in row), *fixed)
            found.append((levels, GridCell(held, ", ".join(levels))))
        return found

    @cached_property
    def contrasts(self) -> list[_Contrast]:
        """The contrasts between rows."""
        by, within = self.query.by, self.query.within
        groups: dict[tuple[str, ...], list[int]] = {}
        for row, (levels, _) in enumerate(self.cells):
            groups.setdefault(
                tuple(x for x, name in zip(levels, by, strict=True) if name in within), []
            ).append(row)
        found = [one for key, rows in groups.items() for one in self._between(", ".join(key), rows)]
        held = {", ".join(key): _spoken([name for name in by if name in within], key) for key in groups}
        return [
            replace(one, named=f"{one.named or one.label} with {held[one.within]}") if within else one
            for one in found
        ]

    def _between(self, within: str, rows: Sequence[int]) -> Iterator[_Contrast]:
        """The contrasts between rows with the same levels of the factors in `within`."""
        labels = {row: self._free(row) for row in rows}
        if self.query.interaction:
            yield from self._interactions(within, rows)
            return
        pairs = [(later, earlier) for earlier, later in combinations(rows, 2)]
        if self.query.baseline is not None:
            wanted = layout.cell(self.query.baseline)
            first = next(name for name in self.query.by if name not in self.query.within)
            levels = dict.fromkeys(labels[row][0] for row in rows)
            if wanted not in levels:
                raise Unknown(f"no level {wanted!r} of {first}{nearest(wanted, levels)}")
            pairs = [
                (row, base)
                for row in rows
                for base in rows
                if labels[base][0] == wanted != labels[row][0] and labels[base][1:] == labels[row][1:]
            ]
        for one, two in pairs:
            label = f"{', '.join(labels[one])} - {', '.join(labels[two])}"
            named = f"{self._named(labels[one])} - {self._named(labels[two])}"
            yield _Contrast(label, within, ((one, 1.0), (two, -1.0)), named)

    def _named(self, levels: Sequence[str]) -> str:
        """Levels of the factors that are not in `within`, with the names of these."""
        free = [name for name in self.query.by if name not in self.query.within]
        named = _spoken(free, levels)
        return named if len(free) == 1 else f"({named})"

    def _free(self, row: int) -> tuple[str, ...]:
        """The levels of a row, without those of the factors in `within`."""
        levels, within = self.cells[row][0], self.query.within
        return tuple(x for x, name in zip(levels, self.query.by, strict=True) if name not in within)

    def _interactions(self, within: str, rows: Sequence[int]) -> Iterator[_Contrast]:
        """Differences of differences: a pair of levels of every factor."""
        places = {self._free(row): row for row in rows}
        each = [list(dict.fromkeys(levels)) for levels in zip(*places, strict=True)]
        for chosen in product(*(combinations(levels, 2) for levels in each)):
            label = " x ".join(f"({later} - {earlier})" for earlier, later in chosen)
            weights = tuple(
                (
                    places[cell],
                    math.prod(1.0 if x == pair[1] else -1.0 for x, pair in zip(cell, chosen, strict=True)),
                )
                for cell in product(*chosen)
            )
            yield _Contrast(label, within, weights)

    def tested(self) -> list[GridContrast]:
        """The contrasts with intervals, tests and bounds, adjusted as one family."""
        query, wanted = self.query, self.contrasts
        if len(wanted) < 2 or query.correction is None:
            return [self._tested(one, query.level) for one in wanted]
        joint = None if query.correction in ADJUST else self._joint()
        level = query.level if joint is None else joint.own_level(query.level)
        if query.correction in ("holm", "bonferroni"):
            level = family_level(query.level, len(wanted))
        found = [self._tested(one, level) for one in wanted]
        if joint is not None:
            return [with_joint_p(one, joint, query.correction) for one in found]
        return stepwise(found, query.correction)

    def _joint(self) -> LargestT:
        """The joint distribution of the contrasts; those without an error are allowed for."""
        fit = self.fit
        weights = [self._weights(fit, self.cells, one) for one in self.contrasts]
        spreads = [fit.spread(slice(0, len(w)), w) for w in weights]
        if fit.influence is None:
            return joint_t(np.zeros((0, 0)), [], len(weights))
        known = [(w, spread.df) for w, spread in zip(weights, spreads, strict=True) if spread is not None]
        moved = np.array([fit.influence @ w for w, _ in known]).T
        return joint_t(moved, [df for _, df in known], len(weights) - len(known))

    def _reach(self, one: _Contrast) -> float | None:
        """The largest possible value of a contrast; None if scores have no limits."""
        reach = self.differences.reach
        return None if reach is None else reach * sum(weight for _, weight in one.weights if weight > 0)

    def _tested(self, one: _Contrast, level: float) -> GridContrast:
        """One contrast, with its bounds over the lost trials."""
        direct = self._direct(one)
        if direct is not None:
            shown, tested, tailed = direct.estimate(level), direct.evidence(), direct.tailed()
            bounds = self._direct_bounds(direct, level)
        else:
            shown, tested, tailed = self._in_model(self.fit, self.cells, one, level)
            bounds = self._bounds(one, level)
        p, method = tested.p, tested.method
        return GridContrast(one.label, one.within, shown, p, p, method, bounds, one.named, tailed)

    def _in_model(
        self, fit: Fit, cells: Sequence[tuple[tuple[str, ...], GridCell]], one: _Contrast, level: float
    ) -> tuple[Estimate, TestResult, float | None]:
        """The estimate and test of a contrast in the model, and its p-value if few units hide a tail."""
        n = int(sum(np.count_nonzero(cells[row][1].rows(fit.table)) for row, _ in one.weights))
        weights = self._weights(fit, cells, one)
        found = linear_contrast(fit, slice(0, len(weights)), weights, self.differences.measured.ends)
        shown = within(found.estimate(level, n, IN_MODEL), self._reach(one))
        return shown, found.test(n, IN_MODEL), found.tailed

    def _weights(self, fit: Fit, cells: Sequence[tuple[tuple[str, ...], GridCell]], one: _Contrast) -> Floats:
        """The weights of the coefficients in a contrast."""
        found = np.zeros(len(fit.beta))
        for row, weight in one.weights:
            found += weight * cells[row][1].weights(fit)
        return found

    def _direct(self, one: _Contrast) -> Difference | None:
        """The difference of two rows by the estimator of comparisons, if that answers the same question.

        Of one factor without given levels always; else if the sides are the same cases under the same other
        conditions, all of them with scores.
        """
        if self.query.interaction:
            return None
        first, second = (self._side(row) for row, _ in one.weights)
        if not first.scored or not second.scored:
            return None
        if len(self.query.by) == 1 and not self.query.at:
            return self.differences.between(first, second, self.query.by[0])
        if not self.fit.paired or not self._is_full:
            return None
        found = self.differences.between(first, second)
        return found if found.model == "pairs" and found.found.matched else None

    @cached_property
    def _is_full(self) -> bool:
        """Whether every case has a value under every combination of the levels."""
        every = math.prod(len(factor.levels) for factor in self.fit.factors)
        return len(self.fit.table.values) == len(sizes(self.fit.table.cases)) * every

    def _side(self, row: int) -> Side:
        """The observations at the levels of one row of the grid."""
        _, cell = self.cells[row]
        return side(
            cell.label,
            [one for one in self.differences.measured.observations if self._is_in(one, cell)],
            self.query.by,
        )

    def _is_in(self, one: Observation, cell: GridCell) -> bool:
        """Whether an observation is at the levels of a cell."""
        return all(
            self._keys[factor.name].get(key_of(label_of(one.trial, factor.name))) in codes
            for factor, codes in cell.held
        )

    @cached_property
    def _keys(self) -> dict[str, dict[str | bytes, int]]:
        """The codes of all levels, by factor and by the key of a level."""
        trials = self.fit.table.trials
        return {
            factor.name: {
                key_of(label_of(trial, factor.name)): int(code)
                for trial, code in zip(trials, factor.codes, strict=True)
            }
            for factor in self.fit.factors
        }

    # Lost trials

    def _direct_bounds(self, found: Difference, level: float) -> DifferenceBounds | None:
        """The range of a difference by the estimator of comparisons."""
        ends, lost = self.differences.measured.ends, found.found.one.lost + found.found.two.lost
        if not lost or ends is None:
            return DifferenceBounds(None, None, None, None, lost) if lost else None
        low, high = (found.filled(each, level) for each in (ends, ends[::-1]))
        return DifferenceBounds(low.mean, high.mean, low.low, high.high, lost)

    def _bounds(self, one: _Contrast, level: float) -> DifferenceBounds | None:
        """The range of a contrast in the model, with every lost value at the end that moves it furthest."""
        ends = self.differences.measured.ends
        lost = self.differences.measured.lost
        if not lost or ends is None:
            return DifferenceBounds(None, None, None, None, lost) if lost else None
        middle = (ends[0] + ends[1]) / 2
        table = table_of(_imputed(self.differences.measured, lambda _: middle))
        fit, cells = self._refit(table)
        root, context = fit.leverage.root, Contexts()
        influence = fit.kept.matrix @ (root @ (root @ self._weights(fit, cells, one)))
        rises = {
            (trial.case_id, context.of(trial)): bool(weight > 0)
            for trial, weight in zip(fit.table.trials, influence, strict=True)
        }

        def extreme(up: bool) -> Estimate:
            def value(trial: TrialResult) -> float:
                return ends[1 if rises[trial.case_id, context.of(trial)] == up else 0]

            there, cells = self._refit(table_of(_imputed(self.differences.measured, value)))
            return self._in_model(there, cells, one, level)[0]

        low, high = extreme(False), extreme(True)
        return DifferenceBounds(low.mean, high.mean, low.low, high.high, lost)

    def _refit(self, table: CaseMeans) -> tuple[Fit, list[tuple[tuple[str, ...], GridCell]]]:
        """The fit of another table, and the cells of this grid in it (levels may be in another order)."""
        model = self._model(table)
        known = {levels: (levels, cell) for levels, cell in self._cells(model)}
        return self._fit(model), [known[levels] for levels, _ in self.cells]

    def notes(self) -> Iterator[str]:
        """How the fit was made, and which interactions are not in it."""
        if not self.fit.paired:
            yield "Not every factor varies within cases: cases are not their own controls."
        yield from self.fit.kept.aliased
        if len(self.contrasts) > 1 and self.query.correction in ("holm", "bonferroni"):
            yield f"p-values by {self.query.correction}; intervals hold together (Bonferroni)"


def _codes(factor: CodedFactor, given: Json | Sequence[Json]) -> tuple[int, ...]:
    """The codes of the given levels, as values or as shown; raises Unknown for any other."""
    wanted = given if isinstance(given, (list, tuple)) else [given]
    found = []
    for one in wanted:
        label = layout.cell(one)
        if label not in factor.levels:
            raise Unknown(f"no level {label!r} of {factor.name}{nearest(label, factor.levels)}")
        found.append(factor.levels.index(label))
    return tuple(sorted(set(found)))


def _imputed(measured: Measured, value: Callable[[TrialResult], float]) -> Measured:
    """The measure with lost values imputed."""
    seen = tuple(
        one if one.value is not None else Observation(one.trial, value(one.trial))
        for one in measured.observations
    )
    return replace(measured, observations=seen)
