"""Keys by name, and texts without keys.

A configuration never holds a key, only where it is: the name of an environment variable, or
`keyring:SERVICE/USER`. The key is looked up when it is sent and is in no repr. What a provider says is shown
only after `scrub`, because providers echo what they were sent.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from urllib.parse import quote

from peira.errors import Invalid

HIDDEN = "[hidden]"
PIECE = 8
"""A run of this many characters of a key is hidden even if the rest was masked or cut off."""
LINE = 300
SCANNED = 4096

_VARIABLE = re.compile(r"[A-Z_][A-Z0-9_]*")
_USERINFO = re.compile(r"(?<=://)[^/\s@\"']+@")
_QUERY = re.compile(r"([?&][\w.\-]+=)[^&\s\"'<>)]+")
_LABELLED = re.compile(
    r"""(?ix) (["']? \b (?: [\w-]*authorization | [\w-]*api[_-]?key | [\w-]*(?:token|secret)
        | cookie | set-cookie ) ["']? \s* [:=] \s*)
        (?: (["']) .*? \2 | (?: (?:bearer|basic)\s+ )? [^\s,;}"']+ )"""
)
_TOKENS = re.compile(
    r"(?i:bearer)\s+[\w.~+/*-]{8,}=*"
    r"|\b(?:sk|pk|rk|gsk|xai|hf|ghp|key)[-_][\w*.-]{6,}"
    r"|\bAIza[\w*-]{8,}"
    r"|\beyJ[\w-]{8,}(?:\.[\w-]+){0,2}"
)
_BLANKS = re.compile(r"[\s\x00-\x1f\x7f]+")


@dataclass(frozen=True, slots=True)
class Key:
    """Where a key is. `needed`: nothing can be sent without it."""

    where: str
    needed: bool = True

    def __post_init__(self) -> None:
        if not _VARIABLE.fullmatch(self.where) and not self.where.startswith("keyring:"):
            # Said without repeating it: this is most often the key itself.
            raise Invalid('key: give the name of an environment variable, like "OPENAI_API_KEY", not the key')

    def find(self) -> str:
        """The key, or "" if there is none."""
        if self.where.startswith("keyring:"):
            return _from_keyring(self.where.removeprefix("keyring:"))
        return os.environ.get(self.where, "").strip()

    def check(self, who: str) -> None:
        """Invalid, naming the variable, if the key is needed and not there."""
        if self.needed and not self.find():
            place = (
                self.where if self.where.startswith("keyring:") else f"the environment variable {self.where}"
            )
            raise Invalid(f"{who}: no key; set {place}")


def _from_keyring(entry: str) -> str:
    try:
        keyring: Any = import_module("keyring")  # optional, and slow to import
    except ImportError:
        raise Invalid("key: reading a keyring needs `pip install keyring`") from None
    service, _, user = entry.rpartition("/")
    return keyring.get_password(service or entry, user) or ""


def scrub(text: str, secrets: Iterable[str] = ()) -> str:
    """The text as one bounded line, without the secrets, pieces of them, tokens, and values in URLs."""
    text = text[:SCANNED]
    for secret in secrets:
        for form in {secret, quote(secret, safe="")} - {""}:
            text = _without_pieces(text.replace(form, HIDDEN), form)
    text = _USERINFO.sub("", text)
    text = _LABELLED.sub(rf"\1{HIDDEN}", text)
    text = _TOKENS.sub(HIDDEN, text)
    text = _QUERY.sub(rf"\1{HIDDEN}", text)
    text = _BLANKS.sub(" ", text).strip()
    return text if len(text) <= LINE else f"{text[: LINE - 1]}…"


def _without_pieces(text: str, secret: str) -> str:
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
