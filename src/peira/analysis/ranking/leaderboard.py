"""Leaderboards: means and ranks with intervals, letter displays, and the Pareto front of cost.

Entries are compared in pairs on their common cases, as one family adjusted by Holm's method, so that all
statements about the order hold simultaneously at the level.

For the Pareto front, units of evidence are resampled (the same for every entry): the share of resamples in
which an entry is on the front is the probability shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

import numpy as np

from peira.analysis.compare.difference import Differences
from peira.analysis.compare.sides import LabelKey, Side, side, unique
from peira.analysis.table.groups import check_names, groupable, key_of, label_of
from peira.analysis.table.measures import Measured, Observation, measure
from peira.analysis.value import ResultValue, TextGrid
from peira.core.text import grid as layout
from peira.core.text.grid import cell
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats.inputs import Codes, Floats, coded
from peira.stats.intervals.means import estimate
from peira.stats.tests.multiplicity import holm, letters, rank_intervals
from peira.stats.values import Estimate

# Results


@dataclass(frozen=True)
class LeaderboardEntry:
    """One entry; `best` to `worst` is its rank interval, entries that share a letter do not differ.

    `cost` (US dollars) and `took` (seconds) are means over trials, None if unknown. `on_front` is the
    probability of being on the Pareto front of score, cost and time.
    """

    label: str
    mean: Estimate | None
    n: int
    lost: int
    best: int | None = None
    worst: int | None = None
    letters: str = ""
    cost: float | None = None
    took: float | None = None
    on_front: float | None = None


@dataclass(frozen=True)
class Leaderboard(ResultValue):
    """Entries, best first, then those without a score.

    `wins[i][j]` counts the cases that i won against j.
    """

    by: tuple[str, ...]
    score: str
    level: float
    entries: tuple[LeaderboardEntry, ...]
    wins: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()

    keys = 2

    @property
    def sentence(self) -> str:
        """Which entry is best, or from which others the first cannot be distinguished."""
        ranked = [entry for entry in self.entries if entry.mean is not None]
        if not ranked:
            return "No entry has a score: nothing can be said."
        first = ranked[0]
        if len(ranked) == 1 or first.worst is None:
            return f"{first.label} has the best mean on {self.score}; who is best cannot be told."
        if first.worst == 1:
            return f"{first.label} is best on {self.score}."
        rivals = [e.label for e in ranked if set(e.letters) & set(first.letters) and e is not first]
        return f"{first.label} leads on {self.score}, but cannot be told apart from {', '.join(rivals)}."

    def grids(self) -> list[TextGrid]:
        """One row per entry."""
        header = ["rank", ", ".join(self.by) or "entry", f"{self.score} [{100 * self.level:g}% interval]"]
        header += ["group", "n", "cost", "seconds", "P(on front)"]
        return [TextGrid(header, [_cells(entry) for entry in self.entries])]

    def win_matrix(self) -> str:
        """The table of wins (rows against columns) by number of cases."""
        labels = [layout.cell(entry.label) for entry in self.entries if entry.mean is not None]
        rows = [
            [label, *("-" if i == j else str(n) for j, n in enumerate(row))]
            for i, (label, row) in enumerate(zip(labels, self.wins, strict=True))
        ]
        return layout.plain(["wins of", *labels], rows)


def _cells(entry: LeaderboardEntry) -> list[str]:
    """The cells of an entry's row."""
    mean = layout.interval(entry.mean.mean, entry.mean.low, entry.mean.high) if entry.mean else "-"
    rank, shown = layout.ranks(entry.best, entry.worst), map(layout.number, _prices(entry))
    return [rank, layout.cell(entry.label), mean, entry.letters or "-", str(entry.n), *shown]


def _prices(entry: LeaderboardEntry) -> tuple[float | None, ...]:
    """Cost, time and the probability of being on the front."""
    return entry.cost, entry.took, entry.on_front


# Pareto front

DRAWS = 1000
"""The number of bootstrap resamples."""
CHUNK = 50
"""Resamples per batch."""
Seen = Sequence[Observation]
"""The observations of one entry."""


def front(
    entries: Sequence[LeaderboardEntry], seen: Sequence[Seen], sign: int, seed: int = 0
) -> tuple[LeaderboardEntry, ...]:
    """The entries with mean cost and time, and their probability of being on the Pareto front.

    Cost counts only if it is known for every entry, time only if any was taken.
    """
    costs, times = _means(seen, "cost"), _means(seen, "took")
    priced = [replace(e, cost=c, took=t) for e, c, t in zip(entries, costs, times, strict=True)]
    axes = ["value"]
    axes += ["cost"] if all(c is not None for c in costs) and any(costs) else []
    axes += ["took"] if all(t is not None for t in times) and any(times) else []
    if len(axes) < 2 or any(entry.mean is None for entry in entries):
        return tuple(priced)
    chances = _chances(seen, axes, sign, seed)
    return tuple(replace(entry, on_front=chance) for entry, chance in zip(priced, chances, strict=True))


def _means(seen: Sequence[Seen], axis: str) -> list[float | None]:
    """The mean of an axis for each entry; None if it is unknown for some trial."""
    found = [[_read(one, axis) for one in known if one.value is not None] for known in seen]
    return [
        None if not values or None in values else float(np.mean([v for v in values if v is not None]))
        for values in found
    ]


def _read(one: Observation, axis: str) -> float | None:
    """The value of an observation on an axis."""
    return one.value if axis == "value" else one.trial.cost if axis == "cost" else one.trial.took


def _chances(seen: Sequence[Seen], axes: Sequence[str], sign: int, seed: int) -> list[float]:
    """The probability of each entry to be on the front, by the bootstrap."""
    known = [[one for one in observations if one.value is not None] for observations in seen]
    labels = [one.trial.unit for observations in known for one in observations]
    codes, units = coded(labels, len(labels))
    ends = np.cumsum([0, *map(len, known)])
    tables = [
        _sums(observations, codes[ends[i] : ends[i + 1]], units, axes, sign)
        for i, observations in enumerate(known)
    ]
    rng = np.random.default_rng(seed)
    parts = [_drawn(tables, rng, min(CHUNK, DRAWS - done)) for done in range(0, DRAWS, CHUNK)]
    return _undominated(np.concatenate(parts, axis=1))


def _sums(known: Seen, codes: Codes, units: int, axes: Sequence[str], sign: int) -> Floats:
    """For each unit the sums of all axes, signed so that more is better, and the number of trials."""
    columns = [
        (sign if axis == "value" else -1)
        * np.bincount(codes, np.array([_read(one, axis) for one in known], dtype=np.float64), units)
        for axis in axes
    ]
    return np.stack([*columns, np.bincount(codes, minlength=units)], axis=1).astype(np.float64)


def _drawn(tables: Sequence[Floats], rng: np.random.Generator, draws: int) -> Floats:
    """Resampled means by entry, draw and axis; NaN if a resample has no trial of an entry."""
    units = len(tables[0])
    drawn = rng.integers(0, units, (draws, units))
    times = np.stack([np.bincount(row, minlength=units) for row in drawn]).astype(np.float64)
    with np.errstate(invalid="ignore", divide="ignore"):
        sums = np.stack([times @ table for table in tables])
        found: Floats = sums[:, :, :-1] / sums[:, :, -1:]
    return found


def _undominated(draws: Floats) -> list[float]:
    """The share of draws in which no other entry dominates."""
    chances = []
    for i in range(len(draws)):
        beaten = np.zeros(draws.shape[1], dtype=bool)
        for j in range(len(draws)):
            if i != j:
                no_worse = (draws[j] >= draws[i]).all(axis=1)
                beaten |= no_worse & (draws[j] > draws[i]).any(axis=1)
        chances.append(float(1 - beaten.mean()))
    return chances


# Leaderboard


def leaderboard(
    trials: Iterable[TrialResult],
    by: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    lowest_first: bool = False,
    notes: Sequence[str] = (),
) -> Leaderboard:
    """The leaderboard of all combinations of `by`.

    Without names, of the agent and all varying factors.

    Raises Invalid for a level outside (0, 1), and Unknown for unknown names.
    """
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    found = [trial for trial in trials if not trial.anchor]
    measured = measure(found, score)
    names = tuple(by) or varying(found)
    check_names(names, groupable(found), {name for trial in found for name in trial.scores})
    sign = -1 if lowest_first else 1
    everybody = _entrants(measured, names)
    entrants = sorted((one for one in everybody if one[0].scored), key=lambda one: -sign * _mean(one[1]))
    sides = [found for found, _ in entrants]
    better = _better(Differences(measured), sides, names, level, sign)
    ranked = _ranked([_entry(*one, level) for one in entrants], better)
    ranked_with_front = front(ranked, [seen for _, seen in entrants], sign)
    unscored = [_entry(*one, level) for one in everybody if not one[0].scored]
    entries = (*ranked_with_front, *unscored)
    return Leaderboard(
        names, measured.name, level, entries, _wins(sides, sign), _notes(entries, better, notes)
    )


def varying(trials: Sequence[TrialResult]) -> tuple[str, ...]:
    """ "agent" if there are several, and every factor with more than one level."""
    names = dict.fromkeys(["agent", *(name for trial in trials for name in trial.condition)])
    return tuple(name for name in names if len({key_of(label_of(trial, name)) for trial in trials}) > 1)


Entrant = tuple[Side, list[Observation]]
"""A side and its observations."""


def _entrants(measured: Measured, by: tuple[str, ...]) -> list[Entrant]:
    """The sides of all combinations of the factors."""
    by_key: dict[tuple[LabelKey, ...], list[Observation]] = {}
    for one in measured.observations:
        key = tuple(key_of(label_of(one.trial, name)) for name in by)
        by_key.setdefault(key, []).append(one)
    shown = unique(_shown(seen[0].trial, by) for seen in by_key.values())
    return [(side(label, seen, by), seen) for label, seen in zip(shown, by_key.values(), strict=True)]


def _shown(trial: TrialResult, by: tuple[str, ...]) -> str:
    """The label of an entry."""
    return ", ".join(cell(label_of(trial, name)) for name in by) or "all"


def _entry(found: Side, seen: Sequence[Observation], level: float) -> LeaderboardEntry:
    """The entry of a side: its mean, and the number of values and of lost trials."""
    values = [one.value for one in seen if one.value is not None]
    units = [one.trial.unit for one in seen if one.value is not None]
    return LeaderboardEntry(
        found.label, estimate(values, units, level) if values else None, len(values), found.lost
    )


def _mean(seen: Sequence[Observation]) -> float:
    """The mean of the observed values."""
    return float(np.mean([one.value for one in seen if one.value is not None]))


def _better(
    differences: Differences, sides: Sequence[Side], by: Sequence[str], level: float, sign: int
) -> set[tuple[int, int]] | None:
    """The pairs that differ significantly, better one first.

    None if no two entries have a common case.
    """
    factor = by[0] if len(by) == 1 else ""
    pairs = list(combinations(range(len(sides)), 2))
    found = [differences.between(sides[i], sides[j], factor) for i, j in pairs]
    known = [one.known and one.model != "groups" for one in found]
    if not any(known):
        return None
    chances = [one.evidence().p if comparable else None for one, comparable in zip(found, known, strict=True)]
    alpha = round(1 - level, 12)
    return {
        (i, j) if sign * one.estimate(level).mean > 0 else (j, i)
        for (i, j), one, p in zip(pairs, found, holm(chances), strict=True)
        if p is not None and p <= alpha
    }


def _ranked(entries: list[LeaderboardEntry], better: set[tuple[int, int]] | None) -> list[LeaderboardEntry]:
    """The entries with rank intervals and letters."""
    if better is None:
        return entries
    ranks, marks = rank_intervals(len(entries), better), letters(range(len(entries)), better)
    return [
        replace(entry, best=rank[0], worst=rank[1], letters=mark)
        for entry, rank, mark in zip(entries, ranks, marks, strict=True)
    ]


def _wins(sides: Sequence[Side], sign: int) -> tuple[tuple[int, ...], ...]:
    """The number of cases (per condition) each entry won against each other.

    Ties count for neither.
    """
    scored = [found.scored for found in sides]
    return tuple(
        tuple(sum(sign * (one[key].mean - two[key].mean) > 0 for key in one if key in two) for two in scored)
        for one in scored
    )


def _notes(
    entries: Sequence[LeaderboardEntry], better: set[tuple[int, int]] | None, notes: Sequence[str]
) -> tuple[str, ...]:
    """Notes on lost trials, and on entries without common cases."""
    lines = list(notes)
    if better is None and sum(entry.mean is not None for entry in entries) > 1:
        lines.insert(0, "the entries have no case in common: ranks are not compared")
    if lost := sum(entry.lost for entry in entries):
        lines.insert(0, f"not in the means: {lost} lost {'trial' if lost == 1 else 'trials'}")
    return tuple(lines)
