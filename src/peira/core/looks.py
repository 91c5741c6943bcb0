"""What a stopping rule is asked, and what it says: values that the engine records and people read.

A rule is told *units* of evidence, one after another: a case, or all cases of one cluster, once every trial
of it has ended. A unit is a `Span` for each condition that met it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

import msgspec

from peira.core.ids import Json
from peira.core.words import counted


class Span(NamedTuple):
    """A mean, had every lost trial gone as badly as can be, and as well; equal where none was lost."""

    worst: float
    best: float


Unit = Mapping[int, Span]
"""One unit of evidence, by the number of the condition."""
Group = tuple[tuple[int, ...], tuple[int, ...]]


class Pair(msgspec.Struct, frozen=True):
    """Two levels, and which conditions of the first are compared with which of the second."""

    first: str
    second: str
    groups: tuple[Group, ...]


class Claim(msgspec.Struct, frozen=True):
    """A declared hypothesis as a rule follows it; `alpha` is its share of what its plan allows."""

    name: str
    direction: str
    alpha: float
    pairs: tuple[Pair, ...]


class Question(msgspec.Struct, frozen=True):
    """What a run is to find out: its conditions as they are shown, how many units are planned, what is
    claimed, and whether more of the outcome is better."""

    conditions: tuple[Mapping[str, Json], ...]
    units: int
    claims: tuple[Claim, ...] = ()
    maximize: bool = True


class Standing(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """How one difference stands: an interval that holds at every look at once, and the verdict, if any."""

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
    """What a rule saw at a look. `answer` is empty until it is decided; `given_up` are conditions (by their
    numbers) that need no further trials, `dropped` what they are called."""

    number: int
    units: int
    standings: tuple[Standing, ...] = ()
    given_up: tuple[int, ...] = ()
    dropped: tuple[str, ...] = ()
    answer: str = ""
    unit: str = "case"

    def __str__(self) -> str:
        """In a line: after 120 cases: a - b +0.080 [-0.010, +0.170], undecided."""
        shown = "; ".join(map(str, self.standings[:MOST_SHOWN]))
        gone = f"; given up: {', '.join(self.dropped)}" if self.dropped else ""
        answer = self.answer or "undecided"
        return f"after {counted(self.units, self.unit)}: {shown}{gone}{', ' if shown else ''}{answer}"


MOST_SHOWN = 3


class Watch(Protocol):
    """A stopping rule at work in one run."""

    def take(self, unit: Unit) -> Look | None:
        """The next unit of evidence, in the planned order; what is seen, if this is a moment to look. What
        it says depends on the units alone: not on the time, and not on who was faster."""
        ...

    def finish(self) -> Look:
        """What is seen when there are no further units."""
        ...


class StopRule(Protocol):
    """When a run has seen enough, as a study declares it: the plug-in of kind `stop`, made of its options.

    `range` is where single values lie; one outside it ends the looking, never the run."""

    @property
    def range(self) -> tuple[float, float]: ...

    def problems(self, study: Any) -> Iterator[str]:
        """What it cannot follow in this study, one line each."""
        ...

    def claims(self, study: Any) -> Sequence[str]:
        """The ids of the hypotheses it follows; none if it follows none."""
        ...

    def outcome(self, study: Any) -> str:
        """The outcome it follows; empty for the primary one."""
        ...

    def watch(self, question: Question) -> Watch: ...
