"""Comparing levels of a factor, agents, or runs: which sides, in which family, corrected how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import combinations

from peira.analysis import layout
from peira.analysis.comparison import Comparison
from peira.analysis.contrasts import Wish, contrast
from peira.analysis.family import simultaneous
from peira.analysis.groups import check_names, key_of, label_of
from peira.analysis.measures import Measured, Observation, measure
from peira.analysis.sides import Side, match, side
from peira.analysis.trials import TrialResult
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.stats.multiplicity import family_level

Pair = tuple[Side, Side]


def compare_levels(
    trials: Iterable[TrialResult],
    by: str,
    a: Json = None,
    b: Json = None,
    score: str | None = None,
    slice: str | None = None,
    baseline: Json = None,
    wish: Wish | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """Levels of a factor (or agents): `a` with `b`; all with the `baseline`; or every pair."""
    measured = measure(_within(trials, slice), score)
    sides = sides_by(measured, by)
    pairs = [(sides[i], sides[j]) for i, j in choose_pairs(list(sides), a, b, baseline)]
    return compare_sides(by, measured, pairs, wish or Wish(), notes)


def compare_runs(
    one: Iterable[TrialResult],
    two: Iterable[TrialResult],
    labels: tuple[str, str],
    score: str | None = None,
    slice: str | None = None,
    wish: Wish | None = None,
    notes: Sequence[str] = (),
) -> Comparison:
    """Two runs, paired on what both did: the same case with the same agent under the same condition."""
    trials = [list(_within(found, slice)) for found in (one, two)]
    measured = measure([*trials[0], *trials[1]], score)
    of = [measure(found, measured.name) for found in trials]
    sides = [side(label, found.observations, ()) for label, found in zip(labels, of, strict=True)]
    return compare_sides("run", measured, [(sides[0], sides[1])], wish or Wish(), notes)


def _within(trials: Iterable[TrialResult], slice: str | None) -> list[TrialResult]:
    found = list(trials)
    if slice is None:
        return found
    kept = [trial for trial in found if trial.slice == slice]
    if found and not kept:
        names = {trial.slice for trial in found if trial.slice is not None}
        raise Unknown(f"no slice {slice!r}{nearest(slice, names)}")
    return kept


def sides_by(measured: Measured, by: str) -> dict[str, Side]:
    """The observations of each level, in the order in which the levels come."""
    gathered: dict[str | bytes, list[Observation]] = {}
    labels: dict[str | bytes, str] = {}
    trials = [one.trial for one in measured.observations]
    factors = {name for trial in trials for name in trial.condition}
    check_names([by], factors, {name for trial in trials for name in trial.scores})
    for one in measured.observations:
        label = label_of(one.trial, by)
        key = key_of(label)
        if key not in labels:
            labels[key] = layout.cell(label)
        gathered.setdefault(key, []).append(one)
    return {labels[key]: side(labels[key], group, (by,)) for key, group in gathered.items()}


def choose_pairs(names: list[str], a: Json, b: Json, baseline: Json) -> list[tuple[str, str]]:
    """Which levels with which: `a` with `b`; all with the baseline; or every pair."""
    if len(names) < 2:
        raise Invalid(f"there is nothing to compare: {', '.join(names) or 'no trial'} is all there is")
    first, second, base = (None if one is None else _named(one, names) for one in (a, b, baseline))
    if first is not None and second is not None:
        if first == second:
            raise Invalid(f"{first} cannot be compared with itself")
        return [(first, second)]
    if base is not None or first is not None or second is not None:
        against = second or base
        if against is None:
            return [(str(first), name) for name in names if name != first]
        return [(name, against) for name in ([first] if first else names) if name != against]
    return [(later, earlier) for earlier, later in combinations(names, 2)]


def _named(wanted: Json, names: Sequence[str]) -> str:
    shown = layout.cell(wanted)
    if shown not in names:
        raise Unknown(f"no level {shown!r}{nearest(shown, names)}")
    return shown


def compare_sides(
    by: str, measured: Measured, pairs: Sequence[Pair], wish: Wish, notes: Sequence[str] = ()
) -> Comparison:
    """The family of these comparisons, corrected as wished."""
    family = len(pairs) > 1 and wish.correction in ("holm", "bonferroni")
    level = family_level(wish.level, len(pairs)) if family else wish.level
    found = [contrast(match(*pair), measured, replace(wish, level=level), wish.alpha) for pair in pairs]
    adjusted = simultaneous(found, pairs, wish.correction, wish.level, wish.alternative)
    correction = wish.correction or "" if len(pairs) > 1 else ""
    return Comparison(by, measured.name, wish.level, correction, tuple(adjusted), wish.margin, tuple(notes))
