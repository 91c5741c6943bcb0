"""Decision analysis: what is it worth to run so many more cases before choosing a level?

The choice is between the levels of a factor, and today the one with the best mean is taken. More cases may
change that. From the posterior of the differences given the cases there are (flat priors; Student's t, with
the correlation of the differences) it is forecast what so many more would say: how narrow the intervals will
be, how likely each difference will be clear, how likely another level will be chosen, and by how much the
chosen level is then expected to be better: the expected value of sample information (Raiffa and Schlaifer
1961), at most that of perfect information. All of these are forecasts, integrated over what is not known of
the means and of the spread.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from peira.analysis.compare.comparison import named_level
from peira.analysis.compare.difference import Difference, Differences
from peira.analysis.compare.sides import Side, levels_of
from peira.analysis.table.groups import Unit
from peira.analysis.table.measures import Measured, Observation, measure
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats import student
from peira.stats.inputs import Floats, coded
from peira.stats.intervals.means import unbounded
from peira.stats.power import deviation_interval
from peira.stats.values import Estimate

DRAWS = 20_000
"""The number of futures that are drawn."""


@dataclass(frozen=True)
class WorthRow:
    """The forecast for one rival of the level that leads: the leader minus the rival.

    `width` is the width of the interval now, `expected` that after more cases, and `narrowest` to `widest`
    where it will lie at the ends of the 95% interval of the spread. `clear` is the probability that the
    difference will be clear then, in either direction; `overtakes` that the rival will have the better mean.
    """

    rival: str
    difference: Estimate
    width: float
    expected: float
    narrowest: float
    widest: float
    clear: float
    overtakes: float


@dataclass(frozen=True)
class Worth(ResultValue):
    """What more cases are expected to change about the choice of a level.

    `changes` is the probability that another level is chosen after `more` cases. `gain` is the expected value
    of sample information: by how much the mean of the level that is then chosen is expected to exceed that of
    today's choice. `most` is the expected value of perfect information. `gain_low` and `gain_high` are both
    at the ends of the 95% interval of the spread. `cost` are the US dollars for the cases, `per_point` what a
    score higher by 1 is worth in US dollars, if it was given; `net` what remains of the gain's worth.
    """

    by: str
    score: str
    level: float
    leader: str
    cases: int
    more: int
    rows: tuple[WorthRow, ...] = ()
    changes: float = 0.0
    gain: float = 0.0
    gain_low: float = 0.0
    gain_high: float = 0.0
    most: float = 0.0
    cost: Estimate | None = None
    per_point: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def net(self) -> tuple[float, float, float] | None:
        """Worth of the gain minus cost: expected, and at the ends of gain and cost; None if unknown."""
        if self.per_point is None or self.cost is None:
            return None
        dear = self.cost.mean if self.cost.high is None else self.cost.high
        cheap = self.cost.mean if self.cost.low is None else max(0.0, self.cost.low)
        return (
            self.per_point * self.gain - self.cost.mean,
            self.per_point * self.gain_low - dear,
            self.per_point * self.gain_high - cheap,
        )

    @property
    def sentence(self) -> str:
        """What the cases would change, what that is worth, and what they cost."""
        if not self.rows:
            return "Nothing can be forecast: there is no difference with a known spread."
        more, choice = counted(self.more, "more case"), named_level(self.by, self.leader)
        lines = [
            f"{more} change the choice of {choice} with a chance of {layout.probability(self.changes)}, "
            f"and the score of what is chosen by {_number(self.gain)} on average "
            f"({_number(self.gain_low)} to {_number(self.gain_high)}); "
            f"knowing everything would by {_number(self.most)}."
        ]
        if self.cost is not None and self.cost.mean > 0:
            ends = "" if self.cost.low is None or self.cost.high is None else (
                f" [{_number(max(0.0, self.cost.low))}, {_number(self.cost.high)}]"
            )  # fmt: skip
            each = f", {_number(self.cost.mean / self.gain)} for a score higher by 1" if self.gain > 0 else ""
            lines.append(f"They cost about ${_number(self.cost.mean)}{ends}{each}.")
        if (net := self.net) is not None:
            verdict = (
                "They pay."
                if net[1] > 0
                else "They do not pay."
                if net[2] < 0
                else "Whether they pay is open."
            )
            lines.append(
                f"At ${self.per_point:g} for a score higher by 1 they are worth ${_number(net[0])} more than "
                f"they cost (${_number(net[1])} to ${_number(net[2])}). {verdict}"
            )
        return "\n".join(lines)

    def grids(self) -> list[TextGrid]:
        """One row per rival of the leader."""
        header = [
            "difference",
            f"now [{100 * self.level:g}% interval]",
            "width now",
            "width then (range)",
            "P(clear then)",
            "P(overtakes)",
        ]
        rows = [
            [
                f"{self.leader} - {row.rival}",
                layout.interval(row.difference.mean, row.difference.low, row.difference.high),
                _number(row.width),
                f"{_number(row.expected)} ({_number(row.narrowest)} to {_number(row.widest)})",
                layout.probability(row.clear),
                layout.probability(row.overtakes),
            ]
            for row in self.rows
        ]
        return [TextGrid(header, rows)] if rows else []

    @property
    def remarks(self) -> list[str]:
        """What kind of numbers these are."""
        how = f"forecasts from {counted(self.cases, 'case')}; more cases like them, on every level"
        return [how, *self.notes] if self.rows else list(self.notes)


def _number(value: float) -> str:
    """A number with three digits."""
    return f"{value:.3g}"


@dataclass(frozen=True)
class WorthQuery:
    """What is asked: how many more cases, whether less is better, and what a score higher by 1 is worth."""

    more: int
    lowest: bool = False
    per_point: float | None = None
    level: float = 0.95

    def __post_init__(self) -> None:
        problems = []
        if self.more < 1:
            problems.append(f"more: must be at least 1, not {self.more}")
        if self.per_point is not None and not self.per_point > 0:
            problems.append(f"per_point: must be above 0, not {self.per_point:g}")
        if not 0 < self.level < 1:
            problems.append(f"level: must lie between 0 and 1, not {self.level!r}")
        if problems:
            raise Invalid(problems)


def worth(
    trials: Iterable[TrialResult],
    by: str,
    query: WorthQuery,
    score: str | None = None,
    notes: Sequence[str] = (),
    seed: int = 0,
) -> Worth:
    """What so many more cases are worth for the choice among the levels of `by`.

    Raises Invalid with fewer than two levels, and Unknown for unknown names.
    """
    measured = measure(trials, score)
    sides = [one for one in levels_of(measured, by).sides.values() if one.scored]
    if len(sides) < 2:
        raise Invalid(f"there is nothing to choose: fewer than two levels of {by} have a score")
    sign, differences = -1.0 if query.lowest else 1.0, Differences(measured)
    leader = _leader(differences, sides, by, sign)
    found = [(one, differences.between(leader, one, by)) for one in sides if one is not leader]
    known = [
        (one, gap) for one, gap in found if gap.known and gap.spread is not None and gap.model != "groups"
    ]
    remarks = (*measured.remarks("forecast"), *notes)
    units = min((gap.units for _, gap in known), default=0)
    base = Worth(by, measured.name, query.level, leader.label, units, query.more, notes=remarks)
    if not known:
        return base
    return _forecast(base, known, query, sign, _cost(measured, query), seed)


def _leader(differences: Differences, sides: Sequence[Side], by: str, sign: float) -> Side:
    """The level that is best by its differences to all others."""
    best = sides[0]
    for one in sides[1:]:
        gap = differences.between(one, best, by)
        if gap.known and sign * gap.estimate(0.95).mean > 0:
            best = one
    return best


def _forecast(
    base: Worth,
    known: Sequence[tuple[Side, Difference]],
    query: WorthQuery,
    sign: float,
    cost: Estimate | None,
    seed: int,
) -> Worth:
    """The forecast, from draws of the true differences and of what more cases will show of them."""
    gaps = np.array([sign * gap.estimate(query.level).mean for _, gap in known])
    spreads = [gap.spread for _, gap in known]
    errors = np.array([one.error for one in spreads if one is not None])
    df = min(one.df for one in spreads if one is not None)
    n, m = base.cases, query.more
    root = _root([gap for _, gap in known])
    rng = np.random.default_rng(seed)
    scale = np.sqrt(df / rng.chisquare(df, DRAWS))[:, None]
    share = (m / (n + m)) ** 0.5
    moved = (rng.standard_normal((DRAWS, len(gaps))) @ root.T) * errors * scale
    then = gaps + share * moved
    reach = student.quantile(df + m, (1 + query.level) / 2) * errors * (n / (n + m)) ** 0.5 * scale
    clear = (np.abs(then) > reach).mean(axis=0)
    rows = tuple(
        _row(side, gap, n, m, query.level, float(p), float((future < 0).mean()))
        for (side, gap), p, future in zip(known, clear, then.T, strict=True)
    )
    low, high = deviation_interval(1.0, df)
    drawn = rng.standard_normal((DRAWS, len(gaps))) @ root.T * errors
    ends = [_gain(gaps + share * drawn * end) for end in (low, high)]
    return Worth(
        base.by,
        base.score,
        base.level,
        base.leader,
        n,
        m,
        rows,
        changes=float((then < 0).any(axis=1).mean()),
        gain=_gain(then),
        gain_low=min(ends),
        gain_high=max(ends),
        most=_gain(gaps + moved),
        cost=cost,
        per_point=query.per_point,
        notes=base.notes,
    )


def _gain(then: Floats) -> float:
    """By how much the best exceeds the leader, on average, given the leader's differences to the others."""
    return float(np.maximum(0.0, (-then).max(axis=1)).mean())


def _row(
    side: Side, gap: Difference, n: int, m: int, level: float, clear: float, overtakes: float
) -> WorthRow:
    """The forecast of one difference."""
    spread = gap.spread
    assert spread is not None
    now = 2 * student.quantile(spread.df, (1 + level) / 2) * spread.error
    then = 2 * student.quantile(spread.df + m, (1 + level) / 2) * spread.error * (n / (n + m)) ** 0.5
    low, high = deviation_interval(1.0, spread.df)
    return WorthRow(side.label, gap.estimate(level), now, then, then * low, then * high, clear, overtakes)


def _root(gaps: Sequence[Difference]) -> Floats:
    """A root of the correlation of the differences of the leader to its rivals.

    From the units that all of them have; where there are too few, 0.5, as if all levels varied alike.
    """
    k = len(gaps)
    if k == 1:
        return np.eye(1)
    by_unit = [_unit_differences(gap) for gap in gaps]
    common = set.intersection(*(set(each) for each in by_unit))
    correlation = np.full((k, k), 0.5) + 0.5 * np.eye(k)
    if len(common) > k + 1:
        table = np.array([[each[unit] for unit in sorted(common)] for each in by_unit])
        if bool((table.std(axis=1) > 0).all()):
            correlation = np.corrcoef(table)
    values, vectors = np.linalg.eigh(correlation)
    found: Floats = vectors * np.sqrt(np.maximum(values, 0))
    return found


def _unit_differences(gap: Difference) -> dict[Unit, float]:
    """The mean difference of each unit that has both sides."""
    found: dict[Unit, list[float]] = {}
    for key in gap.found.pairs:
        one, two = gap.found.one.cells[key], gap.found.two.cells[key]
        found.setdefault(one.unit, []).append(one.mean - two.mean)
    return {unit: sum(each) / len(each) for unit, each in found.items()}


def _cost(measured: Measured, query: WorthQuery) -> Estimate | None:
    """What so many more cases cost on all levels, by what these cost; None if that is not known."""
    seen: Sequence[Observation] = measured.observations
    costs: dict[Unit, float] = {}
    for one in seen:
        if one.trial.cost is None:
            return None
        costs[one.trial.unit] = costs.get(one.trial.unit, 0.0) + one.trial.cost
    values = np.array(list(costs.values()))
    if values.size < 2:
        return None
    each = unbounded(values, *coded(None, values.size), query.level)
    low, high = (None if end is None else end * query.more for end in (each.low, each.high))
    return Estimate(each.mean * query.more, low, high, each.n, each.method)
