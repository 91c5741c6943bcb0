"""One factor at a time around a baseline."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.space import Dimension, Space
from peira.design.factorial.one_factor import OneFactorAtATime
from peira.errors import Invalid

SPACE = Space(
    (
        Dimension("model", ("small", "large")),
        Dimension("style", ("plain", "steps", "table"), baseline="steps"),
        Dimension("temperature", scale="continuous", low=0, high=1),
    )
)


def test_each_factor_is_moved_alone() -> None:
    design = OneFactorAtATime(levels=3, replicates=2)
    points = list(design.points(SPACE, 0))
    base = {"model": "small", "style": "steps", "temperature": 0.5}
    assert [p.factors for p in points] == [
        base,
        {**base, "model": "large"},
        {**base, "style": "plain"},
        {**base, "style": "table"},
        {**base, "temperature": 0},
        {**base, "temperature": 1},
    ]
    assert design.size(SPACE) == 6
    assert {p.replicates for p in points} == {2}


def test_a_baseline_that_is_said_goes_first() -> None:
    design = OneFactorAtATime(baseline={"model": "large", "temperature": 0.3}, levels={"temperature": 2})
    points = list(design.points(SPACE, 0))
    assert points[0].factors == {"model": "large", "style": "steps", "temperature": 0.3}
    assert len(points) == design.size(SPACE) == 6


@pytest.mark.parametrize(
    ("baseline", "problem"),
    [
        ({"model": "larg"}, "baseline.model: 'larg' is not one of its levels; did you mean 'large'?"),
        ({"modle": "large"}, "baseline: no factor 'modle'; did you mean 'model'?"),
        ({"temperature": 2}, "baseline.temperature: must be from 0 to 1, not 2"),
        ({"temperature": "hot"}, "baseline.temperature: must be a number from 0 to 1, not 'hot'"),
    ],
)
def test_a_baseline_outside_the_space(baseline: dict[str, object], problem: str) -> None:
    for ask in (
        OneFactorAtATime(baseline=baseline, levels=3).size,
        lambda s: OneFactorAtATime(baseline=baseline, levels=3).points(s, 0),
    ):
        with pytest.raises(Invalid) as error:
            ask(SPACE)
        assert problem in str(error.value)


def test_bad_parameters() -> None:
    with pytest.raises(Invalid) as error:
        OneFactorAtATime(baseline="small", levels=1, replicates=0)  # type: ignore[arg-type]
    assert len(error.value.problems) == 3
    with pytest.raises(Invalid, match="there are no factors"):
        OneFactorAtATime().size(Space(()))


@given(st.lists(st.integers(2, 6), min_size=1, max_size=8))
def test_no_run_differs_from_the_baseline_in_more_than_one_factor(levels: list[int]) -> None:
    space = Space(tuple(Dimension(f"x{nth}", tuple(range(count))) for nth, count in enumerate(levels)))
    points = [p.factors for p in OneFactorAtATime().points(space, 0)]
    assert len(points) == OneFactorAtATime().size(space) == 1 + sum(levels) - len(levels)
    assert len({tuple(p.items()) for p in points}) == len(points)
    assert {sum(p[name] != points[0][name] for name in space.names) for p in points[1:]} == {1}
