"""Several comparisons at once: what is said of each must hold for the family of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Literal, get_args

import numpy as np

from peira.analysis.contrast import Contrast
from peira.analysis.sides import Key, Side
from peira.errors import Invalid
from peira.stats import simultaneous as joint
from peira.stats.multiplicity import P, benjamini_hochberg, bonferroni, holm
from peira.stats.values import Alternative

Correction = Literal["declared", "holm", "bh", "bonferroni", "dunnett", "tukey"]
CORRECTIONS: tuple[str, ...] = get_args(Correction)
"""As the study's plan says of these hypotheses (else Holm's), or one by name."""
ADJUST: dict[str, Callable[[P], list[float | None]]] = {
    "holm": holm,
    "bh": benjamini_hochberg,
    "bonferroni": bonferroni,
}


def chosen(correction: str | None, declared: str, pairs: Sequence[tuple[Side, Side]]) -> str | None:
    """What to correct by: as declared where it fits the family that is asked about, else by Holm."""
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
) -> list[Contrast]:
    """The contrasts with p-values (and, by Dunnett and Tukey, intervals) of the whole family."""
    if correction is None or len(found) < 2:
        return list(found)
    if correction in ADJUST:
        adjusted = ADJUST[correction]([contrast.p for contrast in found])
        return [replace(contrast, adjusted=p) for contrast, p in zip(found, adjusted, strict=True)]
    if alternative != "two-sided":
        raise Invalid(f"correction: {correction} is two-sided; use holm for a direction")
    return _largest(found, pairs, correction, level)


def _largest(
    found: Sequence[Contrast], pairs: Sequence[tuple[Side, Side]], correction: str, level: float
) -> list[Contrast]:
    """Paired on the cases that all sides have: the largest t of the family decides."""
    sides = {side.label: side for pair in pairs for side in pair}
    _is_family(correction, [(one.label, two.label) for one, two in pairs], len(sides))
    keys = _common(list(sides.values()))
    if not keys:
        return _apart(found, list(sides.values()), pairs, correction, level)
    table = np.array([[side.cells[key].mean for side in sides.values()] for key in keys])
    places = {label: place for place, label in enumerate(sides)}
    contrasts = [(places[one.label], places[two.label]) for one, two in pairs]
    units = [next(iter(sides.values())).cells[key].unit for key in keys]
    told = joint.max_t(table, contrasts, units, level)
    return [_told(one, each, len(keys), correction) for one, each in zip(found, told, strict=True)]


def _apart(
    found: Sequence[Contrast],
    sides: Sequence[Side],
    pairs: Sequence[tuple[Side, Side]],
    correction: str,
    level: float,
) -> list[Contrast]:
    """Sides without a case in common are unrelated groups: the classical tests of those."""
    if any(contrast.paired for contrast in found) or not all(side.scored for side in sides):
        raise Invalid(f"correction: {correction} needs cases that all sides have scores of; use holm")
    samples = {side.label: _by_unit(side) for side in sides}
    if correction == "dunnett":
        control = pairs[0][1].label
        others = [one.label for one, _ in pairs]
        told = joint.dunnett(samples[control], [samples[label] for label in others], level)
        return [_told(one, each, one.n, correction) for one, each in zip(found, told, strict=True)]
    labels = list(samples)
    every = joint.tukey([samples[label] for label in labels], level)
    known = {(labels[one.first], labels[one.second]): one for one in every}
    known |= {(b, a): _turned(one) for (a, b), one in known.items()}
    return [
        _told(one, known[a.label, b.label], one.n, correction)
        for one, (a, b) in zip(found, pairs, strict=True)
    ]


def _by_unit(side: Side) -> list[float]:
    gathered: dict[object, list[float]] = {}
    for cell in side.scored.values():
        gathered.setdefault(cell.unit, []).append(cell.mean)
    return [sum(values) / len(values) for values in gathered.values()]


def _turned(one: joint.Comparison) -> joint.Comparison:
    low, high = (None if end is None else -end for end in (one.high, one.low))
    return joint.Comparison(one.second, one.first, -one.difference, low, high, one.p)


def _told(contrast: Contrast, joint: joint.Comparison, n: int, correction: str) -> Contrast:
    if contrast.difference is None:
        return contrast
    shown = replace(
        contrast.difference, mean=joint.difference, low=joint.low, high=joint.high, n=n, method=correction
    )
    return replace(contrast, difference=shown, p=None, adjusted=joint.p, test=f"largest t, {correction}", n=n)


def _is_family(correction: str, pairs: Sequence[tuple[str, str]], sides: int) -> None:
    against = {two for _, two in pairs}
    if correction == "dunnett" and (len(against) > 1 or len(pairs) < sides - 1):
        raise Invalid("correction: dunnett compares all with one; name it with baseline=...")
    if correction == "tukey" and len(pairs) < sides * (sides - 1) // 2:
        raise Invalid("correction: tukey compares every pair; use dunnett for all with a baseline")


def _common(sides: Sequence[Side]) -> list[Key]:
    first, *others = (side.scored for side in sides)
    return [key for key in first if all(key in other for other in others)]
