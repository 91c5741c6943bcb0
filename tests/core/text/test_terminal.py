"""Text that is printed cannot steer a terminal, and says the same."""

from __future__ import annotations

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.text.terminal import printable, printable_json

SURROGATES = st.characters(min_codepoint=0xD800, max_codepoint=0xDFFF, categories=["Cs"])
ANY = st.text(st.characters() | SURROGATES | st.characters(min_codepoint=0, max_codepoint=0x9F))
BIDIRECTIONAL = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


def steers(char: str) -> bool:
    if char in "\t\n":
        return False
    return unicodedata.category(char) in ("Cc", "Cs", "Zl", "Zp") or (
        unicodedata.bidirectional(char) in BIDIRECTIONAL or char in "\u061c\u200e\u200f"
    )


@given(ANY)
def test_nothing_that_steers_is_left(text: str) -> None:
    assert not any(map(steers, printable(text)))


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S"]) | st.sampled_from(" \t\n")))
def test_what_only_shows_stays_as_it_is(text: str) -> None:
    assert printable(text) == text


def test_emoji_and_accents_stay_as_they_are() -> None:
    assert printable("👩‍🔬 é, 한국어, עברית") == "👩‍🔬 é, 한국어, עברית"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;owned\x07", r"\x1b]0;owned\x07"),
        ("a\rb", r"a\rb"),
        ("\x9b31m", r"\x9b31m"),
        ("\u202e", r"\u202e"),
    ],
)
def test_escapes_are_readable(text: str, shown: str) -> None:
    assert printable(text) == shown


@given(ANY)
def test_a_document_is_the_same_document(text: str) -> None:
    document = json.dumps({"said": text, text: 1}, ensure_ascii=False)
    assert json.loads(printable_json(document)) == {"said": text, text: 1}
    assert not any(map(steers, printable_json(document)))
