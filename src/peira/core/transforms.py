"""Between an output and its evaluation: what a transform is, and the answer that is none.

A transform finds in an output what is to be judged. Where it finds nothing it gives a `NoAnswer`, which is
neither an empty text nor null: an empty answer is something the agent said, no answer is not.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from peira.core.ids import Json
from peira.core.named import made, options_of
from peira.errors import Invalid


class NoAnswer(msgspec.Struct, frozen=True, gc=False):
    """There is no answer in the output; `reason` says in a few words what was not found.

    Equal only to another with the same reason, false in a condition, and no JSON: it is recorded by
    `to_json` and by nothing else.
    """

    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"no answer: {self.reason}"


@runtime_checkable
class Transform(Protocol):
    """Finds in an output what is to be judged."""

    @property
    def name(self) -> str: ...

    @property
    def identity(self) -> Json:
        """Configuration and code: with the output's digest, what its answer is known by."""
        ...

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        """The answer in an output, the same for the same output; NoAnswer stays what it is."""
        ...


_KEYS = ("no_answer", "answer")


def to_json(answer: Json | NoAnswer) -> Json:
    """An answer as it is recorded: itself. No answer is {"no_answer": reason}, which nothing else becomes."""
    if isinstance(answer, NoAnswer):
        return {"no_answer": answer.reason}
    return {"answer": answer} if _wrapped(answer) else answer


def from_json(recorded: Json) -> Json | NoAnswer:
    """The answer that `to_json` wrote."""
    if not _wrapped(recorded):
        return recorded
    [(key, value)] = recorded.items()
    return NoAnswer(value) if key == "no_answer" else value


def _wrapped(value: Json) -> bool:
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _KEYS


def as_transform(given: Any) -> Transform:
    """The transform that is meant: one made already, a function, "last_line", {"name": "regex",
    "pattern": "..."}, {"regex": {"pattern": "..."}}, or a list of these, which is a chain."""
    if isinstance(given, Transform) and not inspect.isclass(given):
        return given
    if isinstance(given, str):
        return _make(given, {})
    if isinstance(given, Mapping):
        return _make(*options_of(given, "a transform", '{name = "regex", pattern = "..."}'))
    if isinstance(given, list | tuple):
        return _make("chain", {"steps": given})
    if callable(given):
        return _make("function", {"fn": given})
    raise Invalid(f"{given!r} is not a transform; give a function, a name, or a name with its options")


def _make(name: str, options: dict[str, Any]) -> Transform:
    if name == "function" and not callable(options.get("fn")):
        raise Invalid("write a function as file.py:name")
    transform: Transform = made("transform", name, options)
    return transform
