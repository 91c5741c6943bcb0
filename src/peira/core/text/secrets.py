"""Removal of secrets from texts: keys that the environment holds, that models use, or that stand in answers.

What a provider says is shown only after `scrub`, because providers echo what they were sent. Answers are
never changed: where a key stands in one is kept with it, and what is shown is shown without it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qsl, quote, urlsplit

from peira.core.text.words import HIDDEN as HIDDEN

if TYPE_CHECKING:
    from peira.core.ids import Json

PIECE = 8
"""So many consecutive characters of a key are hidden, even if the rest was masked or cut off."""
LINE = 300
"""The maximum length of a scrubbed text."""
NAMES = r"(?i)(?:^|_)(?:API_?KEY|KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE|CREDENTIALS?|PAT)(?:_?\d+)?$"
"""The names of environment variables that hold secrets, at their end."""
SCANNED = 4096
"""The number of characters of a text that are scrubbed; the rest is dropped."""

# What `scrub` looks for. These are texts, as the names are, which `re` compiles when they are first needed.
_USERINFO = r"(?<=://)[^/\s@\"']+@"
_QUERY = r"([?&][\w.\-]+=)[^&\s\"'<>)]+"
_LABELLED = r"""(?ix) (["']? \b (?: [\w-]*authorization | [\w-]*api[_-]?key | [\w-]*(?:token|secret)
    | cookie | set-cookie ) ["']? \s* [:=] \s*)
    (?: (["']) .*? \2 | (?: (?:bearer|basic)\s+ )? [^\s,;}"']+ )"""
_TOKENS = (
    r"(?i:bearer)\s+[\w.~+/*-]{8,}=*"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|key)[-_][\w*.-]{6,}"
    r"|\bAIza[\w*-]{8,}"
    r"|\beyJ[\w-]{8,}(?:\.[\w-]+){0,2}"
)
_BLANKS = r"[\s\x00-\x1f\x7f]+"
_UNICODE = r"\\+u00([0-7][0-9a-fA-F])"
_SLASH = r"\\+/"

_used: set[str] = set()
"""Secrets that models of this process use, wherever they are kept."""


def remember(secret: str) -> None:
    """A model uses this secret: it is hidden in all that is written from now on."""
    if kept_secret(secret):
        _used.add(secret)


def kept_secret(text: str) -> bool:
    """Whether it is to be kept secret. What is shorter (EMPTY, none, test, x) is a placeholder: it would be
    found, and hidden, in the middle of ordinary words."""
    return len(text) >= PIECE


@lru_cache(256)
def _escaped(secret: str) -> re.Pattern[str]:
    """The secret as JSON may write it, also within a JSON text in JSON: / as \\/, any letter as \\u0073."""
    forms = (rf"(?:\\*{re.escape(letter)}|\\+u(?i:{ord(letter):04x}))" for letter in secret)
    return re.compile("".join(forms))


def exposed(body: bytes, secrets: Iterable[str]) -> tuple[tuple[int, int], ...]:
    """Where secrets stand in an answer, which is kept as it came: from byte to byte."""
    escapes = b"\\u00" in body or b"\\/" in body
    found = [secret for secret in secrets if escapes or secret.encode() in body]
    if not found:
        return ()
    text = body.decode("latin-1")
    spans = (
        one.span() for secret in found for one in _escaped(secret.encode().decode("latin-1")).finditer(text)
    )
    return tuple(sorted(set(spans)))


def hidden_in(body: bytes, spans: Iterable[tuple[int, int]]) -> bytes:
    """An answer as it may be shown."""
    for start, end in sorted(spans, reverse=True):
        body = body[:start] + HIDDEN.encode() + body[end:]
    return body


def without_keys(text: str) -> str:
    """What may be shown of a text: without the keys that are known, in whichever form.

    Known are those that the environment holds, that models use, and that were found in answers which this
    process has read.
    """
    for secret in sorted({*keys_in_use(), *_found}, key=len, reverse=True):
        if secret in text or "\\" in text:
            text = _escaped(secret).sub(HIDDEN, text)
    return text


def value_without_keys(value: Json) -> Json:
    """A JSON value with every text in it, keys of tables too, as `without_keys` has it."""
    if isinstance(value, str):
        return without_keys(value)
    if isinstance(value, list | tuple):
        return [value_without_keys(one) for one in value]
    if isinstance(value, Mapping):
        return {without_keys(str(name)): value_without_keys(one) for name, one in value.items()}
    return value


_found: set[str] = set()
"""Keys that stand in answers which this process has read, where they are marked."""


def remember_exposed(body: bytes, spans: Iterable[tuple[int, int]]) -> None:
    """Keep out of all that this process shows what is marked in an answer: the key itself may be gone from
    the environment."""
    texts = (body[start:end].decode("utf-8", "replace") for start, end in spans)
    _found.update(filter(kept_secret, texts))


def keys_in_use() -> tuple[str, ...]:
    """The keys that the environment holds or models use.

    They are looked up again only when the environment changes: every output is searched for them.
    """
    global _seen, _keys
    now = getattr(os.environ, "_data", os.environ)  # its mapping of bytes, which is compared quickly
    if now != _seen:
        found = {value.strip() for name, value in os.environ.items() if re.search(NAMES, name)}
        for value in (value for name, value in os.environ.items() if name.upper().endswith("_BASE_URL")):
            parts = urlsplit(value)
            found |= {parts.password or "", *(said for _, said in parse_qsl(parts.query))}
        _seen, _keys = dict(now), tuple(filter(kept_secret, found))
    return (*_keys, *_used) if _used else _keys


def exposed_keys(body: bytes) -> tuple[tuple[int, int], ...]:
    """Where keys in use stand in an output."""
    if len(body) < PIECE:  # as scores are, most of all
        return ()
    keys = keys_in_use()
    return exposed(body, keys) if keys else ()


_seen: dict[Any, Any] = {}
_keys: tuple[str, ...] = ()


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """The text as one bounded line that UTF-8 can carry, without the secrets, pieces of them, tokens, and
    values in URLs; what JSON escapes in it is said plainly."""
    text = text[:SCANNED].encode(errors="replace").decode()
    text = re.sub(_SLASH, "/", re.sub(_UNICODE, lambda found: chr(int(found[1], 16)), text))
    for secret in filter(kept_secret, secrets):
        for form in dict.fromkeys((secret, quote(secret, safe=""))):
            text = _without_pieces(text.replace(form, HIDDEN), form)
    text = re.sub(_USERINFO, "", text)
    text = re.sub(_LABELLED, rf"\1{HIDDEN}", text)
    text = re.sub(_TOKENS, HIDDEN, text)
    text = re.sub(_QUERY, rf"\1{HIDDEN}", text)
    text = re.sub(_BLANKS, " ", text).strip()
    return text if len(text) <= LINE else f"{text[: LINE - 1]}…"


def _without_pieces(text: str, secret: str) -> str:
    """The text with every piece of the secret hidden."""
    pieces = {secret[i : i + PIECE] for i in range(len(secret) - PIECE + 1)}
    kept, at = [], 0
    while at < len(text):
        if text[at : at + PIECE] not in pieces:
            kept.append(text[at])
            at += 1
            continue
        while text[at : at + PIECE] in pieces:
            at += 1
        at += PIECE - 1
        kept.append(HIDDEN)
    return "".join(kept)
