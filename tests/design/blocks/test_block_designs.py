"""Blocked designs: every treatment in every block, or every pair of treatments equally often."""

from __future__ import annotations

from collections import Counter, defaultdict
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.space import Dimension, Space
from peira.design.blocks.block_designs import BalancedIncompleteBlock, RandomizedBlock
from peira.errors import Invalid


def levelled(**counts: int) -> Space:
    return Space(tuple(Dimension(name, tuple(f"{name}{i}" for i in range(n))) for name, n in counts.items()))


SPACE = levelled(model=3, day=4, style=2)


def test_every_treatment_in_every_block_of_a_factor() -> None:
    design = RandomizedBlock(block="day")
    points = list(design.points(SPACE, 0))
    assert len(points) == 24 == design.size(SPACE)
    assert all(point.block == point.factors["day"] for point in points)
    assert all(list(point.factors) == ["model", "day", "style"] for point in points)
    counts = Counter((point.block, point.factors["model"], point.factors["style"]) for point in points)
    assert len(counts) == 24


@given(st.integers(2, 6), st.integers(2, 4), st.integers(2, 3))
def test_every_treatment_in_every_numbered_block(blocks: int, a: int, b: int) -> None:
    design, space = RandomizedBlock(blocks=blocks), levelled(a=a, b=b)
    points = list(design.points(space, 0))
    assert len(points) == design.size(space) == a * b * blocks
    runs = Counter((point.block, *point.factors.values()) for point in points)
    assert set(runs.values()) == {1}
    assert {block for block, *_ in runs} == {str(n + 1) for n in range(blocks)}


def test_blocks_of_a_huge_space_are_lazy() -> None:
    space = Space(tuple(Dimension(f"f{n}", tuple(range(10))) for n in range(9)))
    design = RandomizedBlock(blocks=10)
    assert design.size(space) == 10**10
    assert next(design.points(space, 0)).block == "1"


@settings(max_examples=30)
@given(
    st.sampled_from([(6, 3, 10), (7, 3, 7), (9, 3, 12), (5, 2, 10), (8, 4, 14), (4, 3, 8)]),
    st.integers(-99, 99),
)
def test_any_two_treatments_meet_equally_often(parameters: tuple[int, int, int], seed: int) -> None:
    t, k, b = parameters
    space = levelled(model=t)
    design = BalancedIncompleteBlock(size=k, blocks=b)
    points = list(design.points(space, seed))
    assert points == list(design.points(space, seed))
    assert len(points) == design.size(space) == b * k
    blocks: dict[str, list[str]] = defaultdict(list)
    for point in points:
        blocks[point.block].append(point.factors["model"])
    assert {len(set(members)) for members in blocks.values()} == {k}
    pairs = Counter(pair for members in blocks.values() for pair in combinations(sorted(members), 2))
    assert len(pairs) == t * (t - 1) // 2
    assert len(set(pairs.values())) == 1
    assert len(set(Counter(p.factors["model"] for p in points).values())) == 1


def test_treatments_may_be_combinations_and_the_block_a_factor() -> None:
    space = levelled(day=10, model=3, style=2)
    points = list(BalancedIncompleteBlock(size=3, block="day").points(space, 4))
    assert len(points) == 30
    assert Counter(p.block for p in points) == Counter({f"day{n}": 3 for n in range(10)})
    assert all(p.block == p.factors["day"] and list(p.factors) == list(space.names) for p in points)
    met = Counter((p.factors["model"], p.factors["style"]) for p in points)
    assert set(met.values()) == {5}


def test_seeds_deal_the_treatments_anew() -> None:
    dealt = set()
    for seed in range(9):
        blocks: dict[str, set[str]] = defaultdict(set)
        for point in BalancedIncompleteBlock(size=3).points(levelled(model=7), seed):
            blocks[point.block].add(point.factors["model"])
        dealt.add(frozenset(map(frozenset, blocks.values())))
    assert len(dealt) > 3


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda: RandomizedBlock(), "say block, the name of a factor, or blocks, a number"),
        (lambda: RandomizedBlock(block="day", blocks=3), "exclude each other"),
        (lambda: RandomizedBlock(blocks=1), "blocks: must be at least 2"),
        (lambda: RandomizedBlock(block="dya").size(SPACE), "did you mean 'day'"),
        (
            lambda: RandomizedBlock(block="day").size(levelled(day=3)),
            "day: is the only factor, and the block",
        ),
        (lambda: BalancedIncompleteBlock(size=1), "size: must be at least 2"),
        (
            lambda: BalancedIncompleteBlock(size=7).size(levelled(a=7)),
            "blocks of 2 to 6, not 7; .*randomized_block",
        ),
        (lambda: BalancedIncompleteBlock(size=3, blocks=12).size(levelled(a=7)), "12 blocks of 3 .*; 14 can"),
        (
            lambda: BalancedIncompleteBlock(size=3, block="d").size(levelled(a=7, d=6)),
            "6 blocks of 3 .*; 7 can",
        ),
        (
            lambda: BalancedIncompleteBlock(size=9).size(levelled(a=40)),
            "no balanced blocks of 9 out of 40 .* take",
        ),
        (lambda: BalancedIncompleteBlock(size=3).size(levelled(a=20, b=20)), "at most 100; take d_optimal"),
    ],
)
def test_what_cannot_be_is_refused_with_what_can(make: object, told: str) -> None:
    with pytest.raises(Invalid, match=told):
        make()  # type: ignore[operator]


def test_ranges_and_single_levels_are_refused_at_once() -> None:
    space = Space((Dimension("heat", low=0, high=1, scale="continuous"), Dimension("one", ("a",))))
    with pytest.raises(Invalid) as told:
        RandomizedBlock(block="two").points(space, 0)
    assert len(told.value.problems) == 3
