"""The design matrix: the distinct runs of a design, their replicates, and their coded columns.

Columns are scaled to be comparable: a number is coded from -1 to 1, and other factors have orthogonal
contrasts with a mean square of 1 over the levels. So a balanced orthogonal design of N runs has information N
for every parameter, for two levels (numeric or not) and for any number of categorical levels.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, islice
from typing import TYPE_CHECKING

from peira.core.ids import Json
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import key, numeric, places, require, values_of
from peira.design.model import Term, code, expand, parameters, parse
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Matrix = NDArray[np.float64]

MOST_RUNS = 50_000
"""Maximum number of runs that are diagnosed individually."""
MOST_CELLS = 20_000_000
"""Maximum number of entries of one matrix (160 MB)."""


@dataclass(frozen=True)
class DesignMatrix:
    """The distinct runs of a design, over the factors that vary."""

    space: Space
    """The factors that vary."""
    rows: tuple[Mapping[str, Json], ...]
    """The distinct runs."""
    times: tuple[int, ...]
    """The number of replicates of each distinct run."""
    blocks: tuple[str, ...]
    """The block of each distinct run."""
    plots: int = 0
    """The number of whole plots."""
    whole: tuple[str, ...] = ()
    """The factors that are constant within each whole plot."""
    nested: tuple[str, ...] = ()
    """Factors with different levels in each level of their parent; not effects of their own."""
    fixed: tuple[str, ...] = ()
    """The factors with a single level."""

    @property
    def runs(self) -> int:
        """The number of runs, replicates included."""
        return sum(self.times)

    @cached_property
    def columns(self) -> dict[str, Matrix]:
        """The coded columns of each factor, one row for each distinct run."""
        return {d.name: columns(d, [row[d.name] for row in self.rows]) for d in self.space.dimensions}

    def matrix(self, terms: Sequence[Term]) -> Matrix:
        """The columns of the terms, side by side; raises `Invalid` if there are too many."""
        wide = parameters(self.space, terms)
        if wide * len(self.rows) > MOST_CELLS:
            raise Invalid(
                f"{wide:,} columns at {len(self.rows):,} runs are too many to look at; say a smaller formula"
            )
        return expand(self.columns, terms, len(self.rows))

    @cached_property
    def weights(self) -> Matrix:
        """The numbers of replicates as floats."""

        import numpy as np

        return np.array(self.times, dtype=np.float64)

    @cached_property
    def block_factor(self) -> str:
        """The factor whose levels coincide with the blocks; "" if there is none."""
        own = set(self.blocks)
        for dimension in self.space.dimensions if len(own) > 1 else ():
            levels = [key(row[dimension.name]) for row in self.rows]
            if len(set(levels)) == len(own) == len(set(zip(levels, self.blocks, strict=True))):
                return dimension.name
        return ""

    @cached_property
    def block_columns(self) -> Matrix:
        """Contrasts between blocks; none with a single block or if the blocks are a factor."""
        known = {block: place for place, block in enumerate(dict.fromkeys(self.blocks))}
        found: Matrix = contrasts(len(known))[[known[block] for block in self.blocks]]
        return found[:, :0] if self.block_factor else found


def design_matrix(space: Space, points: Iterable[Point]) -> DesignMatrix:
    """The design matrix of the points; raises `Invalid` if nothing varies, or for too many runs."""
    varying = [d for d in space.dimensions if values_of(d) > 1]
    if not varying:
        raise Invalid("nothing varies: there is no factor with two levels or more; give one")
    taken = _checked(points, [d.name for d in varying])
    nested = {d.name for d in varying if d.parent and _within(d, taken)}
    seen = tuple(d for d in varying if d.name not in nested)
    found = _merged(taken, [d.name for d in seen])
    plots = {point.plot for point in taken if point.plot}
    return DesignMatrix(
        space=narrowed(space, seen) if not nested else Space(seen),
        rows=tuple(point.factors for point, _ in found),
        times=tuple(times for _, times in found),
        blocks=tuple(point.block for point, _ in found),
        plots=len(plots),
        whole=tuple(d.name for d in seen if plots and _constant(d.name, taken, len(plots))),
        nested=tuple(d.name for d in varying if d.name in nested),
        fixed=tuple(d.name for d in space.dimensions if d not in varying),
    )


def constants(space: Space) -> dict[str, Json]:
    """The factors with a single level, with that level."""
    return {d.name: d.levels[0] for d in space.dimensions if not d.ranged and len(d.levels) == 1}


def narrowed(space: Space, dimensions: Sequence[Dimension]) -> Space:
    """The space restricted to varying factors; constraints still see the constant ones."""
    constant = constants(space)

    def admits(point: Mapping[str, Json]) -> bool:
        return space.allows({**constant, **point})

    return Space(tuple(dimensions), admits if space.admits is not None else None)


def _within(dimension: Dimension, points: Iterable[Point]) -> bool:
    """Whether each level occurs in only one level of the parent."""
    met = {(key(p.factors[dimension.name]), key(p.factors.get(dimension.parent))) for p in points}
    return len({level for level, _ in met}) == len(met)


def _checked(points: Iterable[Point], names: Sequence[str]) -> list[Point]:
    """The points as a list; raises `Invalid` if there are none or too many, or values are missing."""
    listed = list(islice(points, MOST_RUNS + 1))
    lacking = [name for name in names if any(name not in point.factors for point in listed)]
    require(
        [] if listed else ["the design has no runs; relax the constraints, or take another design"],
        (f"{name}: not every run has a value for it" for name in lacking),
    )
    if len(listed) > MOST_RUNS:
        raise Invalid(
            f"there are more than {MOST_RUNS:,} runs, too many to look at one by one; take fewer levels, "
            "or a design that samples them (latin_hypercube, d_optimal)"
        )
    return listed


def _merged(points: Iterable[Point], names: Sequence[str]) -> list[tuple[Point, int]]:
    """The distinct runs of each block, with their numbers of replicates."""
    found: dict[tuple[str, ...], tuple[Point, int]] = {}
    for point in points:
        same = point.block, *(key(point.factors[name]) for name in names)
        first, times = found.get(same, (point, 0))
        found[same] = first, times + point.replicates
    return list(found.values())


def _constant(name: str, points: Iterable[Point], plots: int) -> bool:
    """Whether a factor is constant within each whole plot."""
    return len({(point.plot, key(point.factors[name])) for point in points}) == plots


def columns(dimension: Dimension, values: Sequence[Json]) -> Matrix:
    """The scaled columns of one factor, one row for each value."""
    if numeric(dimension):
        return code(dimension, values)
    found: Matrix = contrasts(len(dimension.levels))[places(dimension, values)]
    return found


def contrasts(levels: int) -> Matrix:
    """Helmert contrasts, each level against those before it, scaled to mean square 1 (two: -1 and 1)."""
    import numpy as np

    found = np.zeros((levels, max(0, levels - 1)))
    for nth in range(1, levels):
        found[:nth, nth - 1] = -1
        found[nth, nth - 1] = nth
        found[:, nth - 1] *= math.sqrt(levels / (nth * (nth + 1)))
    return found


def pairs_of(space: Space) -> tuple[Term, ...]:
    """All two-factor interactions."""
    return tuple(Term(((a, 1), (b, 1))) for a, b in combinations(space.names, 2))


def two_way(space: Space, terms: Iterable[Term] = ()) -> tuple[Term, ...]:
    """The intercept, all main effects, all two-factor interactions and the given terms, without repeats."""
    return tuple(dict.fromkeys([*parse("main", space), *pairs_of(space), *terms]))
