"""Variance components of a score, and whether more cases or more repeats reduce the error more."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod

import numpy as np

from peira.analysis.compare.sides import Contexts
from peira.analysis.effects.regression import factors_of, names_of
from peira.analysis.table.groups import Unit
from peira.analysis.table.measures import Measured
from peira.core.text.result_value import ResultValue, TextGrid
from peira.results.trials import TrialResult
from peira.stats import student
from peira.stats.inputs import Codes, Floats, coded, sizes, totals
from peira.stats.models.variance_components import components, crossed


@dataclass(frozen=True)
class Variance(ResultValue):
    """Variance components by source; None where they cannot be estimated.

    Without repeats, `repeat` is part of `interaction`. `cases` and `repeats` are the shares by which
    intervals narrow if their number is doubled. `factors` decomposes `condition` into main effects and
    interactions, for full factorial conditions. `intervals` are approximate 95% intervals of the shares, by
    source, and `repeats_interval` is that of `repeats`: from units of evidence drawn with replacement. Both
    are empty with fewer than `FEWEST` units. A share that is the same whichever units are drawn has none:
    that nothing was seen of a source does not say that there is nothing.
    """

    condition: float | None
    case: float | None
    interaction: float | None
    repeat: float | None
    cases: float
    repeats: float | None
    factors: tuple[tuple[str, float], ...] = ()
    intervals: tuple[tuple[str, float, float], ...] = ()
    repeats_interval: tuple[float, float] | None = None

    @property
    def shares(self) -> dict[str, float]:
        """The share of each source in the total variance."""
        names: dict[str, float | None] = {**(dict(self.factors) or {"condition": self.condition})}
        names |= {"case": self.case, "repeat": self.repeat}
        together = "case x condition" if self.repeat is not None else "case x condition and repeat"
        known = {name: v for name, v in {**names, together: self.interaction}.items() if v is not None}
        whole = sum(known.values())
        return {name: v / whole for name, v in known.items()} if whole and len(known) > 1 else {}

    @property
    def sources(self) -> str:
        """The shares as text, largest first; empty if unknown."""
        found, known = self._largest(), self._intervals
        if not found:
            return ""
        parts = ", ".join(f"{name} {share:.0%}{known.get(name, '')}" for name, share in found)
        return f"variance, estimated ({self._how}): {parts}"

    @property
    def _how(self) -> str:
        """How intervals were made, or why there are none."""
        if self.intervals:
            return "with approximate 95% intervals"
        if max(self.shares.values()) > 1 - 1e-9:
            return "no intervals: one source has all of it"
        return f"too few cases for intervals: under {FEWEST}"

    @property
    def _intervals(self) -> dict[str, str]:
        """The intervals of the shares, as text; empty if there are none."""
        known = {name: f" [{low:.0%}, {high:.0%}]" for name, low, high in self.intervals}
        return {name: known.get(name, " [unknown]") for name in self.shares} if known else {}

    def _largest(self) -> list[tuple[str, float]]:
        """The sources and their shares, largest first."""
        return sorted(self.shares.items(), key=lambda one: -one[1])

    def grids(self) -> list[TextGrid]:
        """The shares of the sources."""
        known = self._intervals
        rows = [[name, f"{share:.0%}{known.get(name, '')}"] for name, share in self._largest()]
        title = "share of the variance (estimate" + (", approximate 95% interval)" if known else ")")
        return [TextGrid(["source", title], rows)] if rows else []

    @property
    def sentence(self) -> str:
        """How much twice the cases, or twice the repeats, would narrow intervals."""
        if self.repeats is None and self.repeat is not None:
            return "The repeats of a case agree with each other: more of them would tell nothing new."
        if self.repeats is None:
            return "Nothing is repeated: how much repeats differ, and whether more would help, is not known."
        better = "more cases buy more" if self.cases - self.repeats > 0.03 else "either buys as much"
        ends = self.repeats_interval
        span = "" if ends is None else f" ({ends[0]:.0%} to {ends[1]:.0%})"
        return (
            f"Twice the cases narrow intervals by {self.cases:.0%}, "
            f"twice the repeats by an estimated {self.repeats:.0%}{span}: {better}."
        )


@dataclass(frozen=True, eq=False)
class _Rows:
    """Values with the codes of their case and condition; a trial of each condition, the unit of each case."""

    values: Floats
    cases: Codes
    conditions: Codes
    trials: Sequence[TrialResult]
    units: Sequence[Unit]

    @classmethod
    def of(cls, measured: Measured) -> _Rows:
        """The known values of a measure."""
        context, quick = Contexts(), dict[tuple[int, str], int]()
        by_condition, by_case = dict[bytes, int](), dict[str, int]()
        trials, units, rows = list[TrialResult](), list[Unit](), list[tuple[float, int, int]]()
        for one in measured.observations:
            if one.value is None:
                continue
            trial = one.trial
            # Trials share their conditions: a condition is read once.
            place = (id(trial.condition), trial.agent)
            condition = quick.get(place)
            if condition is None:
                condition = quick[place] = by_condition.setdefault(context.of(trial), len(by_condition))
                if condition == len(trials):
                    trials.append(trial)
            case = by_case.setdefault(trial.case_id, len(by_case))
            if case == len(units):
                units.append(trial.unit)
            rows.append((one.value, case, condition))
        table = np.array(rows, dtype=np.float64).reshape(-1, 3)
        return cls(table[:, 0], table[:, 1].astype(np.intp), table[:, 2].astype(np.intp), trials, units)

    def full(self) -> _Rows:
        """Those of the cases with a balanced set of all conditions."""
        n, k = len(self.units), len(self.trials)
        counts = np.bincount(self.cases * max(1, k) + self.conditions, minlength=n * k).reshape(n, k)
        whole = (counts == counts.max(initial=0)).all(axis=1)
        kept, codes = whole[self.cases], np.cumsum(whole) - 1
        units = [unit for unit, held in zip(self.units, whole, strict=True) if held]
        return _Rows(self.values[kept], codes[self.cases[kept]], self.conditions[kept], self.trials, units)


TWICE = 1 - 2**-0.5
"""The share by which an interval narrows with twice the cases."""


def variance(measured: Measured) -> Variance | None:
    """The variance components, from the cases with a balanced set of all conditions.

    With fewer than two such cases only the variance of repeats is separated from the rest. None if there is
    too little data for either.
    """
    known = _Rows.of(measured)
    full = known.full()
    found = crossed(full.values, full.cases, full.conditions) if len(full.values) else None
    if found is not None:
        repeats = len(full.values) / (len(full.units) * len(full.trials))
        parts = (found.condition, found.case, found.interaction, found.repeat)
        factors = _factors(full, found.condition or 0.0)
        made = Variance(*parts, TWICE, _gain(found.interaction, found.repeat, repeats), factors)
        return _with_intervals(made, full)
    if len(known.values) < 2:
        return None
    cells = components(known.values, known.cases * len(known.trials) + known.conditions)
    if cells.within is None or cells.between is None:
        return None
    gain = _gain(cells.between, cells.within, cells.n / cells.cases)
    return Variance(None, None, cells.between, cells.within, TWICE, gain)


FEWEST = 5
"""With fewer units of evidence there are no intervals of shares."""
DRAWS, FEWER, MANY = 1000, 200, 1000
"""The number of times that units are drawn, and that with more than `MANY` units."""


@dataclass(frozen=True, eq=False)
class _Sums:
    """What the variance components of a table depend on, for each unit: all are sums over its cases.

    Columns of `parts` are the number of cases, the sums of squares of cells and of case means, the sum of
    squares within cells, and the sums of cells under each condition.
    """

    parts: Floats
    repeats: int

    @classmethod
    def of(cls, full: _Rows) -> _Sums:
        """The sums of a table in which every case has all conditions equally often."""
        n, k = len(full.units), len(full.trials)
        repeats = len(full.values) // (n * k)
        cells = full.cases * k + full.conditions
        # Centred, so that sums of squares are not differences of large numbers.
        values = full.values - full.values.mean()
        table = (totals(cells, values) / repeats).reshape(n, k)
        within = totals(full.cases, (values - table.ravel()[cells]) ** 2)
        case = k * table.mean(axis=1) ** 2
        each = np.column_stack([np.ones(n), (table**2).sum(axis=1), case, within, table])
        codes, groups = coded(full.units, n)
        if groups == n:
            return cls(each, repeats)
        found = np.zeros((groups, each.shape[1]))
        np.add.at(found, codes, each)
        return cls(found, repeats)

    def drawn(self, rng: np.random.Generator) -> tuple[Floats, Floats]:
        """Components (condition, case, interaction, repeat) and condition means of all resamples."""
        groups, k, r = len(self.parts), self.parts.shape[1] - 4, self.repeats
        draws = DRAWS if groups <= MANY else FEWER
        times = rng.multinomial(groups, np.full(groups, 1 / groups), size=draws).astype(np.float64)
        sums = times @ self.parts
        n, means = sums[:, 0], sums[:, 4:] / sums[:, :1]
        middle = means.mean(axis=1)
        columns = n * ((means - middle[:, None]) ** 2).sum(axis=1)
        by_case = np.maximum(0.0, sums[:, 2] - n * k * middle**2)
        rest = np.maximum(0.0, sums[:, 1] - n * k * middle**2 - by_case - columns)
        cell, case = r * rest / ((n - 1) * (k - 1)), r * by_case / (n - 1)
        condition = r * columns / (k - 1)
        within = sums[:, 3] / (n * k * (r - 1)) if r > 1 else np.zeros(draws)
        parts = [
            np.maximum(0.0, (condition - cell) / (r * n)),
            np.maximum(0.0, (case - cell) / (r * k)),
            np.maximum(0.0, (cell - within) / r) if r > 1 else cell,
            within,
        ]
        return np.stack(parts, axis=1), means


def _with_intervals(made: Variance, full: _Rows) -> Variance:
    """The components with intervals of their shares, by drawing units of evidence with replacement."""
    shares = made.shares
    groups = len(set(full.units))
    if groups < FEWEST or not shares:
        return made
    sums = _Sums.of(full)
    drawn, means = sums.drawn(np.random.default_rng(0))
    with np.errstate(invalid="ignore", divide="ignore"):
        found = drawn / drawn.sum(axis=1, keepdims=True)
    named = {"condition": found[:, 0], "case": found[:, 1]}
    together = "case x condition" if made.repeat is not None else "case x condition and repeat"
    named |= {together: found[:, 2], "repeat": found[:, 3]}
    if made.factors:
        parts = _factor_parts(full.trials, means)
        named |= {name: found[:, 0] * part for name, part in parts.items()}
    ends = {name: _ends(values, groups) for name, values in named.items() if name in shares}
    gain = None
    if made.repeats is not None:
        now = drawn[:, 2] + drawn[:, 3] / sums.repeats
        then = drawn[:, 2] + drawn[:, 3] / (2 * sums.repeats)
        with np.errstate(invalid="ignore", divide="ignore"):
            gain = _ends(1 - np.sqrt(then / now), groups)
    return replace(
        made,
        intervals=tuple((name, *end) for name, end in ends.items() if end is not None),
        repeats_interval=gain,
    )


def _ends(values: Floats, groups: int) -> tuple[float, float] | None:
    """The expanded percentile interval of what was drawn (Hesterberg 2015): a bit more than the middle 95%.

    The tails are those of Student's t with the degrees of freedom of so many units. None if hardly anything
    could be computed, or nothing varied.
    """
    known = values[np.isfinite(values)]
    if known.size < values.size / 2:
        return None
    reach = student.quantile(groups - 1, 0.975) * (groups / (groups - 1)) ** 0.5
    tail = 0.5 * math.erfc(reach / 2**0.5)
    low, high = np.quantile(known, [tail, 1 - tail])
    return None if high - low <= _SAME else (float(low), float(high))


_SAME = 1e-9
"""Shares that differ by less are the same, but for rounding."""


def _factor_parts(there: Sequence[TrialResult], means: Floats) -> dict[str, Floats]:
    """The shares of factors and their interactions in the variance of condition means (a row each)."""
    factors = factors_of(there, names_of(there))
    centred = means - means.mean(axis=1, keepdims=True)
    whole = (centred**2).sum(axis=1)
    with np.errstate(invalid="ignore", divide="ignore"):
        parts = {}
        for factor in factors:
            each = sizes(factor.codes)
            groups = np.stack([centred[:, factor.codes == code].mean(axis=1) for code in range(len(each))])
            parts[factor.name] = (each @ groups**2) / whole
        together = "interactions" if len(factors) > 2 else " x ".join(parts)
        parts[together] = np.maximum(0.0, 1 - sum(parts.values()))
    return parts


def _factors(full: _Rows, condition: float) -> tuple[tuple[str, float], ...]:
    """The variance of conditions decomposed into main effects and interactions, as their means are."""
    there = full.trials
    factors = factors_of(there, names_of(there))
    if len(factors) < 2 or len(there) != prod(len(factor.levels) for factor in factors):
        return ()
    values = totals(full.conditions, full.values) / sizes(full.conditions)
    whole = float(((values - values.mean()) ** 2).sum())
    parts = {factor.name: _between(values, factor.codes) for factor in factors}
    rest = max(0.0, whole - sum(parts.values()))
    together = "interactions" if len(factors) > 2 else " x ".join(parts)
    if whole == 0:
        return ()
    return tuple((name, condition * (part / whole)) for name, part in {**parts, together: rest}.items())


def _between(values: Floats, codes: Codes) -> float:
    """The sum of squares between groups."""
    each = sizes(codes)
    return float(each @ (totals(codes, values) / each - values.mean()) ** 2)


def _gain(stays: float | None, repeat: float | None, repeats: float) -> float | None:
    """The share by which the standard error of a case's contribution falls when its repeats double."""
    if stays is None or repeat is None:
        return None
    now, then = stays + repeat / repeats, stays + repeat / (2 * repeats)
    return float(1 - (then / now) ** 0.5) if now else None
