"""Identity: normalisation, canonical JSON, digests, and the ids composed of them.

A value is *normalised* to plain JSON (the value hashed is the value the agent gets), written as RFC 8785
canonical JSON, and digested with SHA-256. Composite ids are digests of a fixed template of part digests, so
that the id of a trial costs one small hash and not a traversal of everything it is made of.

Equal by rule: 1 and 1.0, -0.0 and 0, a tuple and a list. Nothing else is: what JSON cannot represent
unambiguously (NaN, infinities, lone surrogates, integers beyond 2^53 - 1, bytes, dates, sets, enums,
dataclasses, keys that are not strings) is refused, with the path to it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

import msgspec
import rfc8785

from peira.errors import NotJson, Unknown

type_hints: dict[str, str] = {
    "bytes": "use text, or attach a file",
    "set": "use a sorted list",
    "frozenset": "use a sorted list",
    "date": "use .isoformat()",
    "datetime": "use .isoformat()",
    "Decimal": "use a float or a string",
}
MAX_INT = 2**53 - 1
MAX_DEPTH = 100

Json = Any
"""None, bool, int, float, str, list of Json, dict of str to Json."""


Path = Any
"""The location of a value: a text, or a pair of its container's location and the index or key in it.

It is rendered as text only for values that are refused.
"""


def normalise(value: object, path: str = "value") -> Json:
    """The value as plain JSON in new containers; NotJson, with the path, for what is not JSON."""
    return _normalise(value, path, 0)


def _normalise(value: Any, path: Path, depth: int) -> Json:
    kind = type(value)
    if kind is str:
        return value if value.isascii() else _text(value, path)
    if value is None or kind is bool:
        return value
    if kind is int or kind is float:
        return _number(value, path)
    if depth > MAX_DEPTH:
        raise _refused(path, f"nested deeper than {MAX_DEPTH} levels (or it contains itself)")
    if kind is list or kind is tuple:
        return [_normalise(item, (path, i), depth + 1) for i, item in enumerate(value)]
    if kind is dict:
        return {_key(k, path): _normalise(v, (path, k), depth + 1) for k, v in value.items()}
    if callable(plain := getattr(kind, "__json__", None)):  # a value of ours that stands for JSON
        return _normalise(plain(value), path, depth + 1)
    raise _refused(path, f"{_describe(value)} is not JSON{_hint(value)}")


def _refused(path: Path, why: str) -> NotJson:
    """The error for the value at this path."""
    return NotJson(f"{_shown(path)}: {why}")


def _shown(path: Path) -> str:
    """The path as text: value.items[3].name."""
    steps = []
    while type(path) is tuple:
        path, step = path
        steps.append(f"[{step}]" if type(step) is int else f".{step}")
    return f"{path}{''.join(reversed(steps))}"


def _text(value: str, path: Path) -> str:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise _refused(path, "text with a lone surrogate, which UTF-8 cannot carry") from None
    return value


def _number(value: int | float, path: Path) -> int | float:
    if isinstance(value, int):
        if -MAX_INT <= value <= MAX_INT:
            return value
        why = "an integer beyond 2^53 - 1, which JSON cannot carry exactly; use a string"
        raise _refused(path, why)
    if not math.isfinite(value):
        raise _refused(path, f"{value} is not JSON; use null or a string")
    if value.is_integer() and -MAX_INT <= value <= MAX_INT:
        return int(value)
    return value


def _key(key: object, path: Path) -> str:
    if type(key) is not str:
        raise _refused(path, f"key {key!r} is {_describe(key)}; JSON keys are strings")
    return key if key.isascii() else _text(key, f"{_shown(path)} key")


def _describe(value: object) -> str:
    name = type(value).__name__
    return f"{'an' if name[:1].lower() in 'aeiou' else 'a'} {name}"


def _hint(value: object) -> str:
    """What to write instead of a value of this type, as the end of an error message."""
    name = type(value).__name__
    if name in type_hints:
        return f"; {type_hints[name]}"
    if hasattr(value, "__dataclass_fields__"):
        return "; use dataclasses.asdict"
    if hasattr(value, "model_dump"):
        return "; use .model_dump()"
    if hasattr(value, "item") and hasattr(value, "dtype"):
        return "; use .item() or .tolist()"
    if isinstance(value, (str, int, float)):
        return f"; use {next(t.__name__ for t in (str, int, float) if isinstance(value, t))}(...)"
    return ""


def own_copy(value: Json) -> Json:
    """A deep copy of a normalised value."""
    kind = type(value)
    if kind is str:
        return value
    if kind is dict:
        return {key: own_copy(item) for key, item in value.items()}
    return [own_copy(item) for item in value] if kind is list else value


_encode = msgspec.json.Encoder(order="sorted").encode


def canonical(value: Json) -> bytes:
    """The RFC 8785 canonical JSON of a normalised value, as bytes."""
    # msgspec writes the same bytes, unless there are floats (formatted differently) or keys that are not
    # ASCII (possibly sorted differently).
    return _encode(value) if type(value) is str or _simple(value) else rfc8785.dumps(value)


def _simple(value: Json) -> bool:
    """Whether msgspec writes the value as RFC 8785 does: no floats, and only ASCII keys."""
    kind = type(value)
    if kind is str:
        return True
    if kind is dict:
        return all(map(str.isascii, value)) and all(map(_simple, value.values()))
    if kind is list or kind is tuple:
        return all(map(_simple, value))
    return kind is not float


def digest(value: object) -> str:
    """The SHA-256 of a value's canonical JSON, as 64 hexadecimal digits."""
    return sha256(canonical(normalise(value))).hexdigest()


def digest_bytes(data: bytes) -> str:
    """The SHA-256 of bytes, as 64 hexadecimal digits."""
    return sha256(data).hexdigest()


def compose(kind: str, *parts: str | int) -> str:
    """The id of something made of parts, each a digest, a plain name without blanks, or a number."""
    return sha256(f"peira {kind} {' '.join(map(str, parts))}".encode()).hexdigest()


def composer(kind: str, *fixed: str | int) -> Callable[[str], str]:
    """`compose` with the first parts hashed in advance: an id then costs about a microsecond.

    It takes the other parts as one text, with a blank between them.
    """
    copy = sha256(f"peira {kind} {''.join(f'{p} ' for p in fixed)}".encode()).copy

    def finish(rest: str) -> str:
        state = copy()
        state.update(rest.encode())
        return state.hexdigest()

    return finish


def seed_of(identity: str) -> int:
    """A seed derived from an identity: 53 bits, so that an agent may return or log it as JSON."""
    return int.from_bytes(sha256(f"peira seed {identity}".encode()).digest()[:8], "big") >> 11


def short(identity: str) -> str:
    """The first 12 digits, for display; any unique prefix is accepted as input."""
    return identity[:12]


def resolve(prefix: str, candidates: Iterable[str], what: str) -> str:
    """The one candidate that starts with the prefix; Unknown if there is none, or more than one."""
    found = sorted({c for c in candidates if c.startswith(prefix)})
    if prefix in found or len(found) == 1:
        return prefix if prefix in found else found[0]
    if not found:
        raise Unknown(f"no {what} {prefix!r} in this store")
    raise Unknown(f"{what} {prefix!r} is ambiguous: {', '.join(map(short, found[:5]))}")
