"""What a report says of each number: its effects, its table of means, its forest plot, its interactions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from peira.analysis.aims import Aims
from peira.analysis.effect_values import Effect, Effects
from peira.analysis.findings import Finding
from peira.analysis.layout import cell
from peira.analysis.leaderboard import Leaderboard
from peira.analysis.measures import TAKEN
from peira.analysis.results import Results
from peira.analysis.table import Row, Table
from peira.errors import Invalid, Unknown
from peira.report.pricing import priced
from peira.report.value import Interaction, Point, Scored
from peira.spec.aims import Outcome
from peira.stats.values import Estimate

MOST_SCORES, MOST_POINTS, MOST_INTERACTIONS, MOST_LEVELS = 8, 24, 3, 8
MOST_ENTRIES = 40
OTHER = "=(other)"


@dataclass(frozen=True)
class Asked:
    """What is looked at: the factors that vary, the conditions there are, and the confidence."""

    by: tuple[str, ...]
    conditions: int
    level: float


def table_of(results: Results, asked: Asked) -> Table:
    """All means by all that varies, unless that makes a table that nobody reads."""
    return results.table(*(asked.by if asked.conditions <= MOST_ENTRIES else ()), level=asked.level)


def scored(
    results: Results, table: Table, found: Sequence[Finding], asked: Asked, first: str | None = None
) -> tuple[Scored, ...]:
    """Every number, the primary outcome (or the one that is named) first and most closely looked at."""
    aims = results.aims or Aims()
    names = list(dict.fromkeys([*([first] if first else []), *_names(aims, table)]))
    told = [_scored(results, name, table, found, asked) for name in names[:MOST_SCORES]]
    if not told:
        return ()
    return (_closely(results, told[0], asked), *told[1:])


def _names(aims: Aims, table: Table) -> list[str]:
    """Declared outcomes, primary ones first, then the other scores; of texts, the categories."""
    declared = sorted(aims.outcomes, key=lambda outcome: not outcome.primary)
    outcomes = [name for o in declared if (name := aims.measure_of(o.name)) is not None]
    seen = [row.score for row in table.body if row.score is not None and not row.score.endswith(OTHER)]
    known = {name.partition("=")[0] for name in seen}
    kept = [name for name in outcomes if name not in known or name in seen]
    return list(dict.fromkeys([*kept, *seen]))


def outcome_of(aims: Aims, name: str) -> Outcome | None:
    return next((one for one in aims.outcomes if aims.measure_of(one.name) == name), None)


def _scored(results: Results, name: str, table: Table, found: Sequence[Finding], asked: Asked) -> Scored:
    aims = results.aims or Aims()
    outcome = outcome_of(aims, name)
    lower = outcome.direction == "minimize" if outcome else name in TAKEN
    rows = tuple(row for row in table.body if row.score == name)
    own = Table(table.by, table.level, rows, table.notes) if rows else None
    effects: Effects | None = None
    problem = ""
    try:
        effects = results.effects(score=name, level=asked.level)
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


def _sentences(effects: Effects | None, rows: Sequence[Row]) -> Iterator[str]:
    if effects is not None and effects.effects:
        yield from effects.sentence.splitlines()
    elif not any(row.n for row in rows):
        yield "No trial has this score: nothing can be said."


def _points(
    aims: Aims, name: str, effects: Effects | None, rows: Sequence[Row], found: Sequence[Finding]
) -> Iterator[Point]:
    """Hypotheses first, as they were declared; then what the factors do; without factors, the means."""
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
            yield Point(label, row.mean, row.low, row.high, zero=False)


def _is_shown(effect: Effect) -> bool:
    """Of interactions only those that are one number."""
    return " x " not in effect.term or " - " in effect.label


def _label(effect: Effect) -> str:
    if " - " not in effect.label:
        return f"{effect.term}: {effect.label} - mean"
    return f"{effect.term}: {effect.label}" if " x " not in effect.term else effect.term


def _point(label: str, found: Estimate | None, p: float | None, declared: bool = False) -> Point:
    if found is None:
        return Point(label, None, None, None, p, declared)
    return Point(label, found.mean, found.low, found.high, p, declared)


def _closely(results: Results, one: Scored, asked: Asked) -> Scored:
    """With what is only worked out for the number that the answer is about."""
    board = _board(results, one, asked)
    entries, unit = priced(results.trials, board, one.name, asked.level) if board else ((), "")
    interactions = tuple(_interactions(results, one, asked))
    return replace(one, primary=True, interactions=interactions, board=board, priced=entries, priced_in=unit)


def _board(results: Results, one: Scored, asked: Asked) -> Leaderboard | None:
    if (
        not asked.by
        or not 1 < asked.conditions <= MOST_ENTRIES
        or not any(p.mean is not None for p in one.points)
    ):
        return None
    try:
        return results.leaderboard(score=one.name, level=asked.level, lowest_first=one.lower_is_better)
    except (Invalid, Unknown):
        return None  # said already, where its effects are


def _interactions(results: Results, one: Scored, asked: Asked) -> Iterator[Interaction]:
    """Of every two factors; where there are many, of those that do most together."""
    if one.effects is None or len(asked.by) < 2 or one.table is None:
        return
    surprise = {test.term: 1.0 if test.p is None else test.p for test in one.effects.tests}
    pairs = sorted(combinations(asked.by, 2), key=lambda pair: surprise.get(" x ".join(pair), 1.0))
    for first, second in pairs[:MOST_INTERACTIONS]:
        table = _means(results, one, asked, first, second)
        found = _interaction(first, second, table.body)
        if 1 < len(found.rows) <= MOST_LEVELS and 1 < len(found.columns) <= MOST_LEVELS:
            yield found


def _means(results: Results, one: Scored, asked: Asked, *pair: str) -> Table:
    if one.table is not None and one.table.by == pair:
        return one.table
    table = results.table(*pair, score=one.name.partition("=")[0], level=asked.level)
    return replace(table, body=tuple(row for row in table.body if row.score == one.name))


def _interaction(first: str, second: str, rows: Sequence[Row]) -> Interaction:
    down = list(dict.fromkeys(cell(row.labels[0]) for row in rows))
    across = list(dict.fromkeys(cell(row.labels[1]) for row in rows))
    known = {(cell(row.labels[0]), cell(row.labels[1])): row for row in rows if row.mean is not None}
    cells = tuple(tuple(_cell(known.get((a, b)), f"{a}, {b}") for b in across) for a in down)
    return Interaction(first, second, tuple(down), tuple(across), cells)


def _cell(row: Row | None, label: str) -> Point | None:
    return None if row is None else Point(label, row.mean, row.low, row.high, zero=False)
