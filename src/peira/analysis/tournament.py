"""From the games of a contest to its standings, by Bradley and Terry's model.

A game is won by the side that the judge prefers in both orders; everything else is a tie. Strengths are
log-odds and average 0. Games about one case are no independent evidence: intervals are by case. Two sides are
told apart by the difference of their strengths or, where a side that never lost leaves that without an
error, by the games they played against each other.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from peira.analysis import layout
from peira.analysis.games import CONTEST, Game, games
from peira.analysis.groups import key_of
from peira.analysis.standings import Standing, Standings
from peira.analysis.trials import TrialResult
from peira.core.registry import nearest
from peira.core.words import counted
from peira.errors import Invalid
from peira.stats import normal
from peira.stats.inputs import Floats
from peira.stats.multiplicity import holm
from peira.stats.paired import paired_permutation
from peira.stats.ranks import letters, rank_intervals
from peira.stats.tournament import Strengths, bradley_terry, bradley_terry_bootstrap, elo

METHODS = ("covariance", "bootstrap")
DIGITS = 9
"""What is left of a strength: no computation is exact to more."""


def standings(
    trials: Iterable[TrialResult],
    level: float = 0.95,
    method: str = "covariance",
    with_elo: bool = False,
    notes: Sequence[str] = (),
) -> Standings:
    """Of the trials of a contest. `method` is how intervals are made: covariance or bootstrap, by case."""
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    if method not in METHODS:
        raise Invalid(f"method: {method!r} is not known{nearest(method, METHODS)}")
    trials = list(trials)
    played = list(games(trials))
    if not played:
        raise Invalid("standings: these are no results of a contest; make one with contest(results, ...)")
    by = next(str(trial.metadata[CONTEST]["by"]) for trial in trials if CONTEST in trial.metadata)
    told = _Told.of([game for game in played if game.decided])
    undecided = len(played) - len(told.games)
    if not told.games:
        return Standings(by, level, (), (), (), 0, 0, undecided, method, tuple(notes))
    fit = bradley_terry_bootstrap if method == "bootstrap" else bradley_terry
    strengths = fit(*told.played, players=len(told.labels), clusters=told.units, level=level)
    ratings = elo(*told.played, players=len(told.labels)) if with_elo else None
    return _standings(by, level, told, strengths, ratings, undecided, notes)


@dataclass(frozen=True)
class _Told:
    """The games that were decided, with sides numbered."""

    games: tuple[Game, ...]
    labels: tuple[str, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]

    @classmethod
    def of(cls, found: Sequence[Game]) -> _Told:
        names: dict[str | bytes, str] = {}
        for game in found:
            for side in game.sides:
                names.setdefault(key_of(side), layout.cell(side))
        place = {key: index for index, key in enumerate(names)}
        one, two = (tuple(place[key_of(game.sides[side])] for game in found) for side in (0, 1))
        return cls(tuple(found), tuple(names.values()), one, two)

    @property
    def played(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
        return self.first, self.second, tuple(game.won for game in self.games)

    @property
    def units(self) -> list[tuple[str, str]]:
        return [game.unit for game in self.games]

    def between(self, i: int, j: int) -> tuple[float, float | None]:
        """What i won above j in their own games, and the chance of as much, were they alike."""
        own = [
            (won if one == i else 1 - won, unit)
            for one, two, won, unit in zip(*self.played, self.units, strict=True)
            if {one, two} == {i, j}
        ]
        if not own:
            return 0.0, None
        first = [won for won, _ in own]
        found = paired_permutation(first, [1 - won for won in first], [unit for _, unit in own])
        return 2 * sum(first) - len(first), found.p

    def count(self, outcome: float) -> list[list[int]]:
        """How often each side (row) had this outcome against each other (column)."""
        k = len(self.labels)
        found = [[0] * k for _ in range(k)]
        for i, j, won in zip(*self.played, strict=True):
            found[i][j] += won == outcome
            found[j][i] += 1 - won == outcome
        return found


def _standings(
    by: str,
    level: float,
    told: _Told,
    found: Strengths,
    ratings: Sequence[float] | None,
    undecided: int,
    notes: Sequence[str],
) -> Standings:
    order = sorted(range(len(told.labels)), key=lambda i: -found.strength[i])
    wins, ties = told.count(1.0), told.count(0.5)
    entries = [
        Standing(
            told.labels[i],
            round(found.strength[i], DIGITS) + 0.0,
            found.low[i] if found.low else None,
            found.high[i] if found.high else None,
            sum(wins[i]),
            sum(ties[i]),
            sum(row[i] for row in wins),
            elo=ratings[i] if ratings else None,
        )
        for i in order
    ]
    inconsistent = sum(not game.consistent for game in told.games)
    return Standings(
        by,
        level,
        tuple(_ranked(entries, order, found, told, level)),
        tuple(tuple(wins[i][j] for j in order) for i in order),
        tuple(tuple(ties[i][j] for j in order) for i in order),
        len(told.games),
        inconsistent,
        undecided,
        found.method,
        (*_notes(found, len(told.games), inconsistent, undecided), *notes),
    )


def _ranked(
    entries: list[Standing], order: Sequence[int], found: Strengths, told: _Told, level: float
) -> list[Standing]:
    """With ranks and letters: each two are told apart, or not, as one family."""
    covariance = found.covariance
    if covariance is None and found.low is not None:  # of a bootstrap: the same games have one
        covariance = bradley_terry(*told.played, players=len(order), clusters=told.units).covariance
    pairs = list(combinations(range(len(order)), 2))
    gaps = [_gap(covariance, found, told, order[a], order[b]) for a, b in pairs]
    adjusted = holm([p for _, p in gaps])
    better = {
        pair if gap > 0 else pair[::-1]
        for pair, (gap, _), p in zip(pairs, gaps, adjusted, strict=True)
        if p is not None and p < 1 - level
    }
    ranks, marks = rank_intervals(len(entries), better), letters(range(len(entries)), better)
    return [
        replace(entry, best=rank[0], worst=rank[1], letters=mark)
        for entry, rank, mark in zip(entries, ranks, marks, strict=True)
    ]


def _gap(
    covariance: Floats | None, found: Strengths, told: _Told, i: int, j: int
) -> tuple[float, float | None]:
    """How much stronger i is than j, in some unit, and the p-value of that."""
    if covariance is None:
        return told.between(i, j)
    gap = found.strength[i] - found.strength[j]
    variance = float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
    return gap, normal.p_value(gap / math.sqrt(variance), "two-sided") if variance > 0 else None


def _notes(found: Strengths, n: int, inconsistent: int, undecided: int) -> list[str]:
    said = [f"{counted(n, 'game')}, each judged in both orders; {found.method}, intervals by case"]
    if inconsistent:
        said.append(f"{inconsistent} of them tied because the judge changed its mind with the order")
    if undecided:
        said.append(f"not counted: {counted(undecided, 'game')} without a verdict in both orders")
    if found.low is None:
        said.append("some side never lost, or never won: how strong it is has no bounds that the data tell;")
        said.append("ranks are by the games that sides played against each other")
    return said
