"""Nested factors: each level under its own parent, counted without being enumerated."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.space import Dimension, Space
from peira.design.blocks.nested_designs import Nested
from peira.errors import Invalid

MODEL = Dimension("model", ("a", "b"))
PROMPT = Dimension("prompt", ("a1", "a2", "b1", "b2"), parent="model")
STYLE = Dimension("style", ("plain", "think"))


def runs(design: Nested, space: Space) -> list[tuple[object, ...]]:
    points = list(design.points(space, 0))
    assert design.size(space) == len(points)
    assert all(list(point.factors) == list(space.names) for point in points)
    return [tuple(point.factors.values()) for point in points]


def test_levels_are_dealt_in_order() -> None:
    found = runs(Nested(), Space((PROMPT, MODEL, STYLE)))
    assert len(found) == len(set(found)) == 8
    assert {(prompt, model) for prompt, model, _ in found} == {
        ("a1", "a"),
        ("a2", "a"),
        ("b1", "b"),
        ("b2", "b"),
    }


def test_levels_as_told() -> None:
    design = Nested(levels={"prompt": {"a": ["a1"], "b": ["b1", "b2", "a2", "a1"]}})
    found = runs(design, Space((MODEL, PROMPT)))
    assert found == [("a", "a1"), ("b", "b1"), ("b", "b2"), ("b", "a2"), ("b", "a1")]


def test_nesting_within_nesting() -> None:
    shots = Dimension("shots", tuple(range(8)), parent="prompt")
    found = runs(Nested(), Space((shots, STYLE, MODEL, PROMPT)))
    assert len(found) == 16
    assert {(model, prompt, n) for n, _, model, prompt in found} == {
        (model, prompt, n)
        for i, (model, prompt) in enumerate([("a", "a1"), ("a", "a2"), ("b", "b1"), ("b", "b2")])
        for n in (2 * i, 2 * i + 1)
    }


@given(st.integers(2, 4), st.integers(1, 3), st.integers(2, 3))
def test_as_many_as_children_times_what_is_crossed(parents: int, each: int, crossed: int) -> None:
    space = Space(
        (
            Dimension("p", tuple(range(parents))),
            Dimension("c", tuple(range(parents * each)), parent="p"),
            Dimension("x", tuple(range(crossed))),
        )
    )
    found = runs(Nested(), space)
    assert len(found) == len(set(found)) == parents * each * crossed
    assert all(c // each == p for p, c, _ in found)


def test_a_huge_tree_is_counted_not_walked() -> None:
    crossed = tuple(Dimension(f"x{n}", tuple(range(10))) for n in range(9))
    space = Space((MODEL, PROMPT, *crossed))
    assert Nested().size(space) == 4 * 10**9
    assert next(Nested().points(space, 0)).factors["prompt"] == "a1"


@pytest.mark.parametrize(
    ("design", "space", "told"),
    [
        (Nested(), (MODEL, STYLE), "no factor is nested in another"),
        (
            Nested(),
            (MODEL, Dimension("c", (1, 2), parent="modle")),
            "c: parent: no factor 'modle'; did you mean",
        ),
        (
            Nested(),
            (MODEL, Dimension("c", (1, 2, 3), parent="model")),
            r"say which belong where: levels\.c\.a =",
        ),
        (
            Nested(),
            (Dimension("c", (1, 2), parent="d"), Dimension("d", (1, 2), parent="c")),
            "c: is nested in itself",
        ),
        (Nested(levels={"promt": {}}), (MODEL, PROMPT), "levels: no factor 'promt'; did you mean 'prompt'"),
        (Nested(levels={"model": {}}), (MODEL, PROMPT), "model is nested in no factor"),
    ],
)
def test_what_cannot_be_nested(design: Nested, space: tuple[Dimension, ...], told: str) -> None:
    with pytest.raises(Invalid, match=told):
        design.points(Space(space), 0)


def test_every_disagreement_with_the_factors_at_once() -> None:
    with pytest.raises(Invalid) as told:
        Nested(levels={"prompt": {"a": ["a1", "x"], "c": ["b1"]}}).size(Space((MODEL, PROMPT)))
    assert [p.split(";")[0] for p in told.value.problems] == [
        "levels.prompt: model has no level 'c'",
        "levels.prompt.b: give at least one level of prompt",
        "levels.prompt: 'x' is not one of its levels",
        "levels.prompt: 'a2' is under no level of model",
        "levels.prompt: 'b2' is under no level of model",
    ]
    with pytest.raises(Invalid, match=r"levels\.prompt: must be a table"):
        Nested(levels={"prompt": ["a1"]})  # type: ignore[dict-item]
