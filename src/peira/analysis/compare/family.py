"""Families of comparisons: the correction for multiplicity of p-values and intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import Field, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Protocol, TypeVar, get_args

import numpy as np

from peira.analysis.compare.comparison import Contrast
from peira.analysis.compare.sides import Key, Side
from peira.errors import Invalid
from peira.stats.tests import multiplicity as classical
from peira.stats.tests.multiplicity import (
    FamilyDifference,
    LargestT,
    P,
    benjamini_hochberg,
    bonferroni,
    family_level,
    holm,
    largest_t,
)
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


class SingleTest(Protocol):
    """A dataclass with the p-value of a single test, and that if few units hide a long tail (`tailed`).

    It has a field `adjusted` for the p-value within the family.
    """

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    @property
    def p(self) -> float | None: ...

    @property
    def tailed(self) -> float | None: ...

    @property
    def test(self) -> str: ...


Tested = TypeVar("Tested", bound=SingleTest)


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


@dataclass(frozen=True)
class Family:
    """A family of comparisons with its correction: the level of each interval, and the adjusted p-values.

    Raises Invalid if the correction does not fit the sides.
    """

    pairs: Sequence[tuple[Side, Side]]
    correction: str | None
    level: float

    @property
    def is_corrected(self) -> bool:
        """Whether anything is adjusted: there are several comparisons, and a correction."""
        return self.correction is not None and len(self.pairs) > 1

    @cached_property
    def own_level(self) -> float:
        """The level of each interval; the largest t and Bonferroni's correction make all hold together."""
        if self.is_corrected and self.correction in ("holm", "bonferroni"):
            return family_level(self.level, len(self.pairs))
        return self.level if self.joint is None else self.joint.own_level(self.level)

    @cached_property
    def joint(self) -> LargestT | None:
        """The joint distribution of Dunnett's or Tukey's comparisons; None without cases that all have."""
        if not self.is_corrected or self.correction in ADJUST:
            return None
        sides = {side.label: side for pair in self.pairs for side in pair}
        _is_family(str(self.correction), [(one.label, two.label) for one, two in self.pairs], len(sides))
        keys = _common(list(sides.values()))
        if not keys:
            return None
        table = np.array([[side.cells[key].mean for side in sides.values()] for key in keys])
        places = {label: place for place, label in enumerate(sides)}
        contrasts = [(places[one.label], places[two.label]) for one, two in self.pairs]
        units = [next(iter(sides.values())).cells[key].unit for key in keys]
        return largest_t(table, contrasts, units)

    def adjusted(
        self,
        found: Sequence[Contrast],
        alternative: Alternative = "two-sided",
        reach: float | None = None,
    ) -> list[Contrast]:
        """The contrasts, which have intervals of the own level, with adjusted p-values.

        No interval extends beyond `reach`, the largest possible difference. Raises Invalid if the correction
        does not fit the data.
        """
        if not self.is_corrected:
            return list(found)
        if self.correction in ADJUST:
            return stepwise(found, self.correction)
        if alternative != "two-sided":
            raise Invalid(f"correction: {self.correction} is two-sided; use holm for a direction")
        if self.joint is not None:
            return [with_joint_p(one, self.joint, str(self.correction)) for one in found]
        apart = _independent_groups(found, self.pairs, str(self.correction), self.level)
        return [
            one if one.difference is None else replace(one, difference=within(one.difference, reach))
            for one in apart
        ]


def stepwise(found: Sequence[Tested], correction: str) -> list[Tested]:
    """The contrasts with p-values adjusted by a correction of `ADJUST`."""
    adjust = ADJUST[correction]
    adjusted = adjust([one.p for one in found])
    tailed = adjust([one.p if one.tailed is None else one.tailed for one in found])
    return [
        replace(one, adjusted=p, tailed=None if one.tailed is None else q)
        for one, p, q in zip(found, adjusted, tailed, strict=True)
    ]


def with_joint_p(one: Tested, joint: LargestT, correction: str) -> Tested:
    """The contrast with the p-value adjusted by the largest t."""
    if one.p is None:
        return one
    tailed = None if one.tailed is None else joint.adjusted(one.tailed)
    return replace(one, adjusted=joint.adjusted(one.p), tailed=tailed, test=f"{one.test}, {correction}")


def _independent_groups(
    found: Sequence[Contrast], pairs: Sequence[tuple[Side, Side]], correction: str, level: float
) -> list[Contrast]:
    """Dunnett's or Tukey's classical test, for sides without common cases."""
    sides = list({side.label: side for pair in pairs for side in pair}.values())
    if any(contrast.paired for contrast in found) or not all(side.scored for side in sides):
        raise Invalid(f"correction: {correction} needs cases that all sides have scores of; use holm")
    samples = {side.label: _by_unit(side) for side in sides}
    if correction == "dunnett":
        control = pairs[0][1].label
        others = [one.label for one, _ in pairs]
        estimates = classical.dunnett(samples[control], [samples[label] for label in others], level)
        return [_with_estimate(one, each, correction) for one, each in zip(found, estimates, strict=True)]
    labels = list(samples)
    every = classical.tukey([samples[label] for label in labels], level)
    known = {(labels[one.first], labels[one.second]): one for one in every}
    known |= {(b, a): _reversed(one) for (a, b), one in known.items()}
    return [
        _with_estimate(one, known[a.label, b.label], correction)
        for one, (a, b) in zip(found, pairs, strict=True)
    ]


def _by_unit(side: Side) -> list[float]:
    """The unit means of a side."""
    by_unit: dict[object, list[float]] = {}
    for cell in side.scored.values():
        by_unit.setdefault(cell.unit, []).append(cell.mean)
    return [sum(values) / len(values) for values in by_unit.values()]


def _reversed(one: FamilyDifference) -> FamilyDifference:
    """The same difference with its sides exchanged."""
    low, high = (None if end is None else -end for end in (one.high, one.low))
    return FamilyDifference(one.second, one.first, -one.difference, low, high, one.p)


def _with_estimate(one: Contrast, joint: FamilyDifference, correction: str) -> Contrast:
    """The contrast with the simultaneous interval and p-value, but never less cautious than by itself.

    The classical tests presume a common variance and normal values, the contrast does not.
    """
    own = one.difference
    if own is None:
        return one
    if None in (own.low, own.high, one.p) or joint.low is None or joint.high is None or joint.p is None:
        return replace(
            one, adjusted=None, tailed=None, difference=replace(own, low=None, high=None, method="unknown")
        )
    low, high, p = (float(value or 0.0) for value in (own.low, own.high, one.p))
    shown = replace(own, low=min(low, joint.low), high=max(high, joint.high), method=correction)
    adjusted = max(p, joint.p)
    tailed = None if one.tailed is None else max(one.tailed, adjusted)
    test = f"largest t, {correction}"
    return replace(one, difference=shown, adjusted=adjusted, tailed=tailed, test=test)


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
