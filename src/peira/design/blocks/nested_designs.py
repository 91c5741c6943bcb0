"""Nested designs: the levels of a factor depend on the level of its parent factor."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import in_order, key, label, name_problems, ranges, require, space_problems

Given = Mapping[str, Mapping[str, Sequence[Json]]]
"""By nested factor, and by level of its parent: the levels of the nested factor there."""


class Branch(NamedTuple):
    """A factor, its parent ("" for none), and its levels under each level of the parent."""

    name: str
    parent: str
    under: dict[str, Sequence[Json]]
    """The levels of the factor, by key of the parent's level (of None without a parent)."""


class Nested:
    """Every level of a nested factor within its own level of the parent; other factors are crossed.

    `levels` assigns levels, as {factor: {level of its parent: its levels there}}; a level may occur under
    several parent levels. The levels of a nested factor that is not listed are divided among the parent's
    levels in order, equally many to each.
    """

    name = "nested"

    def __init__(self, *, levels: Given | None = None) -> None:
        require(_type_problems({} if levels is None else levels))
        self.levels = levels or {}

    def size(self, space: Space) -> int:
        """The number of runs; raises `Invalid` for inconsistent nesting."""
        return _count(self._branches(space), "", None)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The runs, nested levels within their parent's level; raises `Invalid` for inconsistent nesting."""
        found = _walk(self._branches(space), {})
        return (Point(in_order(space, run)) for run in found)

    def _branches(self, space: Space) -> list[Branch]:
        """The factors, parents before children; raises `Invalid` for inconsistent nesting."""
        require(space_problems(space), ranges(space, self.name), self._parent_problems(space))
        depths = _depths(space)
        known = {d.name: d for d in space.dimensions}
        nested = [d for d in space.dimensions if d.parent]
        require(*(self._nesting_problems(d, known[d.parent]) for d in nested))
        branches = [Branch(d.name, "", {key(None): d.levels}) for d in space.dimensions if not d.parent]
        branches += [Branch(d.name, d.parent, self._under(d, known[d.parent])) for d in nested]
        return sorted(branches, key=lambda branch: depths[branch.name])

    def _under(self, child: Dimension, parent: Dimension) -> dict[str, Sequence[Json]]:
        """The levels of a nested factor by level of its parent."""
        given = self.levels.get(child.name)
        if given is not None:
            return {key(level): given[label(level)] for level in parent.levels}
        each = len(child.levels) // len(parent.levels)
        return {key(v): child.levels[n * each : n * each + each] for n, v in enumerate(parent.levels)}

    def _parent_problems(self, space: Space) -> Iterator[str]:
        """Problems with the declared parents and with `levels` as a whole."""
        parents = {d.name: d.parent for d in space.dimensions}
        if not any(parents.values()):
            yield "no factor is nested in another; say the parent of a factor, or take full_factorial"
        for name in filter(parents.get, parents):
            yield from name_problems(f"{name}: parent", [parents[name]], space)
        yield from name_problems("levels", self.levels, space)
        for name in self.levels:
            if parents.get(name) == "":
                yield f"levels.{name}: {name} is nested in no factor; say its parent, or leave it out"

    def _nesting_problems(self, child: Dimension, parent: Dimension) -> Iterator[str]:
        """Problems with the levels of one nested factor."""
        wanted = [label(level) for level in parent.levels]
        given = self.levels.get(child.name)
        if given is not None:
            yield from _assignment_problems(child, parent, given, wanted)
        elif len(child.levels) % len(wanted):
            yield (
                f"{child.name}: its {len(child.levels)} levels cannot be dealt equally to the {len(wanted)} "
                f"of {parent.name}; say which belong where: levels.{child.name}.{wanted[0]} = [...]"
            )


def _assignment_problems(
    child: Dimension, parent: Dimension, given: Mapping[str, Sequence[Json]], wanted: Sequence[str]
) -> Iterator[str]:
    """Differences between the `levels` parameter and the levels of the two factors."""
    for name in sorted(given.keys() - set(wanted)):
        yield f"levels.{child.name}: {parent.name} has no level {name!r}{nearest(name, wanted)}"
    for name in (name for name in wanted if not given.get(name)):
        yield f"levels.{child.name}.{name}: give at least one level of {child.name}"
    own = {label(level): level for level in child.levels}
    given_levels = {label(level): level for levels in given.values() for level in levels}
    for one in sorted(given_levels.keys() - own.keys()):
        yield f"levels.{child.name}: {given_levels[one]!r} is not one of its levels{nearest(one, own)}"
    for one in sorted(own.keys() - given_levels.keys()):
        yield f"levels.{child.name}: {own[one]!r} is under no level of {parent.name}; put it under one"


def _type_problems(levels: object) -> Iterator[str]:
    """Problems with the type of `levels`."""
    if not isinstance(levels, Mapping):
        yield f"levels: must be a table of tables of lists, not {levels!r}"
        return
    for name, table in levels.items():
        if not isinstance(table, Mapping) or not all(isinstance(v, (list, tuple)) for v in table.values()):
            yield f"levels.{name}: must be a table of a list for each level of the parent, not {table!r}"


def _depths(space: Space) -> dict[str, int]:
    """The nesting depth of every factor; raises `Invalid` for a cycle."""
    parents = {d.name: d.parent for d in space.dimensions}
    depths: dict[str, int] = {"": 0}
    while found := [name for name in parents if name not in depths and parents[name] in depths]:
        depths |= {name: depths[parents[name]] + 1 for name in found}
    require(f"{name}: is nested in itself; leave its parent out" for name in parents if name not in depths)
    return depths


def _count(branches: Sequence[Branch], parent: str, level: Json) -> int:
    """The number of runs under one level of a factor."""
    own = [branch for branch in branches if branch.parent == parent]
    return math.prod(sum(_count(branches, b.name, value) for value in b.under[key(level)]) for b in own)


def _walk(branches: Sequence[Branch], taken: dict[str, Json]) -> Iterator[dict[str, Json]]:
    """All runs that extend the values taken so far."""
    if not branches:
        yield taken
        return
    first, *rest = branches
    for level in first.under[key(taken.get(first.parent))]:
        yield from _walk(rest, {**taken, first.name: level})
