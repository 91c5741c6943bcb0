"""Perturbations are made from a seed, change texts only, and keep what an answer depends on."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.errors import Invalid
from peira.perturbations import PERTURBATIONS, perturbed, variants

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)


def shape(value):
    if isinstance(value, dict):
        return {name: shape(one) for name, one in value.items()}
    if isinstance(value, list):
        return [shape(one) for one in value]
    return str if isinstance(value, str) else value


@given(VALUES, st.sampled_from(sorted(PERTURBATIONS)), st.integers())
def test_the_same_seed_gives_the_same_and_only_texts_change(value, kind, seed):
    once = perturbed(value, kind, seed)
    assert once == perturbed(value, kind, seed)
    assert shape(once) == shape(value)


@given(st.text())
def test_blanks_capitals_and_politeness_keep_the_words(text):
    assert perturbed(text, "spaces").split() == text.split()
    assert str(perturbed(text, "politeness")).endswith(text)
    assert perturbed(text, "lower_case") == text.lower()


def test_typos_are_few_and_differ_by_seed():
    text = "Which of these rivers flows through the largest number of countries in Europe today?"
    made = {str(perturbed(text, "typos", seed)) for seed in range(20)}
    assert len(made) > 10
    for one in made:
        assert one != text
        changed = sum(a != b for a, b in zip(one.split(), text.split(), strict=True))
        assert 1 <= changed <= 5


def test_variants_are_levels_of_a_prompt():
    assert list(variants("WHAT?")) == [
        "as_it_is",
        "lower_case",
        "spaces",
        "punctuation",
        "typos",
        "politeness",
    ]
    assert variants("one two", ["upper_case"]) == {"as_it_is": "one two", "upper_case": "ONE TWO"}


def test_an_unknown_kind_is_named():
    with pytest.raises(Invalid, match="did you mean 'typos'"):
        perturbed("x", "typo")
