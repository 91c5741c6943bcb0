from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.ids import normalise
from peira.core.transforms import NoAnswer
from peira.errors import BrokenJson, Invalid
from peira.transforms import json_field
from peira.transforms.json_fields import repaired, strict

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-1e300, 1e300) | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
).map(normalise)
CONTAINER = st.lists(JSON, max_size=4) | st.dictionaries(TEXT, JSON, max_size=4)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('{"a": 1, "b": [1, 2,],}', {"a": 1, "b": [1, 2]}),
        ("{'a': 'it', 'b': True, 'c': None}", {"a": "it", "b": True, "c": None}),
        ("{'a': 'it\\'s'}", {"a": "it's"}),
        ("{'a': 'say \"hi\"'}", {"a": 'say "hi"'}),
        ('{"a": "two\nlines"}', {"a": "two\nlines"}),
        ('{"a": 1 "b": 2}', {"a": 1, "b": 2}),
        ('{"a": "\\ud83d\\ude00 \\_ \\/"}', {"a": "\U0001f600 _ /"}),
        ('{"a": 1} and so on', {"a": 1}),
        ('{"a": 1, "b": "bro', {"a": 1}),
        ('{"a": 1, "b', {"a": 1}),
        ('{"a": 1, "b":', {"a": 1}),
        ('{"a": 1, "b": 2', {"a": 1}),
        ('{"a": 1, "b": 2 ', {"a": 1, "b": 2}),
        ('{"a": [1, {"b": "c"', {"a": [1, {"b": "c"}]}),
        ("[1.5e3, -2, tru", [1500.0, -2]),
        ("[", []),
        ("[123456789012345678901]", ["123456789012345678901"]),
    ],
)
def test_small_faults_are_mended(text: str, value: object) -> None:
    assert repaired(text) == value


@pytest.mark.parametrize("text", ["", "{a: 1}", "{1: 2}", "[nope]", "{'a' 1}", "[" * 500, "}"])
def test_what_cannot_be_mended_is_broken(text: str) -> None:
    with pytest.raises(BrokenJson):
        repaired(text)


@given(JSON)
def test_what_is_json_needs_no_mending(value: object) -> None:
    text = json.dumps(value)
    assert normalise(strict(text)) == value
    if isinstance(value, list | dict):
        assert (
            normalise(repaired(text)) == normalise(repaired(json.dumps(value, ensure_ascii=False))) == value
        )


@given(CONTAINER, st.integers(0, 200))
def test_json_that_breaks_off_keeps_nothing_that_was_not_there(value: object, length: int) -> None:
    text = json.dumps(value)
    kept = repaired(text[: max(1, min(length, len(text)))])
    assert within(normalise(kept), normalise(value))


def within(part: object, whole: object) -> bool:
    if isinstance(part, dict) and isinstance(whole, dict):
        return all(key in whole and within(value, whole[key]) for key, value in part.items())
    if isinstance(part, list) and isinstance(whole, list):
        return len(part) <= len(whole) and all(map(within, part, whole))
    return part == whole


@pytest.mark.parametrize(
    ("path", "output", "answer"),
    [
        ("answer", '{"answer": 42}', 42),
        ("a.b.1", '{"a": {"b": [1, 2]}}', 2),
        (["a.b", 0], '{"a.b": ["x"]}', "x"),
        ("", "[1, 2]", [1, 2]),
        ("a", '{"a": null}', None),
        ("answer", 'Sure [1]:\n```json\n{"answer": 42,}\n```\nDone {x}', 42),
        ("answer", "So {it} is {'answer': 42}.", 42),
        ("answer", '{"draft": 1} then {"answer": 2}', 2),
        ("a", {"a": "yes"}, "yes"),
        ("a", '{"b": 1}', NoAnswer("no such field")),
        ("a.5", '{"a": [1]}', NoAnswer("no such field")),
        ("a", "no JSON here", NoAnswer("no JSON")),
        ("a", '{"a": "\\ud800"}', NoAnswer("a value that JSON cannot carry")),
        ("a", '{"a": 1e999}', NoAnswer("a value that JSON cannot carry")),
    ],
)
def test_a_field_is_found_by_its_path(path: object, output: object, answer: object) -> None:
    assert json_field(path).apply(output) == answer  # type: ignore[arg-type]


def test_without_repair_the_whole_text_must_be_json() -> None:
    assert json_field("a", repair=False).apply(' {"a": 1} ') == 1
    assert json_field("a", repair=False).apply('x {"a": 1}') == NoAnswer("no JSON")
    assert json_field("a", repair=False).apply('{"a": 1,}') == NoAnswer("no JSON")


@pytest.mark.parametrize(("path", "repair"), [([1.5], True), ([None], True), ("a", "yes")])
def test_wrong_options_are_refused(path: object, repair: object) -> None:
    with pytest.raises(Invalid, match="json_field"):
        json_field(path, repair)  # type: ignore[arg-type]
