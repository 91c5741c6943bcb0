"""Who stands where after a contest: strengths by Bradley and Terry's model, with what is known of them.

A game is won by the side that the judge prefers in both orders; everything else is a tie. Strengths are
log-odds and average 0. Games about one case are no independent evidence: intervals are by case.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations

import msgspec

from peira.analysis import layout
from peira.analysis.games import CONTEST, Game, games
from peira.analysis.groups import key_of
from peira.analysis.trials import TrialResult
from peira.core.registry import nearest
from peira.core.words import counted
from peira.errors import Invalid
from peira.stats import normal
from peira.stats.inputs import Floats
from peira.stats.multiplicity import holm
from peira.stats.ranks import letters, rank_intervals
from peira.stats.tournament import Strengths, bradley_terry, bradley_terry_bootstrap, elo

METHODS = ("covariance", "bootstrap")


@dataclass(frozen=True)
class Standing:
    """One side. `best` to `worst` are the ranks it may hold; sides that share a letter cannot be told apart.
    Bounds of None are unknown."""

    label: str
    strength: float
    low: float | None
    high: float | None
    won: int
    tied: int
    lost: int
    best: int | None = None
    worst: int | None = None
    letters: str = ""
    elo: float | None = None


@dataclass(frozen=True)
class Standings:
    """Sides, strongest first; `wins[i][j]` counts the games that i won against j, `ties[i][j]` their ties.

    `games` are those with a verdict in both orders; of the others `no_verdict` are without one, or not done.
    """

    by: str
    level: float
    entries: tuple[Standing, ...]
    wins: tuple[tuple[int, ...], ...]
    ties: tuple[tuple[int, ...], ...]
    games: int
    inconsistent: int
    no_verdict: int
    method: str
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        if not self.entries:
            return "No game has a verdict: nothing can be said."
        first = self.entries[0]
        if first.worst == 1:
            return f"{first.label} is preferred to every other."
        if first.worst is None:
            return f"{first.label} won most; who is best cannot be told."
        rivals = [e.label for e in self.entries[1:] if set(e.letters) & set(first.letters)]
        return f"{first.label} leads, but cannot be told apart from {', '.join(rivals)}."

    def _grid(self) -> tuple[list[str], list[list[str]]]:
        asked = any(entry.elo is not None for entry in self.entries)
        header = ["rank", self.by, f"strength [{100 * self.level:g}% interval]", "group", "won-tied-lost"]
        return [*header, *(["elo"] if asked else [])], [_cells(entry) for entry in self.entries]

    def __str__(self) -> str:
        return "\n".join([layout.plain(*self._grid()), "", self.sentence, *self.notes])

    def markdown(self) -> str:
        return "\n\n".join([layout.markdown(*self._grid()), self.sentence, *self.notes])

    def win_matrix(self) -> str:
        """Who won against whom (rows against columns), in how many games; ties count as half."""
        labels = [layout.cell(entry.label) for entry in self.entries]
        rows = [
            [label, *("-" if i == j else f"{won + tied / 2:g}" for j, (won, tied) in enumerate(counts))]
            for i, (label, counts) in enumerate(zip(labels, map(zip, self.wins, self.ties), strict=True))
        ]
        return layout.plain(["wins of", *labels], rows)

    def to_json(self) -> str:
        """One document, with everything in it and the sentence."""
        return msgspec.json.encode({**asdict(self), "sentence": self.sentence}).decode()


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
            found.strength[i],
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
    """With ranks and letters: each two are told apart by the difference of their strengths, as one family."""
    covariance = found.covariance
    if covariance is None and found.low is not None:  # of a bootstrap: the same games have one
        covariance = bradley_terry(*told.played, players=len(order), clusters=told.units).covariance
    if covariance is None:
        return entries
    pairs = list(combinations(range(len(order)), 2))
    gaps = [entries[a].strength - entries[b].strength for a, b in pairs]
    spreads = [_variance(covariance, order[a], order[b]) for a, b in pairs]
    adjusted = holm(list(map(_p, gaps, spreads)))
    better = {pair for pair, p in zip(pairs, adjusted, strict=True) if p is not None and p < 1 - level}
    ranks, marks = rank_intervals(len(entries), better), letters(range(len(entries)), better)
    return [
        replace(entry, best=rank[0], worst=rank[1], letters=mark)
        for entry, rank, mark in zip(entries, ranks, marks, strict=True)
    ]


def _variance(covariance: Floats, i: int, j: int) -> float:
    return float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])


def _p(difference: float, variance: float) -> float | None:
    return normal.p_value(difference / math.sqrt(variance), "two-sided") if variance > 0 else None


def _notes(found: Strengths, n: int, inconsistent: int, undecided: int) -> list[str]:
    said = [f"{counted(n, 'game')}, each judged in both orders; {found.method}, intervals by case"]
    if inconsistent:
        said.append(f"{inconsistent} of them tied because the judge changed its mind with the order")
    if undecided:
        said.append(f"not counted: {counted(undecided, 'game')} without a verdict in both orders")
    if found.low is None:
        said.append("some side never lost, or never won: how strong it is has no bounds that the data tell")
    return said


def _cells(entry: Standing) -> list[str]:
    rank = "-" if entry.best is None else f"{entry.best}-{entry.worst}"
    rank = str(entry.best) if entry.best is not None and entry.best == entry.worst else rank
    strength = layout.interval(entry.strength, entry.low, entry.high)
    shown = [rank, layout.cell(entry.label), strength, entry.letters or "-"]
    rating = [] if entry.elo is None else [f"{entry.elo:.0f}"]
    return [*shown, f"{entry.won}-{entry.tied}-{entry.lost}", *rating]
