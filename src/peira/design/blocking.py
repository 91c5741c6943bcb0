"""Designs in blocks: all treatments in each block, or a balanced part of them.

A treatment is a combination of levels of the factors that are not the block. The order within a block is the
plan's to randomise. Constraints are not looked at: what they exclude stays in the plan, and is not run.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from random import Random

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.space import Point, Space
from peira.design.dimensions import combinations, counted, in_order, label, named, ranges, require, unfit
from peira.design.incomplete import exactly, fewest
from peira.design.lines import Blocks
from peira.design.nested import Nested
from peira.design.squares import GraecoLatinSquare, LatinSquare

MOST_TREATMENTS = 100
MOST_BLOCKS = 1000


class RandomizedBlock:
    """Every treatment in every block: each level of the factor `block`, or `blocks` in number."""

    name = "randomized_block"

    def __init__(self, *, block: str = "", blocks: int = 0) -> None:
        require(
            counted("blocks", blocks, 2) if blocks != 0 else (),
            ["say block, the name of a factor, or blocks, a number"] if not block and not blocks else (),
            ["block and blocks exclude each other; say one of them"] if block and blocks else (),
        )
        self.block, self.blocks = block, blocks

    def size(self, space: Space) -> int:
        _check(space, self.block, self.name)
        return math.prod(len(d.levels) for d in space.dimensions) * max(1, self.blocks)

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        _check(space, self.block, self.name)
        treated = [d for d in space.dimensions if d.name != self.block]
        return (
            Point(in_order(space, own | treatment), block=block)
            for block, own in self._blocks(space)
            for treatment in combinations(treated)
        )

    def _blocks(self, space: Space) -> Iterator[tuple[str, dict[str, Json]]]:
        """The name of each block, and what it says of the block factor."""
        if self.blocks:
            return ((str(n + 1), {}) for n in range(self.blocks))
        levels = next(d.levels for d in space.dimensions if d.name == self.block)
        return ((label(level), {self.block: level}) for level in levels)


class BalancedIncompleteBlock:
    """Blocks of `size` treatments, in which any two treatments come together equally often.

    So does each treatment by itself. The blocks are the fewest that can be built, or `blocks` in number, or
    the levels of the factor `block`. Treatments are dealt to places, and blocks put in order, at random.
    """

    name = "balanced_incomplete_block"

    def __init__(self, *, size: int, block: str = "", blocks: int = 0) -> None:
        require(
            counted("size", size, 2),
            counted("blocks", blocks, 2, 10 * MOST_BLOCKS) if blocks != 0 else (),
            ["block and blocks exclude each other; say one of them"] if block and blocks else (),
        )
        self.block_size, self.block, self.blocks = size, block, blocks

    def size(self, space: Space) -> int:
        return len(self._built(space)) * self.block_size

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        built = self._built(space)
        return self._points(space, built, Random(f"{self.name} {seed}"))

    def _points(self, space: Space, built: Blocks, random: Random) -> Iterator[Point]:
        treatments = list(combinations([d for d in space.dimensions if d.name != self.block]))
        random.shuffle(treatments)
        own = next((d.levels for d in space.dimensions if d.name == self.block), range(1, len(built) + 1))
        for level, members in zip(own, random.sample(built, len(built)), strict=True):
            for member in members:
                found = treatments[member] | {self.block: level}
                yield Point(in_order(space, found), block=label(level))

    def _built(self, space: Space) -> Blocks:
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
            require([_nearest(t, k, blocks)])
        return found or ()


def _nearest(t: int, k: int, blocks: int) -> str:
    """Why there are no such blocks, and what comes nearest."""
    base = fewest(t, k, MOST_BLOCKS)
    if base:
        near = len(base) * max(1, round(blocks / len(base)))
        return f"{blocks} blocks of {k} out of {t} treatments cannot be balanced; {near} can"
    sizes = sorted(range(2, t), key=lambda size: abs(size - k))
    size = next(size for size in sizes if size != k and fewest(t, size, MOST_BLOCKS))
    found = len(fewest(t, size, MOST_BLOCKS) or ())
    return f"no balanced blocks of {k} out of {t} treatments are known here; take {found} blocks of {size}"


def _check(space: Space, block: str, design: str) -> None:
    require(unfit(space), ranges(space, design), named("block", [block] if block else [], space))
    if len(space.dimensions) == 1 and block:
        require([f"{block}: is the only factor, and the block; give another, which is the treatment"])


def register(registry: Registry) -> None:
    for design in (RandomizedBlock, BalancedIncompleteBlock, LatinSquare, GraecoLatinSquare, Nested):
        registry.add("design", design.name, design)
