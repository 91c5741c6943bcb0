"""Block designs: randomized complete blocks and balanced incomplete blocks.

A treatment is a combination of levels of the factors other than the block factor. The order within a block is
randomised by the plan. Constraints are not applied: excluded runs stay in the plan, and are not run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.blocks.incomplete_blocks import Blocks, exactly, fewest
from peira.design.blocks.latin_squares import GraecoLatinSquare, LatinSquare
from peira.design.blocks.nested_designs import Nested
from peira.design.dimensions import (
    combinations,
    count_problems,
    in_order,
    label,
    name_problems,
    ranges,
    require,
    space_problems,
)

MOST_TREATMENTS = 100
"""Maximum number of treatments of balanced incomplete blocks."""
MOST_BLOCKS = 1000
"""Maximum number of blocks that are constructed."""


class RandomizedBlock:
    """Every treatment in every block; blocks are the levels of factor `block`, or `blocks` in number."""

    name = "randomized_block"

    def __init__(self, *, block: str = "", blocks: int = 0) -> None:
        require(
            count_problems("blocks", blocks, 2) if blocks != 0 else (),
            ["say block, the name of a factor, or blocks, a number"] if not block and not blocks else (),
            ["block and blocks exclude each other; say one of them"] if block and blocks else (),
        )
        self.block, self.blocks = block, blocks

    def size(self, space: Space) -> int:
        """The number of runs: treatments times blocks; raises `Invalid` for unfit factors."""
        _check(space, self.block, self.name)
        return math.prod(len(d.levels) for d in space.dimensions) * max(1, self.blocks)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """Every treatment in every block; raises `Invalid` for unfit factors."""
        _check(space, self.block, self.name)
        treated = [d for d in space.dimensions if d.name != self.block]
        return (
            Point(in_order(space, own | treatment), block=block)
            for block, own in self._blocks(space)
            for treatment in combinations(treated)
        )

    def _blocks(self, space: Space) -> Iterator[tuple[str, dict[str, Json]]]:
        """The name of each block, and the value of the block factor in it, if there is one."""
        if self.blocks:
            return ((str(n + 1), {}) for n in range(self.blocks))
        levels = next(d.levels for d in space.dimensions if d.name == self.block)
        return ((label(level), {self.block: level}) for level in levels)


class BalancedIncompleteBlock:
    """Blocks of `size` treatments; every pair of treatments occurs together equally often.

    Every treatment also occurs equally often. The number of blocks is the smallest that can be constructed,
    or `blocks`, or the number of levels of the factor `block`. Treatments are assigned to positions, and
    blocks ordered, at random.
    """

    name = "balanced_incomplete_block"

    def __init__(self, *, size: int, block: str = "", blocks: int = 0) -> None:
        require(
            count_problems("size", size, 2),
            count_problems("blocks", blocks, 2, 10 * MOST_BLOCKS) if blocks != 0 else (),
            ["block and blocks exclude each other; say one of them"] if block and blocks else (),
        )
        self.block_size, self.block, self.blocks = size, block, blocks

    def size(self, space: Space) -> int:
        """The number of runs; raises `Invalid` if no balanced blocks are known."""
        return len(self._built(space)) * self.block_size

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The treatments of every block; raises `Invalid` if no balanced blocks are known."""
        built = self._built(space)
        return self._points(space, built, Random(f"{self.name} {seed}"))

    def _points(self, space: Space, built: Blocks, random: Random) -> Iterator[Point]:
        """The blocks in random order, with treatments assigned at random."""
        treatments = list(combinations([d for d in space.dimensions if d.name != self.block]))
        random.shuffle(treatments)
        own = next((d.levels for d in space.dimensions if d.name == self.block), range(1, len(built) + 1))
        for level, members in zip(own, random.sample(built, len(built)), strict=True):
            for member in members:
                found = treatments[member] | {self.block: level}
                yield Point(in_order(space, found), block=label(level))

    def _built(self, space: Space) -> Blocks:
        """The blocks as treatment indices; raises `Invalid` if none are known."""
        _check(space, self.block, self.name)
        t = math.prod(len(d.levels) for d in space.dimensions if d.name != self.block)
        k = self.block_size
        blocks = self.blocks or next((len(d.levels) for d in space.dimensions if d.name == self.block), 0)
        if t > MOST_TREATMENTS:
            require(
                [f"there are {t} treatments; {self.name} takes at most {MOST_TREATMENTS}; take d_optimal"]
            )
        if not k < t:
            require(
                [f"size: {t} treatments come in blocks of 2 to {t - 1}, not {k}; else take randomized_block"]
            )
        found = exactly(t, k, blocks, MOST_BLOCKS) if blocks else fewest(t, k, MOST_BLOCKS)
        if found is None:
            require([_nearest_message(t, k, blocks)])
        return found or ()


def _nearest_message(t: int, k: int, blocks: int) -> str:
    """The message that says there are no such blocks, and what comes nearest."""
    base = fewest(t, k, MOST_BLOCKS)
    if base:
        near = len(base) * max(1, round(blocks / len(base)))
        return f"{blocks} blocks of {k} out of {t} treatments cannot be balanced; {near} can"
    sizes = sorted(range(2, t), key=lambda size: abs(size - k))
    size = next(size for size in sizes if size != k and fewest(t, size, MOST_BLOCKS))
    found = len(fewest(t, size, MOST_BLOCKS) or ())
    return f"no balanced blocks of {k} out of {t} treatments are known here; take {found} blocks of {size}"


def _check(space: Space, block: str, design: str) -> None:
    """Raise `Invalid` if the space or the block factor does not fit the design."""
    require(
        space_problems(space), ranges(space, design), name_problems("block", [block] if block else [], space)
    )
    if len(space.dimensions) == 1 and block:
        require([f"{block}: is the only factor, and the block; give another, which is the treatment"])


def register(registry: Registry) -> None:
    """Register the block designs, Latin squares and nested designs."""
    for design in (RandomizedBlock, BalancedIncompleteBlock, LatinSquare, GraecoLatinSquare, Nested):
        registry.add("design", design.name, design)
