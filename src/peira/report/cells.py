"""The tables of a report as grids of texts, the same for every way of writing it."""

from __future__ import annotations

from collections.abc import Sequence

from peira.analysis import layout
from peira.analysis.contrast import chance as bare
from peira.analysis.findings import Finding
from peira.analysis.leaderboard import Entry, Leaderboard
from peira.analysis.table import Table, count
from peira.report.numbers import chance, change, spread
from peira.report.value import FailureKind, Point, Report, Scored

Cells = tuple[list[str], list[list[str]]]


def table_cells(table: Table) -> Cells:
    """Means of one score by group."""
    header = [
        *map(layout.cell, table.by),
        f"mean [{100 * table.level:g}% interval]",
        "trials",
        "cases",
        *table.counted,
    ]
    rows = [
        [
            *map(layout.cell, row.labels),
            layout.interval(row.mean, row.low, row.high),
            f"{row.n:,}",
            f"{row.cases:,}",
            *(f"{count(row, name):,}" for name in table.counted),
        ]
        for row in table.body
    ]
    return header, rows


def numeric_of(table: Table) -> tuple[int, ...]:
    """The columns of numbers in `table_cells`."""
    return tuple(range(len(table.by), len(table.by) + 3 + len(table.counted)))


def effect_cells(one: Scored) -> Cells:
    effects = one.effects.effects if one.effects else ()
    level = one.effects.level if one.effects else 0.95
    header = ["effect", "levels", f"change in {one.name} [{100 * level:g}% interval]", "p"]
    return header, [[e.term, e.label, change(e.estimate), bare(e.p)] for e in effects]


def marginal_cells(one: Scored) -> Cells:
    means = one.effects.means if one.effects else ()
    return ["factor", "level", f"mean {one.name}"], [[m.factor, m.level, spread(m.estimate)] for m in means]


def board_cells(board: Leaderboard) -> Cells:
    """Without columns that say nothing."""
    header = ["rank", ", ".join(map(layout.cell, board.by)) or "entry", board.score, "group", "trials"]
    rows = [
        [_rank(e), layout.cell(e.label), spread(e.mean), e.letters or "-", f"{e.n:,}"] for e in board.entries
    ]
    more = {
        "US$": [e.cost for e in board.entries],
        "seconds": [e.took for e in board.entries],
        "chance to be on the front": [e.on_front for e in board.entries],
    }
    for name, values in more.items():
        if any(values):
            header.append(name)
            rows = [[*row, _number(value)] for row, value in zip(rows, values, strict=True)]
    return header, rows


def _rank(entry: Entry) -> str:
    if entry.best is None:
        return "-"
    return str(entry.best) if entry.best == entry.worst else f"{entry.best}-{entry.worst}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3g}"


def point_cells(points: Sequence[Point]) -> list[list[str]]:
    kind = {True: "declared", False: "exploratory"}
    return [[p.label, change(p) if p.zero else spread(p), kind[p.declared] if p.zero else ""] for p in points]


def failure_cells(kinds: Sequence[FailureKind]) -> list[list[str]]:
    return [[one.stage, one.kind, f"{one.count:,}", one.message, one.where] for one in kinds]


def finding(one: Finding) -> str:
    """The evidence for a verdict, in a line."""
    if one.reason:
        return one.reason
    told = [f"{c.first} - {c.second}: {change(c.difference)}" for c in one.contrasts]
    corrected = f", {one.correction} over the plan" if one.correction not in ("", "none") else ""
    tests = ", ".join(dict.fromkeys(c.test for c in one.contrasts if c.test))
    return (
        f"{'; '.join(told)} in {one.outcome}; {chance(one.adjusted)} at alpha {one.alpha:g} "
        f"({tests}{corrected})"
    )


def finding_cells(report: Report) -> Cells:
    rows = [[one.hypothesis, one.statement, one.verdict, finding(one)] for one in report.findings]
    return ["hypothesis", "statement", "verdict", "evidence"], rows


def headline(one: Scored) -> str:
    """A score in a line."""
    rows = one.table.body if one.table else ()
    if len(rows) == 1:
        return layout.interval(rows[0].mean, rows[0].low, rows[0].high)
    return "; ".join(f"{p.label} {change(p) if p.zero else spread(p)}" for p in one.points[:3])
