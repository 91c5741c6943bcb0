from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.ids import digest, normalise
from peira.core.registry import registry
from peira.core.transforms import NoAnswer, Transform, as_transform, from_json, to_json
from peira.errors import Invalid, NotJson
from peira.transforms import chain, last_line, regex, register

register(registry)

KEYS = st.sampled_from(["no_answer", "answer", "a"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text("ab", max_size=3),
    lambda inner: st.lists(inner, max_size=2) | st.dictionaries(KEYS, inner, max_size=2),
    max_leaves=6,
)


def test_no_answer_is_nothing_but_itself() -> None:
    nothing = NoAnswer("no number")
    assert nothing == NoAnswer("no number") != NoAnswer("empty")
    assert nothing not in ("", None, False, 0, {}, {"no_answer": "no number"}, "no answer: no number")
    assert not nothing
    assert str(nothing) == "no answer: no number"
    with pytest.raises(NotJson):
        digest({"output": nothing})


@given(JSON, st.text("ab", max_size=3))
def test_what_is_recorded_is_read_back_whatever_an_answer_looks_like(answer: object, reason: str) -> None:
    assert from_json(normalise(to_json(answer))) == answer
    assert from_json(to_json(NoAnswer(reason))) == NoAnswer(reason)
    assert to_json(answer) != to_json(NoAnswer(reason))
    assert msgspec.json.decode(msgspec.json.encode(to_json(answer))) == to_json(answer)


def test_most_answers_are_recorded_as_they_are() -> None:
    for answer in ("", None, 5, [NoAnswer], {"a": 1}, {"no_answer": 1, "a": 2}):
        assert to_json(answer) is answer
    assert to_json({"no_answer": "x"}) == {"answer": {"no_answer": "x"}}


def shout(output: str) -> str:
    return output.upper()


@pytest.mark.parametrize(
    ("given", "meant"),
    [
        ("last_line", last_line()),
        (last_line(), last_line()),
        ({"regex": {"pattern": "a"}}, regex("a")),
        ({"name": "regex", "pattern": "a", "group": 0}, regex("a", 0)),
        ({"name": "last_line"}, last_line()),
        (["last_line", {"regex": {"pattern": "a"}}], chain([last_line(), regex("a")])),
    ],
)
def test_names_tables_and_lists_mean_the_transform_they_make(given: object, meant: object) -> None:
    assert as_transform(given) == meant


def test_a_function_becomes_a_transform() -> None:
    made = as_transform(shout)
    assert isinstance(made, Transform)
    assert (made.name, made.apply("a")) == ("shout", "A")


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("last_lin", "did you mean 'last_line'"),
        ({"name": "regex", "patern": "a"}, "regex: .*patern"),
        ({"regex": "a"}, "is not a transform; write"),
        (5, "5 is not a transform"),
        ("function", "write a function as"),
        ([], "not a list of transforms"),
    ],
)
def test_what_is_no_transform_is_refused_in_one_line(given: object, said: str) -> None:
    with pytest.raises(Invalid, match=said) as caught:
        as_transform(given)
    assert len(caught.value.problems) == 1
