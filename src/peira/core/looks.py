"""The values a stopping rule takes and gives, and its protocol.

A rule is given a `Question` (conditions, units, claims) and units of evidence; at each look it gives a `Look`
with the standing of every difference. `Arm` groups the conditions that have the same level of a factor. The
engine records these values, and people read them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from peira.core.ids import Json, canonical
from peira.core.text.words import counted


class Span(NamedTuple):
    """The bounds of a mean, if every lost trial had the worst or the best value; equal if none was lost."""

    worst: float
    best: float


Unit = Mapping[int, Span]
"""One unit of evidence, by condition number."""
Group = tuple[tuple[int, ...], tuple[int, ...]]


class Pair(msgspec.Struct, frozen=True):
    """Two levels, and which conditions of the first are compared with which of the second."""

    first: str
    second: str
    groups: tuple[Group, ...]


class Claim(msgspec.Struct, frozen=True):
    """A declared hypothesis as a rule tests it; `alpha` is its share of the error rate of its plan."""

    name: str
    direction: str
    alpha: float
    pairs: tuple[Pair, ...]


class Question(msgspec.Struct, frozen=True):
    """What a run is to find out: its conditions, planned units, claims, and the better direction."""

    conditions: tuple[Mapping[str, Json], ...]
    units: int
    claims: tuple[Claim, ...] = ()
    maximize: bool = True


class Standing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The state of one difference: its confidence sequence at this look, and the verdict, if any."""

    about: str
    first: str
    second: str
    mean: float | None
    low: float
    high: float
    verdict: str = ""

    def __str__(self) -> str:
        mean = "-" if self.mean is None else f"{self.mean:+.3f}"
        return f"{self.first} - {self.second} {mean} [{self.low:+.3f}, {self.high:+.3f}]"


class Look(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The result of one look of a rule at the evidence.

    `answer` is empty until the rule has decided; `given_up` are the numbers of conditions that need no
    further trials, `dropped` their labels.
    """

    number: int
    units: int
    standings: tuple[Standing, ...] = ()
    given_up: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()
    answer: str = ""
    unit: str = "case"

    def __str__(self) -> str:
        """One line: after 120 cases: a - b +0.080 [-0.010, +0.170], undecided."""
        shown = "; ".join(map(str, self.standings[:MOST_SHOWN]))
        gone = f"; given up: {', '.join(self.dropped)}" if self.dropped else ""
        answer = self.answer or "undecided"
        return f"after {counted(self.units, self.unit)}: {shown}{gone}{', ' if shown else ''}{answer}"


MOST_SHOWN = 3


class Traffic(msgspec.Struct, frozen=True, omit_defaults=True):
    """The probabilities with which the jobs of a stream get its arms.

    `experiment` identifies what is compared, and how: jobs drawn for another one are no evidence for it.
    `jobs` are those whose results led to these shares, `winner` is the arm that all jobs get once it is
    decided (-1 before that), `why` says what it rests on.
    """

    experiment: str
    shares: tuple[float, ...]
    jobs: int = 0
    winner: int = -1
    why: str = ""


class Watch(Protocol):
    """A stopping rule applied to one run."""

    def take(self, unit: Unit) -> Look | None:
        """Add the next unit of evidence, in the planned order; returns a look if one is due, else None.

        The result depends on the units alone: not on the time, and not on the order in which trials finished.
        """
        ...

    def finish(self) -> Look:
        """The final look, when there are no further units."""
        ...


class StopRule(Protocol):
    """When a run may stop early, as a study declares it: the plug-in of kind `stop`, made of its options."""

    @property
    def range(self) -> tuple[float, float]:
        """The range of single values; a value outside it ends the looks, never the run."""
        ...

    def problems(self, study: Any) -> Iterator[str]:
        """Why it cannot be applied to this study, one line each."""
        ...

    def claims(self, study: Any) -> Sequence[str]:
        """The ids of the hypotheses it tests; empty if it tests none."""
        ...

    def outcome(self, study: Any) -> str:
        """The name of the outcome it uses; empty for the primary one."""
        ...

    def watch(self, question: Question) -> Watch:
        """Start applying the rule to a run with this question."""
        ...


class Arm:
    """A level of a factor, and the numbers of the conditions that have it, grouped by their other factors."""

    def __init__(self, level: Json) -> None:
        self.level, self.label = level, level if isinstance(level, str) else canonical(level).decode()
        self._contexts: dict[bytes, list[int]] = {}

    def add(self, number: int, rest: Mapping[str, Json]) -> None:
        """Add a condition, by its number and the levels of its other factors."""
        self._contexts.setdefault(canonical(rest), []).append(number)

    @property
    def conditions(self) -> list[int]:
        """The numbers of all its conditions."""
        return [number for numbers in self._contexts.values() for number in numbers]

    def against(self, other: Arm) -> tuple[Group, ...]:
        """Which of its conditions are compared with which of the other arm's.

        Conditions with the same levels of all other factors are compared with each other; if there are none,
        all conditions of one arm with all of the other.
        """
        common = [key for key in self._contexts if key in other._contexts]
        if not common:
            return ((tuple(self.conditions), tuple(other.conditions)),)
        return tuple((tuple(self._contexts[key]), tuple(other._contexts[key])) for key in common)


def arms_of(conditions: Iterable[Mapping[str, Json]], by: str) -> list[Arm]:
    """The arms of the factor `by`, in order of appearance; conditions without the factor are left out."""
    arms: dict[bytes, Arm] = {}
    for number, condition in enumerate(conditions):
        if by in condition:
            rest = {name: value for name, value in condition.items() if name != by}
            arms.setdefault(canonical(condition[by]), Arm(condition[by])).add(number, rest)
    return list(arms.values())
