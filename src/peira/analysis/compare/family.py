"""Families of comparisons: the correction for multiplicity of p-values and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from peira.analysis.compare.comparison import Contrast
from peira.analysis.compare.sides import Key, Side
from peira.errors import Invalid
from peira.stats.tests import multiplicity as joint
from peira.stats.tests.multiplicity import P, benjamini_hochberg, bonferroni, holm
from peira.stats.values import Alternative, within

Correction = Literal["declared", "holm", "bh", "bonferroni", "dunnett", "tukey"]
"""A correction by name; "declared" means that of the analysis plan, else Holm's."""
CORRECTIONS: tuple[str, ...] = get_args(Correction)
"""All names of corrections."""
ADJUST: dict[str, Callable[[P], list[float | None]]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "bonferroni": bonferroni,
}
"""The corrections that adjust p-values only."""


def chosen(correction: str | None, declared: str, pairs: Sequence[tuple[Side, Side]]) -> str | None:
    """The correction to use: the declared one if it fits this family, else Holm's.

    Dunnett fits comparisons with a single baseline and Tukey all pairs. An explicit `correction`, or None for
    no correction, is returned unchanged.
    """
    if correction != "declared":
        return correction
    labels = {side.label for pair in pairs for side in pair}
    whole = len(pairs) == len(labels) * (len(labels) - 1) // 2
    against = len({two.label for _, two in pairs}) == 1
    fits = {"dunnett": against, "tukey": whole, "": False, "none": False}.get(declared, True)
    return declared if fits else "holm"


def simultaneous(
    found: Sequence[Contrast],
    pairs: Sequence[tuple[Side, Side]],
    correction: str | None,
    level: float,
    alternative: Alternative = "two-sided",
    reach: float | None = None,
) -> list[Contrast]:
    """The contrasts with adjusted p-values and, by Dunnett or Tukey, simultaneous intervals.

    No interval extends beyond `reach`, the largest possible difference. Raises Invalid if the correction does
    not fit the family or the data.
    """
    if correction is None or len(found) < 2:
        return list(found)
    if correction in ADJUST:
        adjusted = ADJUST[correction]([contrast.p for contrast in found])
        return [replace(contrast, adjusted=p) for contrast, p in zip(found, adjusted, strict=True)]
    if alternative != "two-sided":
        raise Invalid(f"correction: {correction} is two-sided; use holm for a direction")
    adjusted_by_max_t = _max_t(found, pairs, correction, level)
    return [
        one if one.difference is None else replace(one, difference=within(one.difference, reach))
        for one in adjusted_by_max_t
    ]


def _max_t(
    found: Sequence[Contrast], pairs: Sequence[tuple[Side, Side]], correction: str, level: float
) -> list[Contrast]:
    """Dunnett's or Tukey's comparisons on the cases that all sides have, by the max-t method."""
    sides = {side.label: side for pair in pairs for side in pair}
    _is_family(correction, [(one.label, two.label) for one, two in pairs], len(sides))
    keys = _common(list(sides.values()))
    if not keys:
        return _independent_groups(found, list(sides.values()), pairs, correction, level)
    table = np.array([[side.cells[key].mean for side in sides.values()] for key in keys])
    places = {label: place for place, label in enumerate(sides)}
    contrasts = [(places[one.label], places[two.label]) for one, two in pairs]
    units = [next(iter(sides.values())).cells[key].unit for key in keys]
    estimates = joint.max_t(table, contrasts, units, level)
    return [
        _with_estimate(one, each, len(keys), correction) for one, each in zip(found, estimates, strict=True)
    ]


def _independent_groups(
    found: Sequence[Contrast],
    sides: Sequence[Side],
    pairs: Sequence[tuple[Side, Side]],
    correction: str,
    level: float,
) -> list[Contrast]:
    """Dunnett's or Tukey's classical test, for sides without common cases."""
    if any(contrast.paired for contrast in found) or not all(side.scored for side in sides):
        raise Invalid(f"correction: {correction} needs cases that all sides have scores of; use holm")
    samples = {side.label: _by_unit(side) for side in sides}
    if correction == "dunnett":
        control = pairs[0][1].label
        others = [one.label for one, _ in pairs]
        estimates = joint.dunnett(samples[control], [samples[label] for label in others], level)
        return [
            _with_estimate(one, each, one.n, correction) for one, each in zip(found, estimates, strict=True)
        ]
    labels = list(samples)
    every = joint.tukey([samples[label] for label in labels], level)
    known = {(labels[one.first], labels[one.second]): one for one in every}
    known |= {(b, a): _reversed(one) for (a, b), one in known.items()}
    return [
        _with_estimate(one, known[a.label, b.label], one.n, correction)
        for one, (a, b) in zip(found, pairs, strict=True)
    ]


def _by_unit(side: Side) -> list[float]:
    """The unit means of a side."""
    by_unit: dict[object, list[float]] = {}
    for cell in side.scored.values():
        by_unit.setdefault(cell.unit, []).append(cell.mean)
    return [sum(values) / len(values) for values in by_unit.values()]


def _reversed(one: joint.FamilyDifference) -> joint.FamilyDifference:
    """The same difference with its sides exchanged."""
    low, high = (None if end is None else -end for end in (one.high, one.low))
    return joint.FamilyDifference(one.second, one.first, -one.difference, low, high, one.p)


def _with_estimate(contrast: Contrast, joint: joint.FamilyDifference, n: int, correction: str) -> Contrast:
    """The contrast with the simultaneous estimate and adjusted p-value."""
    if contrast.difference is None:
        return contrast
    shown = replace(
        contrast.difference, mean=joint.difference, low=joint.low, high=joint.high, n=n, method=correction
    )
    return replace(contrast, difference=shown, p=None, adjusted=joint.p, test=f"largest t, {correction}", n=n)


def _is_family(correction: str, pairs: Sequence[tuple[str, str]], sides: int) -> None:
    """Raise Invalid unless the pairs form the family that the correction is for."""
    against = {two for _, two in pairs}
    if correction == "dunnett" and (len(against) > 1 or len(pairs) < sides - 1):
        raise Invalid("correction: dunnett compares all with one; name it with baseline=...")
    if correction == "tukey" and len(pairs) < sides * (sides - 1) // 2:
        raise Invalid("correction: tukey compares every pair; use dunnett for all with a baseline")


def _common(sides: Sequence[Side]) -> list[Key]:
    """The keys that all sides have scores for."""
    first, *others = (side.scored for side in sides)
    return [key for key in first if all(key in other for other in others)]
