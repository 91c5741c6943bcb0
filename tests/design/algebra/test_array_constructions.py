"""Orthogonal arrays: strength and balance of every array that can be made, by counting."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from peira.design.algebra.array_constructions import Array, array, scheme, strong_array

# Runs and columns of the arrays that Taguchi and others published; as rich as can be, where that is known.
PUBLISHED = {
    "L4": (4, [2] * 3),
    "L8": (8, [2] * 7),
    "L8 mixed": (8, [4] + [2] * 4),
    "L9": (9, [3] * 4),
    "L12": (12, [2] * 11),
    "L12 mixed": (12, [3] + [2] * 4),
    "L12 six": (12, [6] + [2] * 2),
    "L16": (16, [2] * 15),
    "L16 four": (16, [4] * 5),
    "L16 mixed": (16, [4] * 3 + [2] * 6),
    "L16 eight": (16, [8] + [2] * 8),
    "L18": (18, [2] + [3] * 7),
    "L18 six": (18, [6] + [3] * 6),
    "L20": (20, [2] * 19),
    "L20 five": (20, [5] + [2] * 8),
    "L20 ten": (20, [10] + [2] * 2),
    "L24": (24, [2] * 23),
    "L24 three": (24, [3] + [2] * 16),
    "L24 mixed": (24, [4, 3] + [2] * 12),
    "L25": (25, [5] * 6),
    "L27": (27, [3] * 13),
    "L27 nine": (27, [9] + [3] * 9),
    "L28": (28, [2] * 27),
    "L28 seven": (28, [7] + [2] * 12),
    "L32": (32, [2] * 31),
    "L32 four": (32, [4] * 9 + [2] * 4),
    "L32 eight": (32, [8] + [4] * 8),
    "L36": (36, [3] * 12 + [2] * 11),
    "L36 thirteen": (36, [3] * 13 + [2] * 4),
    "L36 four": (36, [4] + [3] * 13),
    "L36 twelve": (36, [12] + [3] * 12),
    "L36 two": (36, [2] * 35),
    "L49": (49, [7] * 8),
    "L50": (50, [5] * 11 + [2]),
    "L54": (54, [3] * 25 + [2]),
    "L54 six": (54, [6] + [3] * 24),
    "L64": (64, [2] * 63),
    "L64 four": (64, [4] * 21),
    "L64 eight": (64, [8] * 9),
    "L81": (81, [3] * 40),
    "L81 nine": (81, [9] * 10),
}


def unequal(found: Array, strength: int) -> list[tuple[int, ...]]:
    """The sets of columns that do not show every combination of their levels equally often."""
    levels = [max(column) + 1 for column in found]
    bad = []
    for chosen in combinations(range(len(found)), min(strength, len(found))):
        counts = Counter(zip(*(found[nth] for nth in chosen), strict=True))
        if len(counts) != math.prod(levels[nth] for nth in chosen) or len(set(counts.values())) > 1:
            bad.append(chosen)
    return bad


def check(found: Array | None, runs: int, levels: Sequence[int], strength: int) -> None:
    assert found is not None
    assert [len(set(column)) for column in found] == list(levels)
    assert {len(column) for column in found} == {runs}
    assert unequal(found, strength) == []


@pytest.mark.parametrize(("runs", "levels"), PUBLISHED.values(), ids=PUBLISHED)
def test_the_published_arrays(runs: int, levels: list[int]) -> None:
    check(array(runs, levels), runs, levels, 2)


@pytest.mark.parametrize(
    ("runs", "levels"),
    [(8, [2] * 4), (16, [2] * 8), (24, [2] * 12), (32, [2] * 16), (40, [2] * 20), (27, [3] * 4),
     (64, [4] * 6), (125, [5] * 6), (81, [3] * 10), (54, [3, 3, 3, 3, 2]),
     (24, [3, 2, 2, 2, 2]), (16, [4, 2, 2]), (243, [3] * 14), (729, [3] * 28)],
)  # fmt: skip
def test_arrays_of_strength_three(runs: int, levels: list[int]) -> None:
    check(strong_array(runs, levels), runs, levels, 3)


@pytest.mark.parametrize(
    ("runs", "levels"),
    [(4, [2] * 4), (8, [4, 4]), (9, [3] * 5), (18, [2, 2]), (12, [3, 3]), (36, [5, 2]), (6, [2] * 2)],
)
def test_what_cannot_be_is_not(runs: int, levels: list[int]) -> None:
    assert array(runs, levels) is None


def test_the_order_of_the_columns_is_the_order_asked_for() -> None:
    check(array(36, [3, 2, 3, 2]), 36, [3, 2, 3, 2], 2)


@pytest.mark.parametrize(
    ("size", "modulus"),
    [(3, 3), (6, 3), (9, 3), (12, 3), (18, 3), (36, 3), (5, 5), (10, 5), (7, 7), (14, 7), (22, 11)],
)
def test_difference_schemes(size: int, modulus: int) -> None:
    found = scheme(size, modulus)
    assert found is not None
    columns = list(zip(*found, strict=True))
    assert len(columns) == len(found) == size
    for one, other in combinations(columns, 2):
        differences = Counter((a - b) % modulus for a, b in zip(one, other, strict=True))
        assert set(differences.values()) == {size // modulus}
        assert len(differences) == modulus


@settings(max_examples=60, deadline=None)
@given(st.integers(4, 108), st.lists(st.sampled_from([2, 2, 3, 3, 4, 5, 6, 8, 9]), min_size=1, max_size=9))
def test_whatever_is_made_is_orthogonal(runs: int, levels: list[int]) -> None:
    for build, strength in ((array, 2), (strong_array, 3)):
        found = build(runs, levels)
        if found is not None:
            check(found, runs, levels, strength)


def test_the_arrays_of_pydoe() -> None:
    """Every array there that is balanced can be had here, with as many columns of as many levels."""
    pydoe = pytest.importorskip("pydoe")
    for name in pydoe.list_orthogonal_arrays():
        theirs = tuple(
            tuple(sorted(set(column)).index(x) for x in column)
            for column in pydoe.get_orthogonal_array(name).T
        )
        if name == "L64(2^31)":
            assert unequal(theirs, 2)
        else:
            assert not unequal(theirs, 2)
            levels = [max(column) + 1 for column in theirs]
            check(array(len(theirs[0]), levels), len(theirs[0]), levels, 2)


@given(st.lists(st.sampled_from([2, 3, 4, 5]), min_size=2, max_size=5))
def test_all_combinations_are_an_array(levels: list[int]) -> None:
    assume(math.prod(levels) <= 300)
    check(array(math.prod(levels), levels), math.prod(levels), levels, 2)
