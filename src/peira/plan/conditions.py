"""Conditions: assignments of factor levels, as a list or lazily as all combinations; level labels.

A full factorial of ten million combinations takes no memory: its size and the combination at any index follow
from the levels.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import overload

import msgspec

from peira.core.ids import Json, canonical, digest
from peira.spec.factors import Block, Factor
from peira.spec.values import read_value


class LevelLabels(msgspec.Struct, frozen=True):
    """The labels of levels, by factor and canonical value."""

    known: Mapping[str, Mapping[bytes, str]] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, factors: Iterable[Factor | Block]) -> LevelLabels:
        """The labels declared by these factors and blocks."""
        found = {
            one.name: {canonical(level.value): level.label for level in one.levels if level.label}
            for one in factors
        }
        return cls({name: labels for name, labels in found.items() if labels})

    @classmethod
    def kept(cls, snapshot: Mapping[str, Json]) -> LevelLabels:
        """The labels declared in the study snapshot of a run."""
        entries = [(name, spec) for kind in ("factors", "blocks") for name, spec in declared(snapshot, kind)]
        return cls.of(
            read_value(Factor, {"name": name, **spec})
            for name, spec in entries
            if any(isinstance(level, Mapping) and "label" in level for level in spec.get("levels", ()))
        )

    def shown(self, condition: Mapping[str, Json]) -> Mapping[str, Json]:
        """The condition with levels replaced by their labels."""
        if self.known.keys().isdisjoint(condition):
            return condition
        return {name: self.of_level(name, value) for name, value in condition.items()}

    def of_level(self, factor: str, value: Json) -> Json:
        """The label of a level, or its value if it has none."""
        return self.known[factor].get(canonical(value), value) if factor in self.known else value


def declared(snapshot: Mapping[str, Json], kind: str) -> list[tuple[str, dict[str, Json]]]:
    """The declared factors or blocks of a snapshot, by name."""
    entries = snapshot.get(kind, {})
    return [(name, spec if isinstance(spec, dict) else {"levels": spec}) for name, spec in entries.items()]


class Condition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One assignment of factor levels for one agent, as one run of the design.

    If the same assignment occurs in several runs of the design, `first` numbers their replicates
    consecutively.
    """

    agent: str
    """The label of the agent."""
    agent_digest: str
    factors: dict[str, Json]
    """The levels that the agent receives, by factor."""
    digest: str
    """The digest of `factors`."""
    cases: str = ""
    """The label of the case set."""
    block: str = ""
    """The block of the design run; "" if there are none."""
    shown: dict[str, Json] = {}
    """The levels as displayed, with the agent if agents are labelled."""
    reasons: tuple[str, ...] = ()
    """Why constraints exclude the condition; empty if it is admissible."""
    warnings: tuple[str, ...] = ()
    """Messages of violated soft constraints."""
    plot: str = ""
    """The whole plot of a split-plot design."""
    replicates: int = 1
    """How often the design runs the condition."""
    first: int = 0
    """Replicates of the same assignment in earlier runs of the design."""


class Grid(msgspec.Struct, frozen=True, omit_defaults=True):
    """All combinations for one agent, as the levels of its factors in order."""

    agent: str
    agent_digest: str
    levels: dict[str, list[Json]]
    """The levels of each factor; the last factor varies fastest."""

    def __len__(self) -> int:
        return math.prod(map(len, self.levels.values()))

    def at(self, index: int) -> dict[str, Json]:
        """The combination at an index; the last factor varies fastest."""
        found = []
        for values in reversed(self.levels.values()):
            index, place = divmod(index, len(values))
            found.append(values[place])
        return dict(zip(self.levels, reversed(found), strict=True))


class Crossed(Sequence[Condition]):
    """A lazy sequence of all combinations of levels, for every agent and case set.

    `kept` are the indices of the admissible combinations; None if all are.
    """

    def __init__(
        self, grids: Sequence[Grid], cases: Sequence[str], labelled: bool, kept: array[int] | None = None
    ) -> None:
        self.grids, self.cases, self.labelled, self.kept = tuple(grids), tuple(cases), labelled, kept

    @property
    def size(self) -> int:
        """The number of combinations, admissible or not."""
        return sum(map(len, self.grids)) * len(self.cases)

    def __len__(self) -> int:
        return self.size if self.kept is None else len(self.kept)

    @overload
    def __getitem__(self, at: int) -> Condition: ...
    @overload
    def __getitem__(self, at: slice) -> list[Condition]: ...
    def __getitem__(self, at: int | slice) -> Condition | list[Condition]:
        if isinstance(at, slice):
            return [self[place] for place in range(*at.indices(len(self)))]
        if not -len(self) <= at < len(self):
            raise IndexError(at)
        at %= len(self)
        return self.make(at if self.kept is None else self.kept[at])

    def make(self, index: int) -> Condition:
        """The combination at an index among all, admissible or not."""
        index, case = divmod(index, len(self.cases))
        for grid in self.grids:
            if index < len(grid):
                return assigned(
                    grid.agent, grid.agent_digest, grid.at(index), self.cases[case], self.labelled
                )
            index -= len(grid)
        raise IndexError(index)

    def every(self) -> Iterator[Condition]:
        """All combinations, admissible or not."""
        return map(self.make, range(self.size))


def assigned(
    agent: str, agent_digest: str, factors: dict[str, Json], cases: str, labelled: bool
) -> Condition:
    """A condition for this assignment, before constraints are checked."""
    factors = {**factors, "cases": cases} if cases else factors
    return Condition(
        agent=agent,
        agent_digest=agent_digest,
        factors=factors,
        digest=digest(factors),
        cases=cases,
        shown={"agent": agent, **factors} if labelled else factors,
    )


def values_of(conditions: Sequence[Condition]) -> dict[str, dict[str, Json]]:
    """The distinct values of each factor by digest, in order of first occurrence."""
    values: dict[str, dict[str, Json]] = {}
    if isinstance(conditions, Crossed):
        for grid in conditions.grids:
            for name, levels in grid.levels.items():
                values.setdefault(name, {}).update((digest(value), value) for value in levels)
        return values
    for condition in conditions:
        for name, value in condition.factors.items():
            values.setdefault(name, {})[digest(value)] = value
    return values


def agents_of(conditions: Sequence[Condition]) -> dict[str, str]:
    """The digests of the agents, by label."""
    if isinstance(conditions, Crossed):
        return {grid.agent: grid.agent_digest for grid in conditions.grids}
    return {condition.agent: condition.agent_digest for condition in conditions}


def shown_names(conditions: Sequence[Condition]) -> dict[str, None]:
    """The names under which conditions are displayed, as an ordered set."""
    if isinstance(conditions, Crossed):
        sample: Mapping[str, Json] = conditions[0].shown if len(conditions) else {}
        names = [name for grid in conditions.grids for name in grid.levels]
        return dict.fromkeys([*sample, *names])
    return {name: None for condition in conditions for name in condition.shown}
