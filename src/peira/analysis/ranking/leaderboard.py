"""Leaderboards: means and ranks with intervals, letter displays, and the Pareto front of cost.

Entries are compared in pairs, each on the cases that these two share, as one family adjusted by Holm's
method, so that all statements about the order hold simultaneously at the level. The order follows these
differences, not the means, which may be over different cases. Lost trials are in neither; what they could
change is shown as bounds of the means, and as the ranks that hold whatever the lost trials would have been.

For the Pareto front, units of evidence are resampled (the same for every entry): the share of resamples in
which an entry is on the front is the probability shown.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations, pairwise

import msgspec
import numpy as np

from peira.analysis.compare.comparison import doubt_of, named_level
from peira.analysis.compare.contrasts import loss_notes
from peira.analysis.compare.difference import Difference, Differences
from peira.analysis.compare.imputation import Missing, at_worst, check_missing, pooled
from peira.analysis.compare.sides import LabelKey, Side, side, unique
from peira.analysis.ranking.pareto_front import Observations, axis_interval, axis_means, front_chances
from peira.analysis.table.groups import check_names, groupable, key_of, label_of, varying
from peira.analysis.table.measures import Measured, Observation, measure
from peira.core.text import grid as layout
from peira.core.text.grid import cell
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.results.trials import TrialResult
from peira.stats import student
from peira.stats.inputs import Floats, coded
from peira.stats.intervals.means import Limits, bounds, estimate, spread
from peira.stats.tests.multiplicity import holm, letters, rank_intervals
from peira.stats.values import Estimate, clipped, remark_of

# Results

MOST_RIVALS = 4
"""The largest number of entries that the sentence names at once."""


@dataclass(frozen=True)
class LeaderboardEntry:
    """One entry; `best` to `worst` is its rank interval, entries that share a letter do not differ.

    `best_possible` to `worst_possible` is the rank interval that holds whatever the lost trials would have
    been, and `letters_possible` are the letters that do; `doubtful` says that lost trials could make it
    indistinguishable from an entry that it differs from. `lowest` and `highest` are the confidence bounds of
    the mean with these at worst and at best, None if the score has no known worst and best. `cost` (US
    dollars) and `took` (seconds) are means over trials, None if unknown. `on_front` is the probability of
    being on the Pareto front of score, cost and time.
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
    cost_interval: Estimate | None = None
    took_interval: Estimate | None = None
    lowest: float | None = None
    highest: float | None = None
    best_possible: int | None = None
    worst_possible: int | None = None
    letters_possible: str = ""
    doubtful: bool = False
    named: str = ""
    """The label with the names of its factors, where the levels alone would not say what they are."""

    @property
    def spoken(self) -> str:
        """What sentences call it."""
        return self.named or self.label


@dataclass(frozen=True)
class Leaderboard(ResultValue):
    """Entries, best first by their differences, then those without a score.

    `wins[i][j]` counts the cases that i won against j.
    """

    by: tuple[str, ...]
    score: str
    level: float
    entries: tuple[LeaderboardEntry, ...]
    wins: tuple[tuple[int, ...], ...] = ()
    notes: tuple[str, ...] = ()
    hides_tail: bool = False
    """Whether some entries are told apart only if few cases do not hide a long tail."""

    keys = 2

    @property
    def sentence(self) -> str:
        """Which entry is best, or from which others the first cannot be distinguished.

        If the lost trials could overturn it, that is said first.
        """
        ranked = [entry for entry in self.entries if entry.mean is not None]
        if not ranked:
            return "No entry has a score: nothing can be said."
        first = ranked[0]
        if len(self.entries) == 1:
            return "There is one entry, and nothing to rank it with."
        if len(ranked) == 1:
            return f"Only {first.spoken} has a score: there is nothing to rank it with."
        if first.worst is None:
            means = [entry.mean.mean for entry in ranked if entry.mean is not None]
            alike = means.count(means[0])
            who = f"{first.spoken} has" if alike == 1 else f"{alike:,} entries share"
            return f"{who} the best mean on {self.score}; who is best cannot be told."
        if first.worst == 1 and first.worst_possible not in (None, 1):
            lost = sum(entry.lost for entry in ranked)
            doubt = doubt_of(lost, "so few cases" if self.hides_tail or not lost else "")
            failed = ", of what did not fail" if lost else ""
            return f"{doubt}{first.spoken} is best on {self.score}{failed}."
        if first.worst == 1:
            return f"{first.spoken} is best on {self.score}."
        rivals = [e for e in ranked if set(e.letters) & set(first.letters) and e is not first]
        tied = [] if any(e.lost for e in ranked) else [e for e in rivals if _mean_of(e) == _mean_of(first)]
        rest = _listed([e for e in rivals if e not in tied])
        if not tied:
            return f"{first.spoken} leads on {self.score}, but cannot be told apart from {rest}."
        others = f" from {rest}" if rest else ""
        who = _listed([first, *tied], " and ")
        return f"{who} have the same mean on {self.score}, and cannot be told apart{others}."

    def grids(self) -> list[TextGrid]:
        """One row per entry."""
        header = ["rank", ", ".join(self.by) or "entry", f"{self.score} [{100 * self.level:g}% interval]"]
        header += ["group", "n", "cost", "seconds", "P(on front)"]
        rows = [_cells(entry) for entry in self.entries]
        if self.has_bounds:
            header += LOST_COLUMNS
            rows = [[*row, *lost_cells(entry)] for row, entry in zip(rows, self.entries, strict=True)]
        return [TextGrid(header, rows)]

    @property
    def has_bounds(self) -> bool:
        """Whether trials were lost, so that the bounds of means and ranks are shown."""
        return any(entry.lost and entry.best is not None for entry in self.entries)

    def win_matrix(self) -> str:
        """The table of wins (rows against columns) by number of cases."""
        labels = [layout.cell(entry.label) for entry in self.entries if entry.mean is not None]
        rows = [
            [label, *("-" if i == j else str(n) for j, n in enumerate(row))]
            for i, (label, row) in enumerate(zip(labels, self.wins, strict=True))
        ]
        return layout.plain(["wins of", *labels], rows)


def _mean_of(entry: LeaderboardEntry) -> float | None:
    """The mean of an entry, without rounding errors."""
    return None if entry.mean is None else round(entry.mean.mean, 12)


def _listed(entries: Sequence[LeaderboardEntry], last: str = "") -> str:
    """The labels of entries, and how many there are beyond those that are named.

    `last` stands before the last one, if there are no more.
    """
    labels = [entry.spoken for entry in entries]
    between = "; " if any(", " in label for label in labels) else ", "
    if len(labels) > MOST_RIVALS:
        return f"{between.join(labels[:MOST_RIVALS])} and {counted(len(labels) - MOST_RIVALS, 'other')}"
    if last and len(labels) > 1:
        return f"{between.join(labels[:-1])}{last}{labels[-1]}"
    return between.join(labels)


def _cells(entry: LeaderboardEntry) -> list[str]:
    """The cells of an entry's row."""
    mean = "-"
    if entry.mean is not None:
        remark = remark_of(entry.mean.method)
        mean = f"{layout.interval(entry.mean.mean, entry.mean.low, entry.mean.high)}{remark}"
    rank, front = layout.ranks(entry.best, entry.worst), layout.number(entry.on_front)
    prices = price_text(entry.cost_interval), seconds_text(entry.took_interval)
    return [rank, layout.cell(entry.label), mean, group_text(entry), str(entry.n), *prices, front]


def group_text(entry: LeaderboardEntry) -> str:
    """The letters of an entry, with a question mark if lost trials could make it indistinguishable."""
    return f"{entry.letters}{'?' if entry.doubtful else ''}" or "-"


LOST_COLUMNS = ("with lost trials", "rank then", "group then")
"""The columns of `lost_cells`."""


def lost_cells(entry: LeaderboardEntry) -> list[str]:
    """The bounds of the mean, and rank and letters over all possible values of the lost trials."""
    known = entry.lowest is not None and entry.highest is not None
    bounds = f"{entry.lowest:.2f} to {entry.highest:.2f}" if known else "unknown" if entry.lost else "-"
    return [bounds, layout.ranks(entry.best_possible, entry.worst_possible), entry.letters_possible or "-"]


def price_text(price: Estimate | None) -> str:
    """A mean cost or time with its interval; without variation, the mean alone."""
    if price is None or price.low is None or price.high is None:
        return layout.number(None if price is None else price.mean)
    low, high = (layout.number(max(0.0, end)) for end in (price.low, price.high))
    return f"{layout.number(price.mean)} [{low}, {high}]{remark_of(price.method)}"


def seconds_text(took: Estimate | None) -> str:
    """A mean time in seconds with its interval; below a millisecond it is only said to be that."""
    if took is not None and (took.mean if took.high is None else took.high) < MILLISECOND:
        return f"< {MILLISECOND}"
    return price_text(took)


MILLISECOND = 0.001
"""Seconds below which nothing is told apart."""


# Leaderboard


def front(
    entries: Sequence[LeaderboardEntry],
    seen: Sequence[Observations],
    sign: int,
    level: float = 0.95,
    seed: int = 0,
) -> tuple[LeaderboardEntry, ...]:
    """The entries with mean cost and time, and their probability of being on the Pareto front.

    Cost counts only if it is known for every entry, time only if any was taken.
    """
    costs, times = axis_means(seen, "cost"), axis_means(seen, "took")
    priced = [
        replace(
            entry,
            cost=cost,
            took=took,
            cost_interval=None if cost is None else axis_interval(known, "cost", level),
            took_interval=None if took is None else axis_interval(known, "took", level),
        )
        for entry, cost, took, known in zip(entries, costs, times, seen, strict=True)
    ]
    axes = ["value"]
    axes += ["cost"] if all(c is not None for c in costs) and any(costs) else []
    axes += ["took"] if all(t is not None for t in times) and any(times) else []
    if len(axes) < 2 or any(entry.mean is None for entry in entries):
        return tuple(priced)
    chances = front_chances(seen, axes, sign, seed)
    return tuple(replace(entry, on_front=chance) for entry, chance in zip(priced, chances, strict=True))


def leaderboard(
    trials: Iterable[TrialResult],
    by: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    lowest_first: bool = False,
    notes: Sequence[str] = (),
    missing: Missing = "ended",
) -> Leaderboard:
    """The leaderboard of all combinations of `by`.

    Without names, of the agent and all varying factors. `missing` says what is done about lost trials: if
    they are imputed, means, ranks and letters include the uncertainty of what is missing at random.

    Raises Invalid for a level outside (0, 1) or an unknown `missing`, and Unknown for unknown names.
    """
    check_missing(missing)
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    found = [trial for trial in trials if not trial.anchor]
    measured = measure(found, score)
    notes = (*loss_notes(measured, missing, "means"), *notes)
    if missing == "worst":
        measured = at_worst(measured, highest=lowest_first)
    names = tuple(by) or varying(found)
    check_names(names, groupable(found), {name for trial in found for name in trial.scores})
    sign = -1 if lowest_first else 1
    everybody = _entrants(measured, names)
    scored = sorted((one for one in everybody if one[0].scored), key=lambda one: -sign * _mean(one[1]))
    differences = Differences(measured, missing)
    compared = _Pairwise.of(differences, [found for found, _ in scored], names, level, sign)
    order = compared.order([sign * _mean(seen) for _, seen in scored])
    entrants = [scored[place] for place in order]
    sides = [found for found, _ in entrants]
    better, surely = compared.better(order), compared.surely_better(order)
    ends = measured.ends
    filled = [each.measured for each in differences.completed] if missing == "impute" else []
    listed = [_imputed(_entry(*one, level, ends), one[0], filled, level, ends) for one in entrants]
    ranked = _ranked(listed, better, surely)
    ranked_with_front = front(ranked, [seen for _, seen in entrants], sign, level)
    unscored = [_entry(*one, level, ends) for one in everybody if not one[0].scored]
    unscored += _unbegun(measured, names)
    named = {found.label: _named(seen[0].trial, names) for found, seen in everybody}
    entries = tuple(replace(one, named=named.get(one.label, "")) for one in (*ranked_with_front, *unscored))
    hides_tail = compared.hides_tail
    remarks = _notes(entries, better, notes, sign, hides_tail)
    return Leaderboard(names, measured.name, level, entries, _wins(sides, sign), remarks, hides_tail)


RUN = "run"
"""The factor that tells the trials of several runs apart."""


def with_runs(streams: Sequence[Iterable[TrialResult]], labels: Sequence[str]) -> Iterator[TrialResult]:
    """The trials of several runs, each with its run as a factor; Invalid if one has a factor of this name."""
    for stream, label in zip(streams, labels, strict=True):
        for trial in stream:
            if RUN in trial.condition:
                raise Invalid(f"runs: run {label} has a factor named {RUN!r}; rank it by itself")
            yield msgspec.structs.replace(trial, condition={RUN: label, **trial.condition})


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


def _unbegun(measured: Measured, by: tuple[str, ...]) -> list[LeaderboardEntry]:
    """Entries of which no trial has ended."""
    known = {tuple(key_of(label_of(one.trial, name)) for name in by) for one in measured.observations}
    left: dict[tuple[LabelKey, ...], TrialResult] = {}
    for trial in measured.unfinished:
        left.setdefault(tuple(key_of(label_of(trial, name)) for name in by), trial)
    return [LeaderboardEntry(_shown(one, by), None, 0, 0) for key, one in left.items() if key not in known]


def _shown(trial: TrialResult, by: tuple[str, ...]) -> str:
    """The label of an entry."""
    return ", ".join(cell(label_of(trial, name)) for name in by) or "all"


def _named(trial: TrialResult, by: tuple[str, ...]) -> str:
    """The label of an entry as sentences have it: several levels with their factors, and one number."""
    levels = [cell(label_of(trial, name)) for name in by]
    if len(by) == 1:
        return named_level(by[0], levels[0])
    return ", ".join(f"{cell(name)}={level}" for name, level in zip(by, levels, strict=True))


def _entry(found: Side, seen: Sequence[Observation], level: float, ends: Limits | None) -> LeaderboardEntry:
    """The entry of a side: its mean, the numbers of values and of lost trials, and the bounds for these."""
    values = [one.value for one in seen if one.value is not None]
    units = [one.trial.unit for one in seen if one.value is not None]
    lost = [one.trial.unit for one in seen if one.value is None]
    mean = estimate(values, units, level, ends) if values else None
    if not lost or ends is None or mean is None:
        return LeaderboardEntry(found.label, mean, len(values), found.lost)
    outer = bounds(values, units, lost, *ends, level=level)
    return LeaderboardEntry(
        found.label, mean, len(values), found.lost, lowest=outer.lowest, highest=outer.highest
    )


def _imputed(
    entry: LeaderboardEntry, found: Side, filled: Sequence[Measured], level: float, ends: Limits | None
) -> LeaderboardEntry:
    """The entry with its mean pooled over imputations of its lost trials; unchanged if there are none."""
    if not filled or not found.lost or entry.mean is None:
        return entry
    parts = []
    for each in filled:
        seen = [one for one in each.observations if one.trial.id in found.trials and one.value is not None]
        codes, groups = coded([one.trial.unit for one in seen], len(seen))
        values = np.array([one.value for one in seen], dtype=np.float64)
        if groups < 2:
            return entry
        parts.append((float(values.mean()), spread(values, codes)))
    mean, total = pooled(parts)
    method = f"t, {len(parts)} imputations"
    shown = Estimate(mean, *student.around(mean, total, level), entry.n, method)
    return replace(entry, mean=clipped(shown, ends))


def _mean(seen: Sequence[Observation]) -> float:
    """The mean of the observed values."""
    return float(np.mean([one.value for one in seen if one.value is not None]))


@dataclass(frozen=True, eq=False)
class _Pairwise:
    """The differences of all pairs of entries, each on the cases that the two share.

    Entries are numbered as the `sides`; differences are signed so that more is better.
    """

    entries: int
    pairs: tuple[tuple[int, int], ...]
    found: tuple[Difference, ...]
    ends: Limits | None
    level: float
    sign: int

    @classmethod
    def of(
        cls, differences: Differences, sides: Sequence[Side], by: Sequence[str], level: float, sign: int
    ) -> _Pairwise:
        """Estimate the difference of every pair."""
        factor = by[0] if len(by) == 1 else ""
        pairs = tuple(combinations(range(len(sides)), 2))
        found = tuple(differences.between(sides[i], sides[j], factor) for i, j in pairs)
        return cls(len(sides), pairs, found, differences.measured.ends, level, sign)

    @cached_property
    def _known(self) -> list[bool]:
        """Which pairs have cases in common."""
        return [one.known and one.model != "groups" for one in self.found]

    @cached_property
    def _gaps(self) -> list[float]:
        """The estimated differences, 0 where there is none."""
        return [
            self.sign * one.estimate(self.level).mean if known else 0.0
            for one, known in zip(self.found, self._known, strict=True)
        ]

    @cached_property
    def _clear(self) -> set[tuple[int, int]] | None:
        """The pairs that differ significantly, better one first; None if no two have a case in common."""
        if not any(self._known):
            return None
        chances = [
            one.evidence().p if known else None for one, known in zip(self.found, self._known, strict=True)
        ]
        return {
            (i, j) if gap > 0 else (j, i)
            for (i, j), gap, p in zip(self.pairs, self._gaps, holm(chances), strict=True)
            if p is not None and p <= round(1 - self.level, 12) and gap != 0
        }

    @cached_property
    def _surely(self) -> set[tuple[int, int]]:
        """The pairs that stay clear with the lost trials of the better at worst, of the other at best."""
        clear = self._clear or set()
        worst = [
            self._at_worst(one) if {pair, pair[::-1]} & clear else None
            for pair, one in zip(self.pairs, self.found, strict=True)
        ]
        held = [p is not None and p <= round(1 - self.level, 12) for p in holm(worst)]
        return {
            pair if gap > 0 else pair[::-1]
            for pair, gap, holds in zip(self.pairs, self._gaps, held, strict=True)
            if holds
        }

    @cached_property
    def hides_tail(self) -> bool:
        """Whether a pair is clear only if its few units do not hide a long tail."""
        clear = self._clear or set()
        tailed = [
            None if not known else one.evidence().p if (p := one.tailed()) is None else p
            for one, known in zip(self.found, self._known, strict=True)
        ]
        return any(
            {pair, pair[::-1]} & clear and (p is None or p > round(1 - self.level, 12))
            for pair, p in zip(self.pairs, holm(tailed), strict=True)
        )

    def _at_worst(self, one: Difference) -> float | None:
        """The p-value with the lost trials against the observed difference, or with a hidden tail."""
        if one.found.one.lost + one.found.two.lost or (tailed := one.tailed()) is None:
            return one.p_at_worst(self.ends, self.level)
        return tailed

    def order(self, means: Sequence[float]) -> list[int]:
        """The entries, best first: by least squares of the differences, and never against a clear one.

        Each difference counts by its number of shared units. `means` (more is better) serve where entries are
        linked by no difference.
        """
        strengths = self._strengths(np.asarray(means, dtype=np.float64))
        left, found = list(range(self.entries)), list[int]()
        clear = self._clear or set()
        while left:
            free = [j for j in left if not any((i, j) in clear for i in left)] or left
            found.append(max(free, key=lambda i: (round(float(strengths[i]), 12), -i)))
            left.remove(found[-1])
        return found

    def _strengths(self, means: Floats) -> Floats:
        """The least squares fit of all differences, centred on the means of each linked group of entries."""
        matrix, right = np.zeros((self.entries, self.entries)), np.zeros(self.entries)
        for (i, j), one, gap, known in zip(self.pairs, self.found, self._gaps, self._known, strict=True):
            weight = float(one.units) if known else 0.0
            matrix[[i, j], [i, j]] += weight
            matrix[[i, j], [j, i]] -= weight
            right[i] += weight * gap
            right[j] -= weight * gap
        fit: Floats = np.linalg.pinv(matrix) @ right
        linked = np.linalg.matrix_power((matrix != 0) + np.eye(self.entries), max(1, self.entries)) > 0
        for i in range(self.entries):
            group = linked[i]
            if i == int(np.flatnonzero(group)[0]):
                fit[group] += float(means[group].mean() - fit[group].mean())
        return fit

    def better(self, order: Sequence[int]) -> set[tuple[int, int]] | None:
        """The clear pairs, by places in the order; None if no two entries have a case in common."""
        return None if self._clear is None else _placed(self._clear, order)

    def surely_better(self, order: Sequence[int]) -> set[tuple[int, int]]:
        """The pairs that are clear whatever the lost trials would have been, by places in the order."""
        return _placed(self._surely, order)


def _placed(pairs: Iterable[tuple[int, int]], order: Sequence[int]) -> set[tuple[int, int]]:
    """Pairs of entries as pairs of places."""
    place = {entry: index for index, entry in enumerate(order)}
    return {(place[i], place[j]) for i, j in pairs}


def _ranked(
    entries: list[LeaderboardEntry], better: set[tuple[int, int]] | None, surely: set[tuple[int, int]]
) -> list[LeaderboardEntry]:
    """The entries with letters, and with rank intervals without and with the lost trials."""
    if better is None:
        return entries
    ranks, marks = rank_intervals(len(entries), better), letters(range(len(entries)), better)
    possible, firm = rank_intervals(len(entries), surely), letters(range(len(entries)), surely)
    unsure = {place for pair in better - surely for place in pair}
    return [
        replace(
            entry,
            best=rank[0],
            worst=rank[1],
            letters=mark,
            best_possible=outer[0],
            worst_possible=outer[1],
            letters_possible=held,
            doubtful=place in unsure,
        )
        for place, (entry, rank, mark, outer, held) in enumerate(
            zip(entries, ranks, marks, possible, firm, strict=True)
        )
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
    entries: Sequence[LeaderboardEntry],
    better: set[tuple[int, int]] | None,
    notes: Sequence[str],
    sign: int,
    hides_tail: bool,
) -> tuple[str, ...]:
    """Notes on the order, on lost trials, and on entries without common cases."""
    lines = list(notes)
    ranked = [entry for entry in entries if entry.mean is not None]
    means = [sign * entry.mean.mean for entry in ranked if entry.mean is not None]
    if better is None and len(ranked) > 1:
        lines.insert(0, "the entries have no case in common: ranks are not compared")
    elif any(later > earlier + 1e-12 for earlier, later in pairwise(means)):
        lines.insert(0, "in the order of their differences on common cases: means are over different cases")
    if any(entry.doubtful for entry in ranked):
        lost = any(entry.lost for entry in ranked)
        conditions = ["lost trials were like those that ended"] if lost else []
        conditions += ["so few cases hide no long tail"] if hides_tail or not lost else []
        lines.append(f"? told apart from others only if {' and '.join(conditions)}")
    return tuple(lines)
