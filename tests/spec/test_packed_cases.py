"""Packed cases are equal to those they were made of, with the ids and digests that these have in a list."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import Case, study
from peira.errors import Invalid
from peira.spec.case import MANY, gathered, identities, repeated_ids, with_evaluators
from peira.spec.packed_cases import PackedCases

TEXTS = st.text(min_size=1, max_size=5)
VALUES = st.none() | st.booleans() | st.integers(-5, 5) | st.floats(-2, 2) | st.lists(TEXTS, max_size=2)
CASES = st.lists(
    st.builds(
        Case,
        VALUES,
        VALUES,
        id=st.none() | TEXTS | st.just("0123456789abcdef"),
        cluster=st.none() | TEXTS,
        slice=st.none() | TEXTS,
        metadata=st.dictionaries(TEXTS, VALUES, max_size=2),
    ),
    max_size=12,
)


@given(CASES)
def test_packed_cases_are_those_that_were_given(cases: list[Case]) -> None:
    packed = PackedCases(cases)
    assert (list(packed), len(packed)) == (cases, len(cases))
    assert packed == tuple(cases) == packed[:]
    assert [packed[at] for at in range(-len(cases), 0)] == cases
    assert [(id, seen) for id, seen, _ in packed.columns] == list(identities(cases))
    assert [packed.columns[at][0] for at in range(len(cases))] == [id for id, _ in identities(cases)]
    assert repeated_ids(packed) == repeated_ids(tuple(cases))
    assert pickle.loads(pickle.dumps(packed)) == packed


def test_cases_of_equal_inputs_are_told_apart() -> None:
    cases = [Case("a", expected=n) for n in range(3)] + [Case("b"), Case("a", id="b"), Case("a")]
    packed = PackedCases(cases)
    assert [id.partition("-")[2] for id, _, _ in packed.columns] == ["", "1", "2", "", "", "3"]
    assert packed != tuple(cases[:-1])
    with pytest.raises(IndexError):
        packed[6]


def test_only_many_cases_without_evaluators_are_packed() -> None:
    cases = [Case(str(n)) for n in range(MANY)]
    assert isinstance(gathered(iter(cases)), PackedCases)
    assert type(gathered(cases[1:])) is tuple
    for at in (7, MANY):  # before it is known that there are many, and after
        judged = [*cases[:at], Case("x", evaluators=["exact"]), *cases[at:]]
        found = gathered(iter(judged))
        assert found == tuple(judged)
        assert list(with_evaluators(found)) == [(at, judged[at])]


def test_ids_of_many_cases_are_different() -> None:
    cases = [{"input": n, "id": f"case {n}"} for n in range(MANY)]
    made = study(cases=cases)(lambda case: case.input)
    assert isinstance(made.case_sets[""], PackedCases)
    cases[-1]["id"] = "case 5"
    with pytest.raises(Invalid, match="cases: 2 cases have the id 'case 5'"):
        study(cases=cases)(lambda case: case.input)
