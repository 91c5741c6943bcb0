"""The games of a contest and its standings by the Bradley-Terry model or Elo, with rank intervals.

A game is won by the side that the judge prefers in both orders; everything else is a tie. Strengths are log
odds with mean 0. Games about the same case are not independent: intervals are clustered by case. Sides are
compared by the difference of their strengths or, if that has no standard error because a side never lost, by
the games between them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from peira.analysis.table.groups import key_of
from peira.analysis.value import ResultValue, TextGrid
from peira.core.ids import Json, canonical
from peira.core.log.events import State
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats import normal
from peira.stats.inputs import Floats
from peira.stats.models.bradley_terry import Strengths, bradley_terry, bradley_terry_bootstrap, elo
from peira.stats.tests.multiplicity import holm, letters, rank_intervals
from peira.stats.tests.paired import paired_permutation

# Games

CONTEST = "contest"
"""The key of the case metadata that names the sides."""

ORDERS = ("given", "swapped")
"""The levels of the factor `order`."""


@dataclass(frozen=True)
class Game:
    """Two sides judged in both orders: the first side's result when presented first and second.

    None if there is no verdict. `longer` is how many characters longer the first side's output is.
    """

    sides: tuple[Json, Json]
    unit: tuple[str, str]
    first: float | None
    second: float | None
    longer: int = 0

    @property
    def decided(self) -> bool:
        """Whether there is a verdict in both orders."""
        return self.first is not None and self.second is not None

    @property
    def consistent(self) -> bool:
        """Whether both orders have the same verdict."""
        return self.first == self.second

    @property
    def won(self) -> float:
        """The common verdict of both orders; a tie if they differ."""
        return self.first if self.first is not None and self.consistent else 0.5


def is_contest(trials: Iterable[TrialResult]) -> bool:
    """Whether these are trials of a contest, judging by the first one."""
    first = next(iter(trials), None)
    return first is not None and CONTEST in first.metadata


def games(trials: Iterable[TrialResult]) -> Iterator[Game]:
    """The games of a contest, one for each pair, judge and repeat, in the study's order."""
    by_game: dict[str | bytes, dict[str, TrialResult]] = {}
    for trial in trials:
        if trial.anchor or CONTEST not in trial.metadata:
            continue
        judge = {name: value for name, value in trial.condition.items() if name != "order"}
        key = key_of([trial.case_id, judge, trial.repeat])
        by_game.setdefault(key, {})[str(trial.condition["order"])] = trial
    for orders in by_game.values():
        some = next(iter(orders.values()))
        one, two = some.metadata[CONTEST]["sides"]
        verdicts = [_won(orders.get(order)) for order in ORDERS]
        longer = size(some.input["one"]) - size(some.input["two"])
        yield Game((one, two), some.unit, verdicts[0], verdicts[1], longer)


def _won(trial: TrialResult | None) -> float | None:
    """The verdict of one trial; None if it has none."""
    if trial is None or trial.state is not State.succeeded:
        return None
    return trial.output.get("won")  # type: ignore[no-any-return]


def size(output: Json) -> int:
    """The number of characters of an output."""
    return len(output if isinstance(output, str) else canonical(output).decode())


# Standings


@dataclass(frozen=True)
class StandingsRow:
    """One side; `best` to `worst` is its rank interval, sides that share a letter do not differ.

    Bounds of None are unknown.
    """

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
class Standings(ResultValue):
    """Sides, strongest first; `wins[i][j]` counts games that i won against j, `ties[i][j]` ties.

    `games` counts those with a verdict in both orders, `no_verdict` the others.
    """

    by: str
    level: float
    entries: tuple[StandingsRow, ...]
    wins: tuple[tuple[int, ...], ...]
    ties: tuple[tuple[int, ...], ...]
    games: int
    inconsistent: int
    no_verdict: int
    method: str
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """Which side is strongest, or from which others the first cannot be distinguished."""
        if not self.entries:
            return "No game has a verdict: nothing can be said."
        first = self.entries[0]
        if first.worst == 1:
            return f"{first.label} is preferred to every other."
        if first.worst is None:
            return f"{first.label} won most; who is best cannot be told."
        rivals = [e.label for e in self.entries[1:] if set(e.letters) & set(first.letters)]
        return f"{first.label} leads, but cannot be told apart from {', '.join(rivals)}."

    def grids(self) -> list[TextGrid]:
        """One row per side."""
        with_elo = any(entry.elo is not None for entry in self.entries)
        header = ["rank", self.by, f"strength [{100 * self.level:g}% interval]", "group", "won-tied-lost"]
        header += ["elo"] if with_elo else []
        return [TextGrid(header, [_cells(entry) for entry in self.entries])]

    def win_matrix(self) -> str:
        """The table of wins (rows against columns) by number of games; ties count as half."""
        labels = [layout.cell(entry.label) for entry in self.entries]
        rows = [
            [label, *("-" if i == j else f"{won + tied / 2:g}" for j, (won, tied) in enumerate(counts))]
            for i, (label, counts) in enumerate(zip(labels, map(zip, self.wins, self.ties), strict=True))
        ]
        return layout.plain(["wins of", *labels], rows)


def _cells(entry: StandingsRow) -> list[str]:
    """The cells of a side's row."""
    strength = layout.interval(entry.strength, entry.low, entry.high)
    rank = layout.ranks(entry.best, entry.worst)
    shown = [rank, layout.cell(entry.label), strength, entry.letters or "-"]
    rating = [] if entry.elo is None else [f"{entry.elo:.0f}"]
    return [*shown, f"{entry.won}-{entry.tied}-{entry.lost}", *rating]


# Computation

METHODS = ("covariance", "bootstrap")
"""The methods for intervals."""
DIGITS = 9
"""The number of decimals of a strength."""


def standings(
    trials: Iterable[TrialResult],
    level: float = 0.95,
    method: str = "covariance",
    with_elo: bool = False,
    notes: Sequence[str] = (),
) -> Standings:
    """The standings of a contest; `method` is covariance or bootstrap, both clustered by case.

    Raises Invalid for an unknown method, a level outside (0, 1), or trials that are not of a contest.
    """
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    if method not in METHODS:
        raise Invalid(f"method: {method!r} is not known{nearest(method, METHODS)}")
    trials = list(trials)
    played = list(games(trials))
    if not played:
        raise Invalid("standings: these are no results of a contest; make one with contest(results, ...)")
    by = next(str(trial.metadata[CONTEST]["by"]) for trial in trials if CONTEST in trial.metadata)
    decided = _DecidedGames.of([game for game in played if game.decided])
    undecided = len(played) - len(decided.games)
    if not decided.games:
        return Standings(by, level, (), (), (), 0, 0, undecided, method, tuple(notes))
    fit = bradley_terry_bootstrap if method == "bootstrap" else bradley_terry
    strengths = fit(*decided.played, players=len(decided.labels), clusters=decided.units, level=level)
    ratings = elo(*decided.played, players=len(decided.labels)) if with_elo else None
    return _standings(by, level, decided, strengths, ratings, undecided, notes)


@dataclass(frozen=True)
class _DecidedGames:
    """The decided games, with sides numbered."""

    games: tuple[Game, ...]
    labels: tuple[str, ...]
    first: tuple[int, ...]
    second: tuple[int, ...]

    @classmethod
    def of(cls, found: Sequence[Game]) -> _DecidedGames:
        """Number the sides in order of appearance."""
        names: dict[str | bytes, str] = {}
        for game in found:
            for side in game.sides:
                names.setdefault(key_of(side), layout.cell(side))
        place = {key: index for index, key in enumerate(names)}
        one, two = (tuple(place[key_of(game.sides[side])] for game in found) for side in (0, 1))
        return cls(tuple(found), tuple(names.values()), one, two)

    @property
    def played(self) -> tuple[tuple[int, ...], tuple[int, ...], tuple[float, ...]]:
        """First side, second side and outcome of every game."""
        return self.first, self.second, tuple(game.won for game in self.games)

    @property
    def units(self) -> list[tuple[str, str]]:
        """The unit of evidence of every game."""
        return [game.unit for game in self.games]

    def between(self, i: int, j: int) -> tuple[float, float | None]:
        """The excess wins of i over j in their own games, and the permutation p-value."""
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
    decided: _DecidedGames,
    found: Strengths,
    ratings: Sequence[float] | None,
    undecided: int,
    notes: Sequence[str],
) -> Standings:
    """The standings, sorted by strength."""
    order = sorted(range(len(decided.labels)), key=lambda i: -found.strength[i])
    wins, ties = decided.count(1.0), decided.count(0.5)
    entries = [
        StandingsRow(
            decided.labels[i],
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
    inconsistent = sum(not game.consistent for game in decided.games)
    return Standings(
        by,
        level,
        tuple(_ranked(entries, order, found, decided, level)),
        tuple(tuple(wins[i][j] for j in order) for i in order),
        tuple(tuple(ties[i][j] for j in order) for i in order),
        len(decided.games),
        inconsistent,
        undecided,
        found.method,
        (*_notes(found, len(decided.games), inconsistent, undecided), *notes),
    )


def _ranked(
    entries: list[StandingsRow], order: Sequence[int], found: Strengths, decided: _DecidedGames, level: float
) -> list[StandingsRow]:
    """The rows with rank intervals and letters, from all pairwise tests adjusted by Holm's method."""
    covariance = found.covariance
    if covariance is None and found.low is not None:  # the bootstrap has no covariance: take that of the fit
        covariance = bradley_terry(*decided.played, players=len(order), clusters=decided.units).covariance
    pairs = list(combinations(range(len(order)), 2))
    gaps = [_gap(covariance, found, decided, order[a], order[b]) for a, b in pairs]
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
    covariance: Floats | None, found: Strengths, decided: _DecidedGames, i: int, j: int
) -> tuple[float, float | None]:
    """The difference in strength of i and j, and its p-value."""
    if covariance is None:
        return decided.between(i, j)
    gap = found.strength[i] - found.strength[j]
    variance = float(covariance[i, i] + covariance[j, j] - 2 * covariance[i, j])
    return gap, normal.p_value(gap / math.sqrt(variance), "two-sided") if variance > 0 else None


def _notes(found: Strengths, n: int, inconsistent: int, undecided: int) -> list[str]:
    """Notes on the games, inconsistent verdicts, and unknown bounds."""
    lines = [f"{counted(n, 'game')}, each judged in both orders; {found.method}, intervals by case"]
    if inconsistent:
        lines.append(f"{inconsistent} of them tied because the judge changed its mind with the order")
    if undecided:
        lines.append(f"not counted: {counted(undecided, 'game')} without a verdict in both orders")
    if found.low is None:
        lines.append("some side never lost, or never won: how strong it is has no bounds that the data tell;")
        lines.append("ranks are by the games that sides played against each other")
    return lines
