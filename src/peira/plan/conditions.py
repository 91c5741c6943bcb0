"""Conditions: one assignment of factors each. A list of them, or all combinations, made when looked at.

Ten million combinations cost nothing until they are run: their number and the one at any place follow from
the levels alone.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterator, Mapping, Sequence
from typing import overload

import msgspec

from peira.core.ids import Json, digest


class Condition(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """One assignment of factors, for one agent. `factors` is what the agent gets and what counts.

    The design may run it several times (`replicates`), in a `block` or a whole `plot`; where it has the same
    assignment in several places, `first` counts the replicates that the earlier ones have."""

    agent: str
    agent_digest: str
    factors: dict[str, Json]
    digest: str
    cases: str = ""
    block: str = ""
    shown: dict[str, Json] = {}
    reasons: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    plot: str = ""
    replicates: int = 1
    first: int = 0


class Grid(msgspec.Struct, frozen=True, omit_defaults=True):
    """All combinations for one agent: the levels of its factors, in order."""

    agent: str
    agent_digest: str
    levels: dict[str, list[Json]]

    def __len__(self) -> int:
        return math.prod(map(len, self.levels.values()))

    def at(self, index: int) -> dict[str, Json]:
        found = []
        for values in reversed(self.levels.values()):
            index, place = divmod(index, len(values))
            found.append(values[place])
        return dict(zip(self.levels, reversed(found), strict=True))


class Crossed(Sequence[Condition]):
    """Every combination of levels, for every agent and case set. `kept` are the places of those that are
    admissible; None if all are."""

    def __init__(
        self, grids: Sequence[Grid], cases: Sequence[str], labelled: bool, kept: array[int] | None = None
    ) -> None:
        self.grids, self.cases, self.labelled, self.kept = tuple(grids), tuple(cases), labelled, kept

    @property
    def size(self) -> int:
        """All of them, admissible or not."""
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
        """The combination at a place among all."""
        index, case = divmod(index, len(self.cases))
        for grid in self.grids:
            if index < len(grid):
                return assigned(
                    grid.agent, grid.agent_digest, grid.at(index), self.cases[case], self.labelled
                )
            index -= len(grid)
        raise IndexError(index)

    def every(self) -> Iterator[Condition]:
        return map(self.make, range(self.size))


def assigned(
    agent: str, agent_digest: str, factors: dict[str, Json], cases: str, labelled: bool
) -> Condition:
    """The condition of an assignment, before anything is said about it."""
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
    """The different values of each factor, by their digests, in the order in which they are met."""
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
    """The agents and their digests."""
    if isinstance(conditions, Crossed):
        return {grid.agent: grid.agent_digest for grid in conditions.grids}
    return {condition.agent: condition.agent_digest for condition in conditions}


def shown_names(conditions: Sequence[Condition]) -> dict[str, None]:
    """The names under which conditions are shown."""
    if isinstance(conditions, Crossed):
        sample: Mapping[str, Json] = conditions[0].shown if len(conditions) else {}
        names = [name for grid in conditions.grids for name in grid.levels]
        return dict.fromkeys([*sample, *names])
    return {name: None for condition in conditions for name in condition.shown}
