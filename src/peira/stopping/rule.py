"""Shared parts of stopping rules: options, and bounds of a difference within one unit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peira.core.looks import Group, Span, Unit
from peira.core.registry import nearest
from peira.spec.study import Study
from peira.spec.values import Range as Range
from peira.spec.values import Value


def mean(unit: Unit, conditions: Sequence[int]) -> Span | None:
    """Bounds of the mean over the conditions observed in the unit; None if there is none."""
    if len(conditions) == 1:
        return unit.get(conditions[0])
    found = [unit[number] for number in conditions if number in unit]
    if not found:
        return None
    n = len(found)
    return Span(sum(one.worst for one in found) / n, sum(one.best for one in found) / n)


def difference(unit: Unit, groups: Sequence[Group]) -> Span | None:
    """Bounds of the mean difference, first side minus second, over the groups observed on both sides.

    None if there is no such group.
    """
    if len(groups) == 1:
        [(one, two)] = groups
        first, second = mean(unit, one), mean(unit, two)
        if first is None or second is None:
            return None
        return Span(first.worst - second.best, first.best - second.worst)
    sides = [(mean(unit, one), mean(unit, two)) for one, two in groups]
    both = [(one, two) for one, two in sides if one is not None and two is not None]
    if not both:
        return None
    n = len(both)
    worst = sum(one.worst - two.best for one, two in both) / n
    return Span(worst, sum(one.best - two.worst for one, two in both) / n)


class LevelRule(Value):
    """`by` is the factor whose levels compete (or "agent"), `score` the outcome (the primary one if it is not
    named); more of it is better unless the outcome says that it is to be minimised."""

    by: str
    score: str = ""
    range: Range = (0.0, 1.0)

    def problems(self, study: Study) -> Iterator[str]:
        """Problems with the named factor and outcome."""
        known = [one.name for one in study.factors if one.levels] + ["agent"] * study.labelled
        if self.by not in known:
            yield f"by: there is no factor {self.by!r} with levels{nearest(self.by, known)}"
        named = {one.name for one in study.outcomes}
        if self.score and named and self.score not in named:
            yield f"score: there is no outcome {self.score!r}{nearest(self.score, named)}"

    def claims(self, study: Study) -> Sequence[str]:
        """None: rules about levels decide no hypotheses."""
        return ()

    def outcome(self, study: Study) -> str:
        """The monitored outcome; "" for the primary one."""
        return self.score
