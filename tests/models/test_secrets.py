from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.models.secrets import HIDDEN, LINE, scrub

SECRET = st.text(
    st.characters(codec="ascii", categories=("L", "N"), include_characters="-_./+="), min_size=12
)
TEXT = st.text(st.characters(exclude_categories=("Cs",)))


@given(SECRET, TEXT, TEXT, st.integers(0, 4), st.integers(0, 4))
def test_no_long_piece_of_a_secret_is_left(secret: str, before: str, after: str, cut: int, tail: int) -> None:
    piece = secret[cut : len(secret) - tail]
    if len(piece) >= 8:
        left = scrub(before + piece + after, [secret])
        assert not any(secret[i : i + 8] in left.replace(HIDDEN, "\0") for i in range(len(secret) - 7))


@given(TEXT, SECRET)
def test_a_message_is_one_bounded_line(text: str, secret: str) -> None:
    said = scrub(text, [secret])
    assert len(said) <= LINE
    assert len(said.splitlines()) <= 1


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Incorrect API key provided: sk-abcd***wxyz.", "Incorrect API key provided: [hidden]"),
        ("{'Authorization': 'Bearer abc def'}", "{'Authorization': [hidden]}"),
        ('{"x-api-key": "abcdef"}', '{"x-api-key": [hidden]}'),
        ("sent bearer abcdefgh12345678 twice", "sent [hidden] twice"),
        ("at https://me:pass@host/v1?key=abc&v=1 now", "at https://host/v1?key=[hidden]&v=[hidden] now"),
        ("max_tokens: 4096 is too many tokens", "max_tokens: 4096 is too many tokens"),
        ("The model `gpt-9` does not exist", "The model `gpt-9` does not exist"),
        ("a\n\tb\r\nc", "a b c"),
    ],
)
def test_what_is_hidden_and_what_is_not(text: str, left: str) -> None:
    assert scrub(text) == left
