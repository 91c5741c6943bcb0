"""The tables of a report as text cells, shared by all writers."""

from __future__ import annotations

from collections.abc import Sequence

from peira.analysis.compare.comparison import probability_text as bare
from peira.analysis.compare.hypotheses import Finding
from peira.analysis.ranking.leaderboard import (
    LOST_COLUMNS,
    Leaderboard,
    group_text,
    lost_cells,
    price_text,
    seconds_text,
)
from peira.core.text import grid as layout
from peira.report.labels import change, p_value_text, spread
from peira.report.value import FailureKind, PlotPoint, Scored

Cells = tuple[list[str], list[list[str]]]
"""A header and rows."""


def effect_cells(one: Scored) -> Cells:
    """The table of effects."""
    effects = one.effects.effects if one.effects else ()
    level = one.effects.level if one.effects else 0.95
    header = ["effect", "levels", f"change in {one.name} [{100 * level:g}% interval]", "p"]
    return header, [[e.term, e.label, change(e.estimate), bare(e.p)] for e in effects]


def marginal_cells(one: Scored) -> Cells:
    """The table of marginal means."""
    means = one.effects.means if one.effects else ()
    return ["factor", "level", f"mean {one.name}"], [[m.factor, m.level, spread(m.estimate)] for m in means]


def board_cells(board: Leaderboard) -> Cells:
    """The leaderboard, without empty columns."""
    header = ["rank", ", ".join(map(layout.cell, board.by)) or "entry", board.score, "group", "trials"]
    rows = [
        [layout.ranks(e.best, e.worst), layout.cell(e.label), spread(e.mean), group_text(e), f"{e.n:,}"]
        for e in board.entries
    ]
    more = {
        "US$": [(e.cost, price_text(e.cost_interval)) for e in board.entries],
        "seconds": [(e.took, seconds_text(e.took_interval)) for e in board.entries],
        "chance to be on the front": [(e.on_front, layout.number(e.on_front)) for e in board.entries],
    }
    for name, values in more.items():
        if any(value for value, _ in values):
            header.append(name)
            rows = [[*row, text] for row, (_, text) in zip(rows, values, strict=True)]
    if board.has_bounds:
        header += LOST_COLUMNS
        rows = [[*row, *lost_cells(e)] for row, e in zip(rows, board.entries, strict=True)]
    return header, rows


def point_cells(points: Sequence[PlotPoint]) -> list[list[str]]:
    """The points of the forest plot."""
    kind = {True: "declared", False: "exploratory"}
    return [[p.label, change(p) if p.zero else spread(p), kind[p.declared] if p.zero else ""] for p in points]


def failure_cells(kinds: Sequence[FailureKind]) -> list[list[str]]:
    """The table of failures by kind."""
    return [[one.stage, one.cause, one.kind, f"{one.count:,}", one.message, one.where] for one in kinds]


def finding(one: Finding) -> str:
    """The evidence for a verdict, as one line."""
    if one.reason:
        return one.reason
    shown = [f"{c.first} - {c.second}: {change(c.difference)}" for c in one.contrasts]
    corrected = f", {one.correction} over the plan" if one.correction not in ("", "none") else ""
    tests = ", ".join(dict.fromkeys(c.test for c in one.contrasts if c.test))
    return (
        f"{'; '.join(shown)} in {one.outcome}; {p_value_text(one.adjusted)} at alpha {one.alpha:g} "
        f"({tests}{corrected})"
    )


def headline(one: Scored) -> str:
    """A score in one line."""
    rows = one.table.body if one.table else ()
    if len(rows) == 1:
        found = rows[0]
        return spread(PlotPoint("", found.mean, found.low, found.high, method=found.method))
    return "; ".join(f"{p.label} {change(p) if p.zero else spread(p)}" for p in one.points[:3])
