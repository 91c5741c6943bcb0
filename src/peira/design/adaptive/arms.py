"""What rules that choose among many have in common: the levels of a factor, as arms of a race."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from peira.core.ids import Json, canonical
from peira.core.looks import Group
from peira.core.registry import nearest
from peira.design.adaptive.spans import Range
from peira.spec.study import Study
from peira.spec.values import Value


class Contest(Value):
    """`by` is the factor whose levels compete (or "agent"), `score` the outcome (the primary one if it is not
    named); more of it is better unless the outcome says that it is to be minimised."""

    by: str
    score: str = ""
    range: Range = (0.0, 1.0)

    def problems(self, study: Study) -> Iterator[str]:
        known = [one.name for one in study.factors if one.levels] + ["agent"] * study.labelled
        if self.by not in known:
            yield f"by: there is no factor {self.by!r} with levels{nearest(self.by, known)}"
        named = {one.name for one in study.outcomes}
        if self.score and named and self.score not in named:
            yield f"score: there is no outcome {self.score!r}{nearest(self.score, named)}"

    def claims(self, study: Study) -> Sequence[str]:
        return ()

    def outcome(self, study: Study) -> str:
        return self.score


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
