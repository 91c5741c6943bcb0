"""Two values share a digest exactly when they are the same value, and what JSON cannot carry is refused."""

from __future__ import annotations

import dataclasses
import datetime
import decimal
import enum
import json
import math
import random
from typing import Any

import numpy
import pytest
import rfc8785
from hypothesis import given
from hypothesis import strategies as st

from peira.core.ids import (
    MAX_DEPTH,
    MAX_INT,
    canonical,
    compose,
    composer,
    digest,
    digest_bytes,
    normalise,
    own_copy,
    resolve,
    seed_of,
    short,
)
from peira.errors import NotJson, Unknown

# Control characters, the escaped ones, the ends of the planes, and characters that sort differently in
# UTF-8 and UTF-16: there the fast ways of writing could differ from the standard.
AWKWARD = '\x00\x08\t\n\x0b\x0c\r\x1f "\\/\x7f\x80\xff\u2028\u2029\ue000\ufeff\uffff\U00010000\U0010ffff😀é'
character = st.one_of(st.characters(exclude_categories=["Cs"]), st.sampled_from(AWKWARD))
text = st.text(character, max_size=8)
integer = st.integers(-MAX_INT, MAX_INT)
number = st.one_of(integer, st.floats(allow_nan=False, allow_infinity=False))
scalar = st.one_of(st.none(), st.booleans(), number, text)


def containers(inner: st.SearchStrategy[Any], keys: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, max_size=4),
        st.lists(inner, max_size=4).map(tuple),
        st.dictionaries(keys, inner, max_size=4),
    )


value = st.recursive(scalar, lambda inner: containers(inner, text), max_leaves=12)

# Few values, all alike, so that two drawn ones are often the same and often nearly so.
alike = st.sampled_from([0, -0.0, 0.0, 1, 1.0, True, False, None, "", "1", "0", "null", "true", 0.5, "0.5"])
confusable = st.recursive(alike, lambda inner: containers(inner, st.sampled_from("ab")), max_leaves=3)


def same(a: Any, b: Any) -> bool:
    """The equalities of the design: numbers by value, lists with tuples; nothing else."""
    if isinstance(a, (list, tuple)) and isinstance(b, (list, tuple)):
        return len(a) == len(b) and all(map(same, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, (int, float)) and isinstance(b, (int, float)):
        return a == b
    return type(a) is type(b) and a == b


def respelled(value: Any, luck: random.Random) -> Any:
    """The same value, written otherwise wherever it can be."""
    if isinstance(value, (list, tuple)):
        return luck.choice([list, tuple])(respelled(item, luck) for item in value)
    if isinstance(value, dict):
        items = [(key, respelled(item, luck)) for key, item in value.items()]
        return dict(luck.sample(items, len(items)))
    if type(value) is int and luck.random() < 0.5:
        return float(value)
    if type(value) is float and value.is_integer() and abs(value) <= MAX_INT and luck.random() < 0.5:
        return int(value)
    return -0.0 if type(value) in (int, float) and value == 0 and luck.random() < 0.5 else value


@given(value)
def test_canonical_json_is_that_of_the_standard(value: Any) -> None:
    plain = normalise(value)
    assert canonical(plain) == rfc8785.dumps(plain)


@given(text)
def test_a_text_alone_is_written_as_within_a_list(value: str) -> None:
    assert b"[" + canonical(value) + b"]" == canonical([value]) == rfc8785.dumps([value])


def test_keys_are_sorted_by_utf_16() -> None:
    """In UTF-8, and so in a plain sort, the astral key would come last."""
    assert canonical({"\ue000": 1, "\U00010000": 2}).decode() == '{"\U00010000":2,"\ue000":1}'


def test_a_large_nested_value_is_written_whole() -> None:
    value: Any = {f"k{i}": [i, i / 7, f"é{i}", {"x": None}] for i in range(2000)}
    for _ in range(MAX_DEPTH - 3):
        value = [value]
    assert canonical(normalise(value)) == rfc8785.dumps(normalise(value))


@given(value)
def test_what_is_written_reads_back_as_the_same_value(value: Any) -> None:
    """Whole numbers beyond 2^53 - 1 can only have been floats."""
    read = json.loads(canonical(normalise(value)), parse_int=lambda t: float(t) if len(t) > 15 else int(t))
    assert same(read, value)


@given(confusable, confusable)
def test_digests_are_equal_exactly_for_the_same_value(a: Any, b: Any) -> None:
    assert (digest(a) == digest(b)) == same(a, b)
    assert (json.dumps(normalise(a), sort_keys=True) == json.dumps(normalise(b), sort_keys=True)) == same(
        a, b
    )


@given(value, st.randoms(use_true_random=False))
def test_another_spelling_is_the_same_value(value: Any, luck: random.Random) -> None:
    other = respelled(value, luck)
    assert digest(other) == digest(value)
    # The value hashed is the value the agent gets: 1 and 1.0, once normalised, do not even differ in type.
    assert json.dumps(normalise(other), sort_keys=True) == json.dumps(normalise(value), sort_keys=True)


@pytest.mark.parametrize(
    ("a", "b"),
    [
        (True, 1),
        (False, 0),
        ("1", 1),
        (None, ""),
        (None, "null"),
        (None, False),
        ([], {}),
        ([], None),
        ("", []),
        ([1], 1),
        ([[]], []),
        ({"a": None}, {}),
        ({"a": 1}, {"A": 1}),
        (["a", "b"], ["b", "a"]),
        (["ab"], ["a", "b"]),
        ("é", "e\u0301"),
        (0.1, 0.1 + 2**-56),
        (MAX_INT, MAX_INT - 1),
        (float(2**53), float(2**53 + 2)),
    ],
)
def test_what_is_not_the_same_has_another_digest(a: Any, b: Any) -> None:
    assert digest(a) != digest(b)


@given(value)
def test_normalising_gives_new_containers_and_settles_at_once(value: Any) -> None:
    once = normalise(value)
    assert normalise(once) == once
    if isinstance(value, (list, dict)):
        assert once is not value
        assert own_copy(once) == once
        assert own_copy(once) is not once


class Colour(enum.Enum):
    red = 1


class Word(enum.StrEnum):
    one = "one"


class Number(enum.IntEnum):
    one = 1


class Text(str):
    pass


@dataclasses.dataclass
class Point:
    x: int


class Pydantic:
    def model_dump(self) -> None: ...


REFUSED = [
    (math.nan, "nan is not JSON"),
    (math.inf, "inf is not JSON"),
    (-math.inf, "-inf is not JSON"),
    ("\ud800", "lone surrogate"),
    ("ok \udfff", "lone surrogate"),
    (MAX_INT + 1, "beyond 2^53 - 1"),
    (-MAX_INT - 1, "beyond 2^53 - 1"),
    (10**5000, "beyond 2^53 - 1"),
    (b"x", "a bytes is not JSON; use text"),
    (datetime.date(2026, 1, 1), "a date is not JSON; use .isoformat()"),
    (datetime.datetime(2026, 1, 1), "a datetime is not JSON; use .isoformat()"),
    ({1}, "a set is not JSON; use a sorted list"),
    (frozenset("a"), "a frozenset is not JSON; use a sorted list"),
    (Colour.red, "a Colour is not JSON"),
    (Word.one, "a Word is not JSON; use str(...)"),
    (Number.one, "a Number is not JSON; use int(...)"),
    (Text("x"), "a Text is not JSON; use str(...)"),
    (Point(1), "a Point is not JSON; use dataclasses.asdict"),
    (Pydantic(), "a Pydantic is not JSON; use .model_dump()"),
    (decimal.Decimal(1), "a Decimal is not JSON; use a float"),
    (numpy.int64(1), "an int64 is not JSON; use .item()"),
    (numpy.float64(1), "a float64 is not JSON; use .item()"),
    (numpy.array([1]), "a ndarray is not JSON; use .item() or .tolist()"),
    (1j, "a complex is not JSON"),
    (range(3), "a range is not JSON"),
    (object, "a type is not JSON"),
    ({1: 2}, "key 1 is an int; JSON keys are strings"),
    ({None: 2}, "key None is a NoneType; JSON keys are strings"),
    ({Word.one: 2}, "JSON keys are strings"),
    ({"\ud800": 2}, "key: text with a lone surrogate"),
]


@pytest.mark.parametrize(("value", "why"), REFUSED, ids=[f"{i}" for i in range(len(REFUSED))])
def test_what_json_cannot_carry_is_refused_with_its_path(value: Any, why: str) -> None:
    with pytest.raises(NotJson) as refused:
        digest(value)
    assert str(refused.value).startswith("value")
    assert why in str(refused.value)
    with pytest.raises(NotJson) as refused:
        normalise({"rows": [0, (1, {"cell": value})]}, "input")
    assert str(refused.value).startswith("input.rows[1][1].cell")
    assert why in str(refused.value)
    str(refused.value).encode()  # and the message itself can be shown and stored


def test_a_value_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append({"again": loop})
    with pytest.raises(NotJson, match=r"^value\[0\].again\[0\]"):
        normalise(loop)


def nested(levels: int) -> Any:
    value: Any = 1
    for _ in range(levels):
        value = [value]
    return value


def test_depth_has_a_limit_that_is_said() -> None:
    assert digest(nested(MAX_DEPTH + 1))
    with pytest.raises(NotJson, match=f"deeper than {MAX_DEPTH} levels"):
        digest(nested(MAX_DEPTH + 2))


@given(value)
def test_a_digest_is_of_the_canonical_bytes(value: Any) -> None:
    assert digest(value) == digest_bytes(canonical(normalise(value)))
    assert len(digest(value)) == 64


part = st.one_of(st.integers(), st.text("abcdef0123456789", min_size=1, max_size=8))


@given(st.lists(part, max_size=4), st.lists(part, min_size=1, max_size=3))
def test_a_composer_says_what_compose_says(fixed: list[Any], rest: list[Any]) -> None:
    finish = composer("trial", *fixed)
    text = " ".join(map(str, rest))
    assert finish(text) == finish(text) == compose("trial", *fixed, *rest)


@given(st.lists(part, max_size=4), st.lists(part, max_size=4))
def test_composite_ids_differ_with_any_part(a: list[Any], b: list[Any]) -> None:
    assert (compose("x", *a) == compose("x", *b)) == (list(map(str, a)) == list(map(str, b)))
    assert compose("x", *a) != compose("y", *a)


def test_seeds_are_many_and_are_json() -> None:
    seeds = {seed_of(digest(i)) for i in range(2000)}
    assert len(seeds) == 2000
    assert all(0 <= seed <= MAX_INT for seed in seeds)
    assert max(seeds) > 2**52  # all 53 bits are used


class TestResolve:
    ids = ("aaaa1", "aaaa2", "aaab", "b", "bc")

    @pytest.mark.parametrize(
        ("prefix", "found"), [("aaaa1", "aaaa1"), ("aaab", "aaab"), ("aaaa2", "aaaa2"), ("bc", "bc")]
    )
    def test_a_unique_prefix_is_enough(self, prefix: str, found: str) -> None:
        assert resolve(prefix, self.ids, "run") == found

    def test_a_whole_id_is_itself_though_others_begin_so(self) -> None:
        assert resolve("b", self.ids, "run") == "b"

    def test_an_id_met_twice_is_one(self) -> None:
        assert resolve("aa", ["aaaa1", "aaaa1"], "run") == "aaaa1"

    def test_an_ambiguous_prefix_names_the_candidates(self) -> None:
        with pytest.raises(Unknown, match="run 'aaa' is ambiguous: aaaa1, aaaa2, aaab"):
            resolve("aaa", self.ids, "run")

    def test_an_unknown_prefix_is_said(self) -> None:
        with pytest.raises(Unknown, match="no trial 'x' in this store"):
            resolve("x", self.ids, "trial")

    @given(st.sets(st.text("ab", min_size=1, max_size=5), min_size=1), st.data())
    def test_what_is_shown_can_be_given_back(self, ids: set[str], data: st.DataObject) -> None:
        wanted = data.draw(st.sampled_from(sorted(ids)))
        assert resolve(short(wanted), ids, "run") == wanted
