"""What a report says about each score: means, effects, interactions, leaderboard and prices."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from peira.analysis.compare.hypotheses import Finding
from peira.analysis.effects.factor_effects import Effect, Effects
from peira.analysis.ranking.leaderboard import Leaderboard
from peira.analysis.results import Results
from peira.analysis.table.measures import TAKEN
from peira.analysis.table.value import Table, TableRow
from peira.core.log.events import State
from peira.core.text.grid import cell
from peira.errors import Invalid, Unknown
from peira.report.labels import ConditionLabels
from peira.report.value import Interaction, PlotPoint, Priced, Scored
from peira.results.aims import Aims
from peira.results.trials import TrialResult
from peira.spec.aims import Outcome
from peira.stats.intervals.means import estimate
from peira.stats.values import Estimate

# Prices

UNITS = {"cost": "US$ for a trial", "took": "seconds for a trial"}
"""The units of prices."""


def priced(
    trials: Sequence[TrialResult], board: Leaderboard, score: str, level: float
) -> tuple[tuple[Priced, ...], str]:
    """The leaderboard entries with their price, and its unit.

    In dollars if every price is known, else in seconds; empty if neither is informative.
    """
    groups = _groups(trials, board.by)
    for measure, unit in UNITS.items():
        found = {label: _price(group, measure, level) for label, group in groups.items()}
        if measure != score and all(found.values()) and any(one.mean for one in found.values() if one):
            return tuple(_entries(board, found)), unit
    return (), ""


def _groups(trials: Sequence[TrialResult], by: Sequence[str]) -> dict[str, list[TrialResult]]:
    """The trials of each leaderboard entry."""
    labels, by_label = ConditionLabels(by), dict[str, list[TrialResult]]()
    for trial in trials:
        if not trial.anchor:
            by_label.setdefault(labels.short(trial), []).append(trial)
    return by_label


def _price(group: Sequence[TrialResult], measure: str, level: float) -> Estimate | None:
    """The mean price of a group; None if some price is unknown."""
    done = [trial for trial in group if trial.state is State.succeeded]
    values = [TAKEN[measure](trial) for trial in done]
    known = [value for value in values if value is not None]
    if not known or len(known) < len(values):
        return None
    return estimate(known, [trial.unit for trial in done], level)


def _entries(board: Leaderboard, prices: dict[str, Estimate | None]) -> list[Priced]:
    """The entries that have a mean and a price."""
    found = []
    for entry in board.entries:
        price, mean = prices.get(entry.label), entry.mean
        if price is not None and mean is not None:
            quality = PlotPoint(entry.label, mean.mean, mean.low, mean.high, zero=False, method=mean.method)
            cost = PlotPoint(entry.label, price.mean, price.low, price.high, zero=False, method=price.method)
            found.append(Priced(entry.label, quality, cost, entry.on_front))
    return found


# Scores

MOST_SCORES, MOST_POINTS, MOST_INTERACTIONS, MOST_LEVELS = 8, 24, 3, 8
MOST_ENTRIES = 40
OTHER = "=(other)"


@dataclass(frozen=True)
class ScoreQuery:
    """What to report: the varying factors, the number of conditions, and the confidence level."""

    by: tuple[str, ...]
    conditions: int
    level: float


def table_of(results: Results, query: ScoreQuery) -> Table:
    """The table of all means by all varying factors; overall if there are too many conditions."""
    by = query.by if query.conditions <= MOST_ENTRIES else ()
    return results.table(*by, level=query.level, overall=not by)


def scored(
    results: Results, table: Table, found: Sequence[Finding], query: ScoreQuery, first: str | None = None
) -> tuple[Scored, ...]:
    """All scores, the primary outcome (or `first`) first and in most detail.

    At most `MOST_SCORES`. Scores whose effects cannot be computed have the reason in their notes.
    """
    aims = results.aims or Aims()
    names = list(dict.fromkeys([*([first] if first else []), *_names(aims, table)]))
    shown = [_scored(results, name, table, found, query) for name in names[:MOST_SCORES]]
    if not shown:
        return ()
    return (_with_details(results, shown[0], query), *shown[1:])


def _names(aims: Aims, table: Table) -> list[str]:
    """Declared outcomes, primary ones first, then the other scores; categories of text scores."""
    declared = sorted(aims.outcomes, key=lambda outcome: not outcome.primary)
    outcomes = [name for o in declared if (name := aims.measure_of(o.name)) is not None]
    seen = [row.score for row in table.body if row.score is not None and not row.score.endswith(OTHER)]
    known = {name.partition("=")[0] for name in seen}
    kept = [name for name in outcomes if name not in known or name in seen]
    return list(dict.fromkeys([*kept, *seen]))


def outcome_of(aims: Aims, name: str) -> Outcome | None:
    """The declared outcome with this measure; None if there is none."""
    return next((one for one in aims.outcomes if aims.measure_of(one.name) == name), None)


def _scored(results: Results, name: str, table: Table, found: Sequence[Finding], query: ScoreQuery) -> Scored:
    """One score: means, effects, sentences and plot points."""
    aims = results.aims or Aims()
    outcome = outcome_of(aims, name)
    lower = outcome.direction == "minimize" if outcome else name in TAKEN
    rows = tuple(row for row in table.body if row.score == name)
    own = Table(table.by, table.level, rows, table.notes) if rows else None
    if results.live is not None and results.live.compares:
        return _live(
            results, Scored(name, False, lower, outcome.unit if outcome else "", (), (), None, own), query
        )
    effects: Effects | None = None
    problem = ""
    try:
        effects = results.effects(score=name, level=query.level)
    except (Invalid, Unknown) as error:
        problem = str(error)
    return Scored(
        name=name,
        primary=False,
        lower_is_better=lower,
        unit=outcome.unit if outcome else {"took": "s", "cost": "US$"}.get(name, ""),
        sentences=tuple(_sentences(effects, rows)),
        points=tuple(_points(aims, name, effects, rows, found))[:MOST_POINTS],
        effects=effects,
        table=own,
        notes=tuple(note for note in effects.remarks if note not in results.notes) if effects else (problem,),
    )


def _live(results: Results, one: Scored, query: ScoreQuery) -> Scored:
    """A score of a stream: its levels compared by what is valid at every look."""
    sentences, points, notes = list[str](), list[PlotPoint](), list[str]()
    for factor in query.by:
        try:
            found = results.compare(factor, score=one.name, level=query.level)
        except (Invalid, Unknown) as error:
            notes.append(str(error))
            continue
        sentences += found.sentence.splitlines()
        notes += [note for note in found.remarks if note not in results.notes]
        points += [
            _point(f"{factor}: {pair.first} - {pair.second}", pair.difference, pair.adjusted, True)
            for pair in found.contrasts
        ]
    return replace(one, sentences=tuple(sentences), points=tuple(points), notes=tuple(dict.fromkeys(notes)))


def _sentences(effects: Effects | None, rows: Sequence[TableRow]) -> Iterator[str]:
    """One line per term, or that no trial has the score."""
    if effects is not None and effects.effects:
        yield from effects.sentence.splitlines()
    elif not any(row.n for row in rows):
        yield "No trial has this score: nothing can be said."


def _points(
    aims: Aims, name: str, effects: Effects | None, rows: Sequence[TableRow], found: Sequence[Finding]
) -> Iterator[PlotPoint]:
    """Plot points: declared contrasts first, then other effects; means if there are no effects."""
    for finding in found:
        for one in finding.contrasts if finding.outcome == name else ():
            label = f"{finding.hypothesis}: {one.first} - {one.second}"
            yield _point(label, one.difference, one.adjusted, True)
    shown = [one for one in effects.effects if _is_shown(one)] if effects else []
    for effect in shown:
        if not aims.declares(effect.term, name):
            yield _point(_label(effect), effect.estimate, effect.p)
    if not shown and not found:
        for row in rows:
            label = ", ".join(map(cell, row.labels)) or name
            yield PlotPoint(label, row.mean, row.low, row.high, zero=False, method=row.method)


def _is_shown(effect: Effect) -> bool:
    """Whether an effect is shown: main effects, and interactions with a single contrast."""
    return " x " not in effect.term or " - " in effect.label


def _label(effect: Effect) -> str:
    """The label of an effect in the forest plot."""
    if " - " not in effect.label:
        return f"{effect.term}: {effect.label} - mean"
    return f"{effect.term}: {effect.label}" if " x " not in effect.term else effect.term


def _point(label: str, found: Estimate | None, p: float | None, declared: bool = False) -> PlotPoint:
    """An estimate as a plot point."""
    if found is None:
        return PlotPoint(label, None, None, None, p, declared)
    return PlotPoint(label, found.mean, found.low, found.high, p, declared, method=found.method)


def _with_details(results: Results, one: Scored, query: ScoreQuery) -> Scored:
    """Add what is computed only for the main score: leaderboard, prices, interactions."""
    board = _board(results, one, query)
    entries, unit = priced(results.trials, board, one.name, query.level) if board else ((), "")
    interactions = tuple(_interactions(results, one, query))
    ranking = _ranking(results.trials, board) if board else ""
    found = replace(one, primary=True, interactions=interactions, board=board, ranking=ranking)
    return replace(found, priced=entries, priced_in=unit)


def _ranking(trials: Sequence[TrialResult], board: Leaderboard) -> str:
    """The sentence of a leaderboard, in which levels carry the names of their factors."""
    labels = ConditionLabels(board.by)
    named = {labels.short(trial): labels.full(trial) for trial in trials}
    entries = (replace(one, label=named.get(one.label, one.label)) for one in board.entries)
    return replace(board, entries=tuple(entries)).sentence


def _board(results: Results, one: Scored, query: ScoreQuery) -> Leaderboard | None:
    """The leaderboard; None if there are too few or too many conditions."""
    if (
        not query.by
        or (results.live is not None and results.live.compares)
        or not 1 < query.conditions <= MOST_ENTRIES
        or not any(p.mean is not None for p in one.points)
    ):
        return None
    try:
        return results.leaderboard(score=one.name, level=query.level, lowest_first=one.lower_is_better)
    except (Invalid, Unknown):
        return None  # reported with its effects already


def _interactions(results: Results, one: Scored, query: ScoreQuery) -> Iterator[Interaction]:
    """The means of every two factors; with many factors, the most significant interactions."""
    if one.effects is None or len(query.by) < 2 or one.table is None:
        return
    p_values = {test.term: 1.0 if test.p is None else test.p for test in one.effects.tests}
    pairs = sorted(combinations(query.by, 2), key=lambda pair: p_values.get(" x ".join(pair), 1.0))
    for first, second in pairs[:MOST_INTERACTIONS]:
        table = _means(results, one, query, first, second)
        found = _interaction(first, second, table.body)
        if 1 < len(found.rows) <= MOST_LEVELS and 1 < len(found.columns) <= MOST_LEVELS:
            yield found


def _means(results: Results, one: Scored, query: ScoreQuery, *pair: str) -> Table:
    """The table of a score by two factors; reuses the score's own table if it fits."""
    if one.table is not None and one.table.by == pair:
        return one.table
    table = results.table(*pair, score=one.name.partition("=")[0], level=query.level)
    return replace(table, body=tuple(row for row in table.body if row.score == one.name))


def _interaction(first: str, second: str, rows: Sequence[TableRow]) -> Interaction:
    """The means of a table with two factors as a matrix."""
    down = list(dict.fromkeys(cell(row.labels[0]) for row in rows))
    across = list(dict.fromkeys(cell(row.labels[1]) for row in rows))
    known = {(cell(row.labels[0]), cell(row.labels[1])): row for row in rows if row.mean is not None}
    cells = tuple(tuple(_cell(known.get((a, b)), f"{a}, {b}") for b in across) for a in down)
    return Interaction(first, second, tuple(down), tuple(across), cells)


def _cell(row: TableRow | None, label: str) -> PlotPoint | None:
    """The mean of a row as a plot point."""
    if row is None:
        return None
    return PlotPoint(label, row.mean, row.low, row.high, zero=False, method=row.method)
