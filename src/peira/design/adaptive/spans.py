"""Differences and means within one unit of evidence, with their ends where trials were lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BeforeValidator

from peira.core.looks import Group, Span, Unit
from peira.errors import Invalid


def mean(unit: Unit, conditions: Sequence[int]) -> Span | None:
    """Over those of the conditions that met the unit; None if none did."""
    if len(conditions) == 1:
        return unit.get(conditions[0])
    found = [unit[number] for number in conditions if number in unit]
    if not found:
        return None
    n = len(found)
    return Span(sum(one.worst for one in found) / n, sum(one.best for one in found) / n)


def difference(unit: Unit, groups: Sequence[Group]) -> Span | None:
    """The first side minus the second, over the groups that both sides have here; None if there is none."""
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


def _range(value: Any) -> tuple[float, float]:
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(v) in (int, float) for v in value):
        least, most = map(float, value)
        if least < most:
            return least, most
    raise Invalid(f"must be the least and the most that a value can be, like [0, 1], not {value!r}")


Range = Annotated[tuple[float, float], BeforeValidator(_range, json_schema_input_type=list[float])]
