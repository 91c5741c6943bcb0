"""Balanced incomplete blocks: against the tables of Cochran and Cox, and what is known not to exist."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import pytest

from peira.design.blocks.incomplete_blocks import (
    Blocks,
    affine_lines,
    count,
    exactly,
    fewest,
    paley,
    projective_lines,
    step,
)

# t, k, r, b, lambda: Cochran and Cox, Experimental Designs, table 11.3 (up to ten replications), without the
# few that are not built here.
TABLE = [
    (4, 2, 3, 6, 1), (4, 3, 3, 4, 2), (5, 2, 4, 10, 1), (5, 3, 6, 10, 3), (5, 4, 4, 5, 3), (6, 2, 5, 15, 1),
    (6, 3, 5, 10, 2), (6, 3, 10, 20, 4), (6, 4, 10, 15, 6), (6, 5, 5, 6, 4), (7, 2, 6, 21, 1),
    (7, 3, 3, 7, 1), (7, 4, 4, 7, 2), (7, 6, 6, 7, 5), (8, 2, 7, 28, 1), (8, 4, 7, 14, 3),
    (8, 7, 7, 8, 6), (9, 2, 8, 36, 1), (9, 3, 4, 12, 1), (9, 4, 8, 18, 3), (9, 5, 10, 18, 5),
    (9, 6, 8, 12, 5), (9, 8, 8, 9, 7),
    (10, 2, 9, 45, 1), (10, 3, 9, 30, 2), (10, 4, 6, 15, 2), (10, 5, 9, 18, 4), (10, 6, 9, 15, 5),
    (10, 9, 9, 10, 8),
    (11, 2, 10, 55, 1), (11, 5, 5, 11, 2), (11, 6, 6, 11, 3), (11, 10, 10, 11, 9), (13, 3, 6, 26, 1),
    (13, 4, 4, 13, 1), (13, 9, 9, 13, 6), (15, 3, 7, 35, 1), (15, 7, 7, 15, 3), (15, 8, 8, 15, 4),
    (16, 4, 5, 20, 1), (16, 6, 6, 16, 2), (16, 10, 10, 16, 6), (19, 3, 9, 57, 1), (19, 9, 9, 19, 4),
    (19, 10, 10, 19, 5), (21, 3, 10, 70, 1), (21, 5, 5, 21, 1), (25, 4, 8, 50, 1), (25, 5, 6, 30, 1),
    (28, 4, 9, 63, 1), (31, 6, 6, 31, 1), (49, 7, 8, 56, 1), (57, 8, 8, 57, 1), (64, 8, 9, 72, 1),
    (73, 9, 9, 73, 1), (81, 9, 10, 90, 1), (91, 10, 10, 91, 1),
]  # fmt: skip


def balance(t: int, k: int, blocks: Blocks) -> tuple[int, int]:
    """How often each treatment and each pair comes, having checked that it is the same for all."""
    assert all(len(set(block)) == k and set(block) <= set(range(t)) for block in blocks)
    single = Counter(x for block in blocks for x in block)
    pairs = Counter(pair for block in blocks for pair in combinations(sorted(block), 2))
    assert len(single) == t
    assert len(pairs) == t * (t - 1) // 2
    (r,), (together,) = set(single.values()), set(pairs.values())
    return r, together


@pytest.mark.parametrize(("t", "k", "r", "b", "together"), TABLE)
def test_the_table(t: int, k: int, r: int, b: int, together: int) -> None:
    blocks = exactly(t, k, b, 1000)
    assert blocks is not None
    assert len(blocks) == b
    assert balance(t, k, blocks) == (r, together)


@pytest.mark.parametrize("t", range(3, 14))
def test_every_size_of_block_for_few_treatments(t: int) -> None:
    """Up to 14 treatments whatever the counts allow exists, and is built with the fewest blocks."""
    for k in range(2, t):
        blocks = fewest(t, k, 1000)
        assert blocks is not None
        r, together = balance(t, k, blocks)
        assert together == step(t, k)
        assert r * (k - 1) == together * (t - 1)
        assert len(blocks) * k == t * r
        assert len(blocks) == count(t, k, together) >= t


@pytest.mark.parametrize(("t", "k", "b"), [(15, 5, 21), (22, 7, 22), (21, 6, 14), (16, 6, 8)])
def test_what_does_not_exist_is_not_built(t: int, k: int, b: int) -> None:
    """The first two: Nandi, Bruck-Ryser-Chowla. The others break Fisher's inequality."""
    assert exactly(t, k, b, 1000) is None


def test_the_smallest_that_exists_where_the_counts_promise_less() -> None:
    blocks = fewest(15, 5, 1000)
    assert blocks is not None
    assert len(blocks) == 42


@pytest.mark.parametrize(("q", "d"), [(2, 2), (3, 2), (4, 2), (8, 2), (2, 3), (3, 3), (2, 4)])
def test_two_points_have_one_line(q: int, d: int) -> None:
    assert balance(q**d, q, affine_lines(q, d)) == ((q**d - 1) // (q - 1), 1)
    size = (q ** (d + 1) - 1) // (q - 1)
    assert balance(size, q + 1, projective_lines(q, d)) == ((q**d - 1) // (q - 1), 1)


@pytest.mark.parametrize("q", [7, 11, 19, 23, 27, 31])
def test_the_squares_of_a_field(q: int) -> None:
    assert balance(q, (q - 1) // 2, paley(q)) == ((q - 1) // 2, (q - 3) // 4)


def test_copies_are_balanced_too() -> None:
    blocks = exactly(7, 3, 21, 1000)
    assert blocks is not None
    assert balance(7, 3, blocks) == (9, 3)
