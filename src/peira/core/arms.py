"""Levels of a factor as arms of a comparison: which conditions have them, and which meet which."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from peira.core.ids import Json, canonical
from peira.core.looks import Group


class Arm:
    """A level, and the numbers of the conditions that have it, by what else they are."""

    def __init__(self, level: Json) -> None:
        self.level, self.label = level, level if isinstance(level, str) else canonical(level).decode()
        self._contexts: dict[bytes, list[int]] = {}

    def add(self, number: int, rest: Mapping[str, Json]) -> None:
        self._contexts.setdefault(canonical(rest), []).append(number)

    @property
    def conditions(self) -> list[int]:
        return [number for numbers in self._contexts.values() for number in numbers]

    def against(self, other: Arm) -> tuple[Group, ...]:
        """The same other levels with each other; where the sides have none in common, all with all."""
        common = [key for key in self._contexts if key in other._contexts]
        if not common:
            return ((tuple(self.conditions), tuple(other.conditions)),)
        return tuple((tuple(self._contexts[key]), tuple(other._contexts[key])) for key in common)


def arms_of(conditions: Iterable[Mapping[str, Json]], by: str) -> list[Arm]:
    """The levels of a factor, in the order in which they come; conditions without it are left out."""
    arms: dict[bytes, Arm] = {}
    for number, condition in enumerate(conditions):
        if by in condition:
            rest = {name: value for name, value in condition.items() if name != by}
            arms.setdefault(canonical(condition[by]), Arm(condition[by])).add(number, rest)
    return list(arms.values())
