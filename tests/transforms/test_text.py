from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.text import patterns
from peira.core.transforms import NoAnswer
from peira.errors import Invalid, TimedOut
from peira.transforms import first_line, last_line, normalise, regex

TEXT = st.text(st.characters(exclude_categories=["Cs"]))


@pytest.mark.parametrize(
    ("pattern", "group", "output", "answer"),
    [
        (r"\d+", None, "a 12 b 34", "12"),
        (r"x=(\d+), y=(\d+)", None, "x=1, y=2", "1"),
        (r"x=(\d+), y=(\d+)", 2, "x=1, y=2", "2"),
        (r"x=(\d+), y=(\d+)", 0, "x=1, y=2", "x=1, y=2"),
        (r"y=(?P<it>\d+)", "it", "x=1, y=2", "2"),
        (r"(a)|b", None, "b", NoAnswer("the pattern is not found")),
        (r"(a*)", None, "b", ""),
        (r'"n":(\d)', None, {"n": 2.0}, "2"),
    ],
)
def test_regex_captures(pattern: str, group: int | str | None, output: object, answer: object) -> None:
    assert regex(pattern, group).apply(output) == answer


@pytest.mark.parametrize(
    ("pattern", "group"), [("(", None), ("(a)", 2), ("(a)", "name"), (5, None), ("a{99999999999999}", None)]
)
def test_wrong_patterns_are_refused_when_the_transform_is_made(pattern: str, group: object) -> None:
    with pytest.raises(Invalid, match="regex: "):
        regex(pattern, group)  # type: ignore[arg-type]


def test_a_pattern_that_would_never_end_fails_and_lets_others_go_on() -> None:
    started = time.monotonic()
    with pytest.raises(TimedOut, match="took more than"):
        regex(r"^(a|aa)+$").apply("a" * 100 + "b")
    assert time.monotonic() - started < 10 * patterns.SECONDS


@given(TEXT)
def test_lines_are_lines_of_the_text(text: str) -> None:
    first, last = first_line().apply(text), last_line().apply(text)
    if isinstance(first, NoAnswer):
        assert first == last == NoAnswer("empty")
        assert not text.strip()
    else:
        lines = [line.strip() for line in text.splitlines() if line.strip()]
        assert (first, last) == (lines[0], lines[-1])


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("The  Cat,\nsat!", "cat sat"),
        ("An apple a day", "apple day"),
        ("-3.5 and 1,000 and 3/4.", "-3.5 and 1,000 and 3/4"),
        ("co-operate", "co operate"),
        ("$5 + x = y", "$5 + x = y"),
        ("E\u0301T\u00c9", "\u00e9t\u00e9"),
        ("STRASSE", "strasse"),
        ("...", NoAnswer("nothing is left")),
    ],
)
def test_normalise_makes_texts_plain(output: str, answer: object) -> None:
    assert normalise().apply(output) == answer


def test_normalise_can_keep_each() -> None:
    text = "The Cat,  it sat."
    assert normalise(case=False).apply(text) == "Cat it sat"
    assert normalise(whitespace=False).apply(text) == " cat  it sat"
    assert normalise(punctuation=False).apply(text) == "cat, it sat."
    assert normalise(articles=False).apply(text) == "the cat it sat"
    assert normalise(False, False, False, False).apply(text) == text


@given(TEXT)
def test_normalise_twice_is_normalise_once(text: str) -> None:
    once = normalise().apply(text)
    assert normalise().apply(once) == once


def test_wrong_options_are_refused_all_at_once() -> None:
    with pytest.raises(Invalid) as caught:
        normalise(case="yes", articles=1)  # type: ignore[arg-type]
    assert len(caught.value.problems) == 2
