from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.cli.options import joined_conditions
from peira.core.expressions import Expression
from peira.errors import Invalid


@given(
    st.text().filter(lambda text: text.strip()) | st.sampled_from(["NaN", "-Infinity", "1e999"]), st.text()
)
def test_a_value_means_that_text_and_no_other(value, other):
    fits = Expression(joined_conditions([f"model= {value}"]))
    assert fits.evaluate({"model": value.strip()})
    assert fits.evaluate({"model": other}) == (other == value.strip())


@given(st.text().filter(lambda text: text.strip() and not text.startswith("=")))
def test_the_space_before_a_value_does_not_matter(value):
    assert joined_conditions([f"model={value}"]) == joined_conditions([f"model= {value}"])


def test_two_equal_signs_compare_as_in_any_expression():
    assert joined_conditions(["model == other"]) == "model == other"
    assert Expression(joined_conditions(["model= == x"])).evaluate({"model": "== x"})
    with pytest.raises(Invalid, match="for the text '==!' write model= ==!"):
        joined_conditions(["model===!"])


@given(st.integers(-(10**6), 10**6))
def test_a_number_means_the_number_and_its_text(value):
    fits = Expression(joined_conditions([f"size={value}"]))
    assert fits.evaluate({"size": value})
    assert fits.evaluate({"size": str(value)})
    assert not fits.evaluate({"size": value + 1})


def test_several_hold_together():
    fits = Expression(joined_conditions(["a=1 or b", "b == 2 or b == 3"]))
    assert fits.evaluate({"a": "1 or b", "b": 3})
    assert not fits.evaluate({"a": 1, "b": 3})
    assert not fits.evaluate({"a": "1 or b", "b": 4})


def test_none_is_no_restriction():
    assert joined_conditions([]) == ""


def test_every_one_that_is_wrong_is_told():
    with pytest.raises(Invalid) as error:
        joined_conditions(["model =", "open('x')", "a=1"])
    assert len(error.value.problems) == 2
