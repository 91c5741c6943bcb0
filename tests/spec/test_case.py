from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.context import SeenCase
from peira.core.ids import canonical
from peira.errors import Invalid, NotJson
from peira.spec.case import Case, as_case, as_cases, case_ids, seen_digest

scalars = st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=3)
inputs = st.recursive(
    scalars,
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=2), inner, max_size=2),
)
cases = st.builds(Case, inputs, inputs)


def problems(make):
    with pytest.raises(Invalid) as caught:
        make()
    return list(caught.value.problems)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (Case("q", "a"), Case("q", "a")),
        (("q", "a"), Case("q", "a")),
        (["q", "a"], Case("q", "a")),
        ("q", Case("q")),
        ({"input": "q", "id": 7, "metadata": {"x": 1}}, Case("q", id="7", metadata={"x": 1})),
    ],
)
def test_what_stands_for_a_case(given, expected):
    assert as_case(given) == expected


def test_values_are_those_that_are_hashed():
    case = Case({"n": 1.0, "pair": (1, 2)}, expected=-0.0, metadata={"t": (3,)})
    assert repr(case.input) == "{'n': 1, 'pair': [1, 2]}"
    assert repr(case.expected) == "0"
    assert case.metadata == {"t": [3]}


def test_a_case_is_frozen():
    with pytest.raises(AttributeError):
        Case("q").input = "other"  # type: ignore[misc]


def test_a_value_json_cannot_carry_is_named_by_its_path():
    with pytest.raises(NotJson, match=r"input\.x\[1\]: nan"):
        Case({"x": [0, float("nan")]})


@pytest.mark.parametrize("field", ["id", "cluster", "slice"])
@pytest.mark.parametrize("bad", ["", 1.5, ["a"], True])
def test_names_of_a_case_are_text(field, bad):
    assert problems(lambda: Case("q", **{field: bad}))[0].startswith(f"{field}: must be text")


def test_every_problem_of_every_case_at_once():
    found: list[str] = []
    given = ["q", {"inptu": 1}, None, ("a", "b", "c"), {"input": b""}]
    assert list(as_cases(given, lambda i: f"cases[{i}]", found)) == [Case("q")]
    assert found == [
        "cases[1].inptu: is not a field of a case; did you mean 'input'?",
        "cases[1].input: is missing",
        "cases[2]: None is not a case; write Case(...), (input, expected), a table, a text or a number",
        "cases[3]: a case as a list is (input, expected), not 3 items",
        "cases[4].input: a bytes is not JSON; use text, or attach a file",
    ]


def test_an_id_is_given_or_comes_from_the_input_and_its_occurrence():
    ids = case_ids([Case("q", "a"), Case("mine", id="m"), Case("q", "b"), Case("r")])
    assert ids[1] == "m"
    assert ids[2] == f"{ids[0]}-1"
    assert len(set(ids)) == 4


@given(st.lists(cases, max_size=8), cases, st.integers(0, 8))
def test_inserting_another_case_shifts_no_id(before, new, at):
    ids = case_ids(before)
    others = [c for c in before if case_ids([c]) != case_ids([new])]
    kept = [i for i, c in zip(ids, before, strict=True) if c in others]
    after = [*before[:at], new, *before[at:]]
    assert [i for i, c in zip(case_ids(after), after, strict=True) if c in others] == kept
    assert len(set(case_ids(after))) == len(after)


@given(cases)
def test_the_agent_does_not_see_what_is_expected(case):
    [id] = case_ids([case])
    seen = case.seen(id)
    assert seen == SeenCase(case.input, id)
    assert not hasattr(seen, "expected")
    assert seen_digest(case, id) == seen_digest(Case(case.input, "another expectation"), id)


@given(cases, cases)
def test_what_the_agent_sees_has_one_digest(a, b):
    assert (seen_digest(a, "i") == seen_digest(b, "i")) == (canonical(a.input) == canonical(b.input))


@pytest.mark.parametrize("change", [{"cluster": "c"}, {"slice": "s"}, {"metadata": {"k": 1}}])
def test_all_the_agent_sees_is_in_its_digest(change):
    assert seen_digest(Case("q"), "i") != seen_digest(Case("q", **change), "i")
    assert seen_digest(Case("q"), "i") != seen_digest(Case("q"), "j")


def test_a_case_has_evaluators_of_its_own():
    assert [e.name for e in Case("q", evaluators=["exact", "match"]).resolved_evaluators()] == [
        "exact",
        "match",
    ]
