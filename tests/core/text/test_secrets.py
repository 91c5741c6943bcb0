from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.text.secrets import HIDDEN, LINE, exposed, hidden_in, kept_secret, scrub, without_keys

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


def forms(secret: str) -> list[str]:
    """A secret as JSON may write it."""
    escaped = "".join(f"\\u{ord(letter):04x}" for letter in secret)
    return [secret, secret.replace("/", "\\/"), escaped, f"{escaped[:12]}{secret[2:]}"]


@given(SECRET, TEXT, TEXT, st.integers(0, 3))
def test_a_secret_in_an_answer_is_found_in_any_form(secret: str, before: str, after: str, n: int) -> None:
    body = (before + forms(secret)[n] + after).encode()
    spans = exposed(body, [secret])
    assert spans
    assert exposed(hidden_in(body, spans), [secret]) == ()
    assert exposed(body, []) == ()


@given(st.text(max_size=7), TEXT)
def test_what_is_short_is_no_secret(short: str, text: str) -> None:
    assert not kept_secret(short)
    assert scrub(text, [short]) == scrub(text)


def test_what_is_shown_has_none_of_the_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_API_KEY", "canary/7f3a91c2")
    monkeypatch.setenv("SHORT_API_KEY", "EMPTY")
    monkeypatch.setenv("MY_BASE_URL", "https://me:secret-pass@host/v1?token=hush-hush")
    shown = without_keys('EMPTY canary/7f3a91c2 "canary\\/7f3a91c2" secret-pass hush-hush https://host')
    assert shown == f'EMPTY {HIDDEN} "{HIDDEN}" {HIDDEN} {HIDDEN} https://host'
