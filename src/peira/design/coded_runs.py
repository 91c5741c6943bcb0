"""Designs in coded units (-1, 0, 1): their runs as points, centre runs, replicates.

A classical design speaks of places: -1 is the low end of a factor, 1 its high end, 0 its centre. Here
they are turned into values, once for all such designs. Levels stand at even distances in their order
(numbers: where their value lies). Every place a design needs must be there, and no level may be left
without a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, NamedTuple

from peira.core.ids import Json
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import centre, count_problems, require, space_problems, values_at


class CodedRun(NamedTuple):
    """The places of one run, its block, and how often the design has it."""

    places: tuple[float, ...]
    block: str = ""
    times: int = 1


@dataclass(frozen=True)
class RunSheet:
    """The `size` different runs of a design, but for those at the centre; and the names of its blocks."""

    runs: Iterable[CodedRun]
    size: int
    blocks: tuple[str, ...] = ("",)


class CodedDesign(ABC):
    """A design of coded places. `_sheet` is what a kind of design adds; it may know its places otherwise.

    Every run comes `replicates` times. `center` runs with every factor at its centre are added to each
    block: as many as said, not replicated. Such a design is the same for every seed.
    """

    name: ClassVar[str]
    instead: ClassVar[str]
    """The end of a message about a factor that does not fit: what would."""
    places: ClassVar[tuple[float, ...]] = (-1.0, 1.0)

    def __init__(self, *problems: Iterable[str], center: int, replicates: int) -> None:
        require(count_problems("center", center, 0), count_problems("replicates", replicates, 1), *problems)
        self.center, self.replicates = center, replicates

    def size(self, space: Space) -> int:
        self._values(space)
        sheet = self._sheet(space)
        return sheet.size + (len(sheet.blocks) if self._centres(space) else 0)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        values = self._values(space)
        return self._points(space, values, self._sheet(space))

    @abstractmethod
    def _sheet(self, space: Space) -> RunSheet:
        """The runs for this space; Invalid where there are none."""

    def _places(self, space: Space) -> tuple[float, ...]:
        """Where the runs lie in each factor, centre runs left out."""
        return self.places

    def _centres(self, space: Space) -> int:
        """How many centre runs each block has."""
        return self.center

    def _values(self, space: Space) -> list[dict[float, Json]]:
        """The values of each factor by place; Invalid with every factor that lacks one."""
        require(space_problems(space))
        own = self._places(space)
        places = sorted({*own, 0.0} if self._centres(space) else {*own})
        require(*(_misfit(d, places, own, self) for d in space.dimensions))
        return [dict(values_at(d, places)) for d in space.dimensions]

    def _points(self, space: Space, values: list[dict[float, Json]], sheet: RunSheet) -> Iterator[Point]:
        for run in sheet.runs:
            factors = {name: at[p] for name, at, p in zip(space.names, values, run.places, strict=True)}
            yield Point(factors, block=run.block, replicates=run.times * self.replicates)
        centres = self._centres(space)
        for block in sheet.blocks if centres else ():
            factors = {name: at[0.0] for name, at in zip(space.names, values, strict=True)}
            yield Point(factors, block=block, replicates=centres)


def merged(rows: Iterable[tuple[float, ...]]) -> list[CodedRun]:
    """Equal rows as one run, in the order in which they first come."""
    return [CodedRun(row, times=times) for row, times in Counter(rows).items()]


def true_or_false(name: str, value: object) -> Iterator[str]:
    """What is wrong with a parameter that must be true or false."""
    if not isinstance(value, bool):
        yield f"{name}: must be true or false, not {value!r}"


def between(space: Space, design: str, least: int, most: int, instead: str) -> Iterator[str]:
    """What is wrong with the number of factors."""
    count = len(space.dimensions)
    if not least <= count <= most:
        yield f"{design} takes {least} to {most} factors, not {count}; {instead}"


def _misfit(
    dimension: Dimension, places: Sequence[float], own: Sequence[float], design: CodedDesign
) -> Iterator[str]:
    """What keeps the factor from standing at the places of the design, its own and the centre."""
    if 0 in places and 0 not in own and not centre(dimension):
        yield f"{dimension.name}: has no centre; say center = 0, or give a range or three even levels"
    elif dimension.ranged:
        yield from _collisions(dimension, places, design)
    else:
        yield from _unlevel(dimension, places, design)


def _collisions(dimension: Dimension, places: Sequence[float], design: CodedDesign) -> Iterator[str]:
    values = [value for _, value in values_at(dimension, places)]
    if len(set(values)) < len(places):
        yield (
            f"{dimension.name}: the places {_shown(places)} round to {', '.join(map(str, values))}, "
            f"so that some are the same; widen the range, or {design.instead}"
        )


def _unlevel(dimension: Dimension, places: Sequence[float], design: CodedDesign) -> Iterator[str]:
    name, count = dimension.name, len(dimension.levels)
    if dimension.scale == "categorical" and len(places) > 2:
        yield f"{name}: is categorical, and {design.name} needs the places {_shown(places)}; {design.instead}"
    elif count > len(places):
        yield f"{name}: has {count} levels, and {design.name} runs {len(places)}; {design.instead}"
    elif len(list(values_at(dimension, places))) < len(places):
        levels = ", ".join(map(repr, dimension.levels))
        yield (
            f"{name}: its levels {levels} do not stand at the places {_shown(places)} of {design.name}; "
            f"{design.instead}"
        )


def _shown(places: Sequence[float]) -> str:
    return ", ".join(f"{place:.4g}" for place in places)
