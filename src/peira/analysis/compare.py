"""Comparing levels of a factor, agents, or runs: which sides, in which family, corrected how."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from peira.analysis.comparison import Comparison
from peira.analysis.contrasts import Wish, contrast
from peira.analysis.family import chosen, simultaneous
from peira.analysis.levels import Pair, choose_pairs, levels_of
from peira.analysis.measures import Measured, measure
from peira.analysis.sides import match, side
from peira.analysis.trials import TrialResult
from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Unknown
from peira.stats.multiplicity import family_level


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
    pairs = choose_pairs(levels_of(measured, by), a, b, baseline)
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


def compare_sides(
    by: str, measured: Measured, pairs: Sequence[Pair], wish: Wish, notes: Sequence[str] = ()
) -> Comparison:
    """The family of these comparisons, corrected as wished."""
    wish = replace(wish, correction=chosen(wish.correction, wish.declared, pairs))
    family = len(pairs) > 1 and wish.correction in ("holm", "bonferroni")
    level = family_level(wish.level, len(pairs)) if family else wish.level
    found = [contrast(match(*pair), measured, replace(wish, level=level), wish.alpha) for pair in pairs]
    adjusted = simultaneous(found, pairs, wish.correction, wish.level, wish.alternative)
    correction = wish.correction or "" if len(pairs) > 1 else ""
    return Comparison(by, measured.name, wish.level, correction, tuple(adjusted), wish.margin, tuple(notes))
