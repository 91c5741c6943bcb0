"""The games of a contest and its standings by the Bradley-Terry model or Elo, with rank intervals.

A game is won by the side that the judge prefers in both orders; everything else is a tie. Strengths are log
odds with mean 0. Games about the same case are not independent: intervals are clustered by case. Sides are
compared by the difference of their strengths or, if that has no standard error because a side never lost, by
the games between them.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations

import numpy as np

from peira.analysis.table.groups import key_of
from peira.core.ids import Json, canonical
from peira.core.log.events import State
from peira.core.registry import nearest
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats import normal
from peira.stats.inputs import Floats
from peira.stats.models.bradley_terry import (
    Strengths,
    bradley_terry,
    bradley_terry_bootstrap,
    bradley_terry_controlled,
    elo,
)
from peira.stats.tests.multiplicity import holm, letters, rank_intervals
from peira.stats.tests.paired import paired_permutation
from peira.stats.values import Interval

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

    Bounds of None are unknown. If length was controlled for, `rate` is the share of games won (a tie is
    half), and `controlled` the share that the model expects against the other sides if answers were equally
    long (the length-controlled win rate).
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
    rate: float | None = None
    controlled: Interval | None = None


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
        if any(entry.controlled is not None for entry in self.entries):
            header += ["win rate", f"at equal length [{100 * self.level:g}% interval]"]
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
    if entry.controlled is not None and entry.controlled.value is not None:
        shares = layout.interval(entry.controlled.value, entry.controlled.low, entry.controlled.high)
        rating += [layout.number(entry.rate), shares]
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
    length_controlled: bool = False,
) -> Standings:
    """The standings of a contest; `method` is covariance or bootstrap, both clustered by case.

    With `length_controlled` strengths are those of equally long answers: how much longer one side's answer
    is, is a covariate of the model, as in Dubois, Galambosi, Liang and Hashimoto (2024), "Length-Controlled
    AlpacaEval", without their term for the difficulty of instructions.

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
    if length_controlled:
        if method != "covariance":
            raise Invalid("length_controlled: intervals are by the covariance; leave out the bootstrap")
        return _length_controlled(by, level, decided, undecided, with_elo, notes)
    fit = bradley_terry_bootstrap if method == "bootstrap" else bradley_terry
    strengths = fit(*decided.played, players=len(decided.labels), clusters=decided.units, level=level)
    ratings = elo(*decided.played, players=len(decided.labels)) if with_elo else None
    return _standings(by, level, decided, strengths, ratings, undecided, notes)


def _length_controlled(
    by: str, level: float, decided: _DecidedGames, undecided: int, with_elo: bool, notes: Sequence[str]
) -> Standings:
    """The standings at equal lengths; the usual ones, with a note, if they cannot be estimated."""
    players = len(decided.labels)
    fitted = bradley_terry_controlled(
        *decided.played, players, relative_lengths(decided.games), decided.units, level
    )
    ratings = elo(*decided.played, players=players) if with_elo else None
    if fitted is None:
        plain = bradley_terry(*decided.played, players=players, clusters=decided.units, level=level)
        why = "length cannot be controlled for: some side never lost, or lengths do not vary"
        return _standings(by, level, decided, plain, ratings, undecided, (why, *notes))
    low, high = (fitted.slope + sign * normal.quantile((1 + level) / 2) * fitted.error for sign in (-1, 1))
    said = (
        f"length: log odds of {layout.interval(fitted.slope, low, high)} for a much longer answer "
        "(the coefficient of tanh of the difference in characters, divided by its deviation)"
    )
    apart = decided.rarely_equal
    names = [f"{decided.labels[i]} and {decided.labels[j]}" for i, j in sorted(apart)]
    if names:
        said = f"{said}; hardly ever equally long, and so not told apart: {', '.join(names)}"
    found = _standings(by, level, decided, fitted.strengths, ratings, undecided, (said, *notes), apart)
    rates = dict(zip(decided.labels, _rates(fitted.strengths, level), strict=True))
    unseen = {decided.labels[i] for pair in apart for i in pair}
    return replace(found, entries=tuple(_at_equal_length(e, rates, unseen) for e in found.entries))


def _at_equal_length(
    entry: StandingsRow, rates: Mapping[str, Interval], unseen: Collection[str]
) -> StandingsRow:
    """The row with both win rates; without bounds if equal lengths were not seen against some side."""
    rate = (entry.won + entry.tied / 2) / (entry.won + entry.tied + entry.lost)
    controlled = rates[entry.label]
    if entry.label in unseen:
        controlled = replace(controlled, low=None, high=None)
        entry = replace(entry, low=None, high=None)
    return replace(entry, rate=rate, controlled=controlled)


LEAST_OVERLAP, LEAST_GAMES = 0.1, 5
"""The share and the number of games in which the side with the shorter answers must not be the shorter."""


def _overlap(signs: Sequence[int]) -> bool:
    """Whether either side often enough gave an answer that is at least as long as the other's."""
    least = max(LEAST_GAMES, LEAST_OVERLAP * len(signs))
    return min(sum(one <= 0 for one in signs), sum(one >= 0 for one in signs)) >= least


def relative_lengths(games: Sequence[Game]) -> list[float]:
    """How much longer the first answer is: tanh of the difference in characters over its deviation."""
    lengths = [float(game.longer) for game in games]
    deviation = statistics.stdev(lengths) if len(lengths) > 1 else 0.0
    return [math.tanh(one / deviation) if deviation else 0.0 for one in lengths]


def _rates(found: Strengths, level: float) -> list[Interval]:
    """The mean probability of each side to win against the others, with intervals by the delta method.

    On the scale of log odds, so that they lie between 0 and 1.
    """
    strength, covariance = np.asarray(found.strength), found.covariance
    assert covariance is not None
    z, rates = normal.quantile((1 + level) / 2), []
    for i in range(len(strength)):
        others = np.arange(len(strength)) != i
        chances = 1 / (1 + np.exp(strength[others] - strength[i]))
        slopes = np.zeros(len(strength))
        slopes[others] = -chances * (1 - chances) / len(chances)
        slopes[i] = -slopes.sum()
        rate = float(chances.mean())
        error = math.sqrt(max(0.0, float(slopes @ covariance @ slopes))) / (rate * (1 - rate))
        odds = math.log(rate / (1 - rate))
        low, high = (1 / (1 + math.exp(-(odds + sign * z * error))) for sign in (-1, 1))
        rates.append(Interval(rate, low, high, found.n, "delta method on log odds"))
    return rates


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

    @cached_property
    def rarely_equal(self) -> set[tuple[int, int]]:
        """The pairs of sides of which nearly always the same one gave the longer answer.

        What would be if their answers were equally long is then hardly in the data.
        """
        signs: dict[tuple[int, int], list[int]] = {}
        for game, one, two in zip(self.games, self.first, self.second, strict=True):
            longer = (game.longer > 0) - (game.longer < 0)
            signs.setdefault((min(one, two), max(one, two)), []).append(longer if one < two else -longer)
        return {pair for pair, seen in signs.items() if not _overlap(seen)}

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
    apart: Collection[tuple[int, int]] = (),
) -> Standings:
    """The standings, sorted by strength; pairs in `apart` are not compared."""
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
        tuple(_ranked(entries, order, found, decided, level, apart)),
        tuple(tuple(wins[i][j] for j in order) for i in order),
        tuple(tuple(ties[i][j] for j in order) for i in order),
        len(decided.games),
        inconsistent,
        undecided,
        found.method,
        (*_notes(found, len(decided.games), inconsistent, undecided), *notes),
    )


def _ranked(
    entries: list[StandingsRow],
    order: Sequence[int],
    found: Strengths,
    decided: _DecidedGames,
    level: float,
    apart: Collection[tuple[int, int]],
) -> list[StandingsRow]:
    """The rows with rank intervals and letters, from all pairwise tests adjusted by Holm's method."""
    covariance = found.covariance
    if covariance is None and found.low is not None:  # the bootstrap has no covariance: take that of the fit
        covariance = bradley_terry(*decided.played, players=len(order), clusters=decided.units).covariance
    pairs = list(combinations(range(len(order)), 2))
    gaps = [_gap(covariance, found, decided, order[a], order[b]) for a, b in pairs]
    known = [(min(order[a], order[b]), max(order[a], order[b])) not in apart for a, b in pairs]
    adjusted = holm([p if seen else None for (_, p), seen in zip(gaps, known, strict=True)])
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
