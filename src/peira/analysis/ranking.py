"""A leaderboard that says how sure it is: means and ranks with intervals, and who can be told apart.

Entries are compared on the cases that all of them have, paired, as one family (the largest t decides), so
that all statements about the order hold together with the chance that the level says.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from peira.analysis.groups import check_names, key_of, label_of
from peira.analysis.layout import cell
from peira.analysis.leaderboard import Entry, Leaderboard
from peira.analysis.levels import LabelKey, unique
from peira.analysis.measures import Measured, Observation, measure
from peira.analysis.pareto import front
from peira.analysis.sides import Side, side
from peira.analysis.trials import TrialResult
from peira.errors import Invalid
from peira.stats.intervals import estimate
from peira.stats.ranks import letters, rank_intervals
from peira.stats.simultaneous import max_t


def leaderboard(
    trials: Iterable[TrialResult],
    by: Sequence[str] = (),
    score: str | None = None,
    level: float = 0.95,
    lowest_first: bool = False,
    notes: Sequence[str] = (),
) -> Leaderboard:
    """Entries are the combinations of `by`; without it, of the agent and all factors that vary."""
    if not 0 < level < 1:
        raise Invalid(f"level: must lie between 0 and 1, not {level!r}")
    found = [trial for trial in trials if not trial.anchor]
    measured = measure(found, score)
    names = tuple(by) or varying(found)
    factors = {name for trial in found for name in trial.condition}
    check_names(names, factors, {name for trial in found for name in trial.scores})
    sign = -1 if lowest_first else 1
    everybody = _entrants(measured, names)
    entrants = sorted((one for one in everybody if one[0].scored), key=lambda one: -sign * _mean(one[1]))
    sides = [found for found, _ in entrants]
    better = _better(sides, level, sign)
    ranked = _ranked([_entry(*one, level) for one in entrants], better)
    told = front(ranked, [seen for _, seen in entrants], sign)
    unscored = [_entry(*one, level) for one in everybody if not one[0].scored]
    entries = (*told, *unscored)
    return Leaderboard(
        names, measured.name, level, entries, _wins(sides, sign), _notes(entries, better, notes)
    )


def varying(trials: Sequence[TrialResult]) -> tuple[str, ...]:
    """The agent, if there are several, and every factor that has more than one level."""
    names = dict.fromkeys(["agent", *(name for trial in trials for name in trial.condition)])
    return tuple(name for name in names if len({key_of(label_of(trial, name)) for trial in trials}) > 1)


Entrant = tuple[Side, list[Observation]]


def _entrants(measured: Measured, by: tuple[str, ...]) -> list[Entrant]:
    gathered: dict[tuple[LabelKey, ...], list[Observation]] = {}
    for one in measured.observations:
        key = tuple(key_of(label_of(one.trial, name)) for name in by)
        gathered.setdefault(key, []).append(one)
    shown = unique(_shown(seen[0].trial, by) for seen in gathered.values())
    leave = {*by, "agent"}
    return [(side(label, seen, leave), seen) for label, seen in zip(shown, gathered.values(), strict=True)]


def _shown(trial: TrialResult, by: tuple[str, ...]) -> str:
    return ", ".join(cell(label_of(trial, name)) for name in by) or "all"


def _entry(found: Side, seen: Sequence[Observation], level: float) -> Entry:
    values = [one.value for one in seen if one.value is not None]
    units = [one.trial.unit for one in seen if one.value is not None]
    return Entry(found.label, estimate(values, units, level) if values else None, len(values), found.lost)


def _mean(seen: Sequence[Observation]) -> float:
    return float(np.mean([one.value for one in seen if one.value is not None]))


def _better(sides: Sequence[Side], level: float, sign: int) -> set[tuple[int, int]] | None:
    """The pairs that differ, better one first; None where the entries share no case to be compared on."""
    scored = [found.scored for found in sides]
    keys = [key for key in scored[0] if all(key in other for other in scored)] if sides else []
    if len(sides) < 2 or not keys:
        return None
    table = np.array([[found[key].mean for found in scored] for key in keys])
    pairs = list(combinations(range(len(sides)), 2))
    told = max_t(table, pairs, [scored[0][key].unit for key in keys], level)
    clear = [one for one in told if one.low is not None and one.high is not None and one.low * one.high > 0]
    return {
        (one.first, one.second) if sign * one.difference > 0 else (one.second, one.first) for one in clear
    }


def _ranked(entries: list[Entry], better: set[tuple[int, int]] | None) -> list[Entry]:
    if better is None:
        return entries
    ranks, marks = rank_intervals(len(entries), better), letters(range(len(entries)), better)
    return [
        replace(entry, best=rank[0], worst=rank[1], letters=mark)
        for entry, rank, mark in zip(entries, ranks, marks, strict=True)
    ]


def _wins(sides: Sequence[Side], sign: int) -> tuple[tuple[int, ...], ...]:
    """How many cases (under a condition) each entry won against each other one; ties count for neither."""
    scored = [found.scored for found in sides]
    return tuple(
        tuple(sum(sign * (one[key].mean - two[key].mean) > 0 for key in one if key in two) for two in scored)
        for one in scored
    )


def _notes(
    entries: Sequence[Entry], better: set[tuple[int, int]] | None, notes: Sequence[str]
) -> tuple[str, ...]:
    said = list(notes)
    if better is None and sum(entry.mean is not None for entry in entries) > 1:
        said.insert(0, "the entries have no case in common: ranks are not compared")
    if lost := sum(entry.lost for entry in entries):
        said.insert(0, f"not in the means: {lost} lost {'trial' if lost == 1 else 'trials'}")
    return tuple(said)
