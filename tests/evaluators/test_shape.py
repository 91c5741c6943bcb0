from __future__ import annotations

import pickle
import socket
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Evaluator
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators import json_schema, length


def judged(evaluator: Evaluator, output: object, expected: object = None) -> Any:
    return evaluator.judge({"output": output, "expected": expected})


@given(st.text())
def test_length_is_measured_in_its_unit(text: str) -> None:
    assert judged(length(), text) == len(text)
    assert judged(length("words"), text) == len(text.split())
    assert judged(length("lines"), text) == len(text.splitlines())


def test_bounds_make_it_a_check() -> None:
    assert judged(length("words", at_least=2), "one two") is True
    assert judged(length("words", at_least=3), "one two") is False
    assert judged(length("words", at_least=1, at_most=1), "one two") is False
    assert judged(length(tolerance=0.1), "a" * 11, "a" * 10) is True
    assert judged(length(tolerance=0.1), "a" * 12, "a" * 10) is False
    assert judged(length(tolerance=0), "a", "b") is True
    assert judged(length(at_most=10, tolerance=1), "a" * 11, "a" * 10) is False


def test_only_a_tolerance_depends_on_what_is_expected() -> None:
    assert length().takes == length(at_most=5).takes == {"output"}
    assert length(tolerance=0.5).takes == {"output", "expected"}


def test_no_answer_has_no_length() -> None:
    assert judged(length(at_most=5), NoAnswer("empty")) is False
    with pytest.raises(Invalid, match="cannot judge what is not there: no answer: empty"):
        judged(length(), NoAnswer("empty"))


def test_all_wrong_options_are_said_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        length("word", at_least=-1, at_most=1.5, tolerance=True)  # type: ignore[arg-type]
    assert len(caught.value.problems) == 4
    with pytest.raises(Invalid, match="at least 5 and at most 4"):
        length(at_least=5, at_most=4)


SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}, "next": {"$ref": "#"}},
    "required": ["city"],
}


@pytest.mark.parametrize(
    ("output", "keeps"),
    [
        ('{"city": "Paris"}', True),
        ({"city": "Paris", "next": {"city": "Rome"}}, True),
        ({"city": "Paris", "next": {}}, False),
        ('{"city": 5}', False),
        ("Paris", False),
        ('{"city": "Paris"} is it', False),
        ("", False),
        ("[" * 100_000, False),
        (None, False),
    ],
)
def test_json_is_checked_against_a_schema(output: object, keeps: bool) -> None:
    assert judged(json_schema(SCHEMA), output) is keeps
    assert judged(json_schema(), output, SCHEMA) is keeps
    assert judged(pickle.loads(pickle.dumps(json_schema(SCHEMA))), output) is keeps


def test_a_schema_is_checked_when_the_evaluator_is_made() -> None:
    with pytest.raises(Invalid, match="not a schema: 'nope' is not valid"):
        json_schema({"type": "nope"})
    with pytest.raises(Invalid, match="5 is not a schema"):
        json_schema(5)  # type: ignore[arg-type]
    with pytest.raises(Invalid, match="is not a schema"):
        judged(json_schema(), "5", "no schema")


def test_nothing_is_fetched() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.setblocking(False)
        place = f"http://127.0.0.1:{server.getsockname()[1]}/schema"
        with pytest.raises(Invalid, match="cannot be used: Unresolvable"):
            judged(json_schema({"$ref": place}), "5")
        with pytest.raises(BlockingIOError):
            server.accept()


def test_the_schema_is_part_of_the_identity() -> None:
    assert json_schema(SCHEMA).identity["config"] == {"schema": SCHEMA}
    assert json_schema(SCHEMA).takes == {"output"}
    assert json_schema().takes == {"output", "expected"}
