"""A canonical encoding of plain constants, which can be hashed.

The encoding distinguishes types (1, True, 1.0 and "1" are four values) and is the same in every process: sets
are sorted, floats are written exactly, nothing depends on an address or on the hash seed.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection

from peira.errors import NotPlain

DEEPEST = 50

_CONTENT: dict[type, Callable[..., object]] = {
    str: str.__str__,
    int: int.__int__,
    float: float.__float__,
    bytes: bytes.__bytes__,
    bytearray: lambda value: bytearray.__getitem__(value, slice(None)),
    tuple: lambda value: tuple(tuple.__iter__(value)),
    list: lambda value: list(list.__iter__(value)),
    dict: lambda value: dict(dict.items(value)),
    set: lambda value: set(set.__iter__(value)),
    frozenset: lambda value: frozenset(frozenset.__iter__(value)),
}

# Immutable types of the standard library whose repr determines the value.
_BY_REPR = {
    "builtins": ("complex", "range", "ellipsis"),
    "datetime": ("date", "datetime", "time", "timedelta"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
    "uuid": ("UUID",),
}


def digest_of(value: object) -> str:
    """The SHA-256, in hex, of a tree of JSON values."""
    return hashlib.sha256(json.dumps(value, separators=(",", ":")).encode()).hexdigest()


def constant(value: object) -> str | None:
    """The digest of a plain constant; None for anything else."""
    try:
        return digest_of(encode(value))
    except NotPlain:
        return None


def content(value: object) -> object | None:
    """The value of an instance of a subclass of a builtin, as that builtin; None for other objects."""
    for base, exact in _CONTENT.items():
        if isinstance(value, base):
            return exact(value)
    return None


def encode(value: object, depth: int = 0) -> object:
    """A tree of JSON values, equal for two constants only if their types and values are equal.

    Raises NotPlain for anything that is not a constant, and for a container that is nested too deeply or
    contains itself.
    """
    kind = type(value)
    if value is None or kind is bool or kind is str:
        return value
    if kind is int:
        return ["int", hex(value)]  # type: ignore[arg-type]
    if kind is float:
        return ["float", value.hex()]  # type: ignore[attr-defined]
    if kind is bytes or kind is bytearray:
        return [kind.__name__, value.hex()]  # type: ignore[attr-defined]
    if kind in _CONTENT:
        return _encode_container(kind, value, depth)
    return _encode_rest(kind, value, depth)


def _encode_container(kind: type, value: object, depth: int) -> object:
    """The encoding of a builtin container and its items."""
    if depth >= DEEPEST:
        raise NotPlain(kind.__qualname__)
    if isinstance(value, dict):
        return ["dict", *([encode(k, depth + 1), encode(v, depth + 1)] for k, v in list(value.items()))]
    assert isinstance(value, Collection)
    items = [encode(item, depth + 1) for item in tuple(value)]
    if kind is set or kind is frozenset:
        items.sort(key=json.dumps)
    return [kind.__name__, *items]


def _encode_rest(kind: type, value: object, depth: int) -> object:
    """The encoding of a standard library value, or of a subclass of a builtin."""
    if kind.__qualname__ in _BY_REPR.get(kind.__module__, ()):
        return [kind.__qualname__, repr(value)]
    if isinstance(value, re.Pattern):
        return ["Pattern", encode(value.pattern), value.flags]
    inner = content(value)
    if inner is None:
        raise NotPlain(kind.__qualname__)
    return ["as", kind.__qualname__, encode(inner, depth)]
