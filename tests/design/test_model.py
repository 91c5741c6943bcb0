"""Formulas and their matrices: against hand-written ones, and against another encoder."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.space import Dimension, Space
from peira.design.model import INTERCEPT, Term, encode, model_matrix, parameters, parse, width
from peira.errors import Invalid

MODEL = Dimension("model", ("small", "middle", "large"))
STYLE = Dimension("style", ("plain", "think"))
HEAT = Dimension("heat", low=0, high=2, scale="continuous")
RATE = Dimension("rate", low=0.01, high=1, scale="continuous", log=True)
SHOTS = Dimension("shots", (0, 1, 4), scale="integer")
SPACE = Space((MODEL, STYLE, HEAT, RATE, SHOTS))


def labels(formula: str, space: Space = SPACE) -> list[str]:
    return [term.label for term in parse(formula, space)]


def test_the_words_for_whole_models() -> None:
    space = Space((MODEL, STYLE, HEAT))
    main = ["intercept", "model", "style", "heat"]
    pairs = ["model:style", "model:heat", "style:heat"]
    assert labels("main", space) == main
    assert labels("interactions", space) == main + pairs
    assert labels("quadratic", space) == [*main, *pairs, "heat^2"]


def test_a_star_is_the_factors_and_their_interactions() -> None:
    assert labels("model*style") == ["intercept", "model", "style", "model:style"]
    assert labels("model*style*heat")[-1] == "model:style:heat"
    assert len(labels("model*style*heat")) == 1 + 7


def test_terms_are_told_once_in_the_order_of_the_space() -> None:
    assert labels("1 + style:model + model:style + heat:heat + heat**2 + heat^2") == [
        "intercept",
        "model:style",
        "heat^2",
    ]


def test_a_factor_may_have_the_name_of_a_word() -> None:
    space = Space((Dimension("main", ("a", "b")), STYLE))
    assert labels("main", space) == ["intercept", "main"]


def test_every_problem_at_once() -> None:
    with pytest.raises(Invalid) as told:
        parse("modl + style^2 + shots^3 + heat^0 + a b", SPACE)
    text = str(told.value)
    assert len(told.value.problems) == 5
    assert "did you mean 'model'" in text
    assert "style is not numeric" in text
    assert "shots^3 needs 4 values of shots, not 3" in text
    assert "heat^0 is the intercept" in text
    assert "'a b' is no term" in text


def test_squares_are_only_for_numbers_with_three_values() -> None:
    space = Space((Dimension("n", (1, 2), scale="integer"), Dimension("k", low=1, high=2, scale="integer")))
    assert labels("quadratic", space) == ["intercept", "n", "k", "n:k"]


def test_the_matrix_by_hand() -> None:
    rows = [
        {"model": "small", "style": "plain", "heat": 0, "rate": 0.01, "shots": 0},
        {"model": "middle", "style": "think", "heat": 1, "rate": 0.1, "shots": 1},
        {"model": "large", "style": "think", "heat": 2, "rate": 1, "shots": 4},
    ]
    matrix, names = model_matrix(SPACE, rows, "model + style + heat + heat^2 + rate + shots + model:heat")
    assert names == (
        *("intercept", "model[small]", "model[middle]", "style[plain]", "heat", "heat^2", "rate", "shots"),
        *("model[small]:heat", "model[middle]:heat"),
    )
    expected = [
        [1, 1, 0, 1, -1, 1, -1, -1, -1, 0],
        [1, 0, 1, -1, 0, 0, 0, -0.5, 0, 0],
        [1, -1, -1, -1, 1, 1, 1, 1, -1, -1],
    ]
    np.testing.assert_allclose(matrix, expected, atol=1e-12)


def test_the_matrix_agrees_with_patsy() -> None:
    patsy = pytest.importorskip("patsy")
    rng = np.random.default_rng(0)
    data = {
        "model": rng.choice(MODEL.levels, 20).tolist(),
        "style": rng.choice(STYLE.levels, 20).tolist(),
        "h": rng.uniform(-1, 1, 20),
    }
    rows = [
        {"model": m, "style": s, "heat": h + 1}
        for m, s, h in zip(data["model"], data["style"], data["h"].tolist(), strict=True)
    ]
    ours, _ = model_matrix(Space((MODEL, STYLE, HEAT)), rows, "model*style + heat + model:heat + heat^2")
    m, s = (f"C({d.name}, Sum, levels={list(d.levels)!r})" for d in (MODEL, STYLE))
    theirs = np.asarray(patsy.dmatrix(f"{m} * {s} + h + {m}:h + I(h**2)", data))
    assert sorted(map(tuple, np.round(ours.T, 9))) == sorted(map(tuple, np.round(theirs.T, 9)))


def test_true_is_not_one_and_one_point_zero_is() -> None:
    space = Space((Dimension("flag", (True, 1, "1")),))
    matrix, names = model_matrix(space, [{"flag": 1.0}, {"flag": True}, {"flag": "1"}], "flag")
    assert names == ("intercept", "flag[True]", "flag[1]")
    assert matrix.tolist() == [[1, 0, 1], [1, 1, 0], [1, -1, -1]]


def test_values_that_are_none_are_named() -> None:
    with pytest.raises(Invalid, match="model: 'smal' is not one of its levels; did you mean 'small'"):
        model_matrix(SPACE, [{"model": "smal"}], "model")
    with pytest.raises(Invalid, match="heat: 'hot' is not a number"):
        model_matrix(SPACE, [{"heat": "hot"}], "heat")
    with pytest.raises(Invalid, match="rate: 0 is not a positive number"):
        model_matrix(SPACE, [{"rate": 0}], "rate")
    with pytest.raises(Invalid, match="style: not every run has a value"):
        model_matrix(SPACE, [{"model": "small"}], "model + style")


@given(st.lists(st.sampled_from(SPACE.dimensions), min_size=1, unique=True), st.data())
def test_columns_are_as_many_as_parameters_and_effects_sum_to_zero(
    dimensions: list[Dimension], data: st.DataObject
) -> None:
    space = Space(tuple(dimensions))
    formula = data.draw(st.sampled_from(["main", "interactions", "quadratic"]))
    terms = parse(formula, space)
    rows = [{d.name: d.at(place) for d in dimensions} for place in (-1.0, 0.0, 1.0)]
    matrix, names = encode(space, rows, terms)
    assert matrix.shape == (3, parameters(space, terms)) == (3, sum(width(t, space) for t in terms))
    assert len(set(names)) == len(names)
    for d in dimensions:
        if d.levels and d.scale == "categorical":
            every, _ = encode(space, [{d.name: level} for level in d.levels], [Term(((d.name, 1),))])
            assert every.sum(axis=0).tolist() == [0.0] * (len(d.levels) - 1)


def test_no_rows_have_no_rows_in_the_matrix() -> None:
    matrix, _ = encode(SPACE, [], parse("model*style", SPACE))
    assert matrix.shape == (0, 6)
    assert encode(SPACE, [{}, {}], [INTERCEPT])[0].tolist() == [[1.0], [1.0]]
