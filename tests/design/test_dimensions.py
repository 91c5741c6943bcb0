"""What is asked of factors: shares, checks, and the lines that say what is wrong."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.space import Dimension, Space
from peira.design.dimensions import (
    choice_problems,
    coded,
    count_problems,
    generator,
    label,
    name_problems,
    ranges,
    require,
    space_problems,
    value_at,
    values_of,
)
from peira.errors import Invalid

HEAT = Dimension("heat", low=0, high=2, scale="continuous")


def test_what_is_wrong_with_a_space_is_told_at_once() -> None:
    space = Space(
        (
            Dimension("none"),
            Dimension("one", ("a",)),
            Dimension("log", low=0, high=1, scale="continuous", log=True),
            Dimension("down", low=2, high=1, scale="continuous"),
            Dimension("between", low=1.2, high=1.8, scale="integer"),
            Dimension("fine", ("a", "b")),
        )
    )
    told = list(space_problems(space))
    assert [line.split(":")[0] for line in told] == ["none", "one", "log", "down", "between"]
    assert all(";" in line or "below" in line for line in told)
    assert list(space_problems(Space(()))) == [
        "there are no factors; give at least one, with two levels or more"
    ]


def test_ranges_are_shown_as_levels() -> None:
    told = list(ranges(Space((HEAT, Dimension("a", ("x", "y")))), "latin_square"))
    assert told == ["heat: is a range, and latin_square takes levels; say levels = [0, 1.0, 2]"]


@pytest.mark.parametrize("value", [0, 11, True, 2.0, "3", None])
def test_counts_out_of_bounds(value: object) -> None:
    assert len(list(count_problems("n", value, 1, 10))) == 1


def test_names_have_the_nearest_one() -> None:
    space = Space((HEAT,))
    assert list(name_problems("block", ["heta"], space)) == ["block: no factor 'heta'; did you mean 'heat'?"]
    assert "did you mean 'maximin'" in next(
        iter(choice_problems("criterion", "maxmin", ["maximin", "random"]))
    )
    with pytest.raises(Invalid) as told:
        require(["a"], iter(["b", "c"]), ())
    assert told.value.problems == ("a", "b", "c")


@given(st.integers(1, 12), st.integers(-5, 5), st.booleans())
def test_equal_shares_of_levels_and_whole_numbers(count: int, low: int, levels: bool) -> None:
    values = tuple(range(low, low + count))
    dimension = (
        Dimension("n", values) if levels else Dimension("n", low=low, high=low + count - 1, scale="integer")
    )
    shares = [(i + 0.5) / (4 * count) for i in range(4 * count)]
    found = Counter(value_at(dimension, share) for share in shares)
    assert values_of(dimension) == count
    assert found == dict.fromkeys(values, 4)


@given(st.floats(0, 1, exclude_max=True), st.booleans())
def test_a_share_and_its_code_are_one_place(share: float, log: bool) -> None:
    dimension = Dimension("x", low=0.5, high=8, scale="continuous", log=log)
    assert coded(dimension, value_at(dimension, share)) == pytest.approx(2 * share - 1, abs=1e-9)


def test_seeds_of_any_sign_and_size_differ() -> None:
    drawn = {generator(seed, "d").random() for seed in (-(2**53), -1, 0, 1, 2**53)}
    assert len(drawn) == 5
    assert generator(-1, "d").random() == generator(-1, "d").random() != generator(-1, "e").random()


def test_labels_of_levels() -> None:
    assert [label(level) for level in ("a", 1, 1.5, True, None)] == ["a", "1", "1.5", "true", "null"]
