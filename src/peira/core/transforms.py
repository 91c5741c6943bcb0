"""The protocol of transforms, which extract the answer from an output, and `NoAnswer`.

A transform extracts from an output the part that is evaluated. If it finds nothing it gives a `NoAnswer`,
which is neither an empty text nor null: an empty answer was given by the agent, a missing one was not.
"""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any, Protocol, runtime_checkable

import msgspec

from peira.core.ids import Json
from peira.core.registry import made, options_of
from peira.errors import Invalid


class NoAnswer(msgspec.Struct, frozen=True, gc=False):
    """There is no answer in the output; `reason` says in a few words what was not found.

    Equal only to another with the same reason, false in a condition, and not JSON: it is recorded as what
    `to_json` gives, and in no other form.
    """

    reason: str

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        return f"no answer: {self.reason}"


@runtime_checkable
class Transform(Protocol):
    """Extracts from an output the part that is evaluated."""

    @property
    def name(self) -> str:
        """The name under which its answers are recorded."""
        ...

    @property
    def identity(self) -> Json:
        """Configuration and code, which together with the output's digest identify an answer."""
        ...

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        """The answer in an output, deterministic; a NoAnswer is passed through."""
        ...


_KEYS = ("no_answer", "answer")


def to_json(answer: Json | NoAnswer) -> Json:
    """An answer as it is recorded: itself; a NoAnswer is {"no_answer": reason}.

    An answer that happens to have the shape of a recorded one is wrapped, so that the two cannot be confused.
    """
    if isinstance(answer, NoAnswer):
        return {"no_answer": answer.reason}
    return {"answer": answer} if _wrapped(answer) else answer


def from_json(recorded: Json) -> Json | NoAnswer:
    """The inverse of `to_json`."""
    if not _wrapped(recorded):
        return recorded
    [(key, value)] = recorded.items()
    return NoAnswer(value) if key == "no_answer" else value


def _wrapped(value: Json) -> bool:
    """Whether the value has the shape that `to_json` reserves."""
    return isinstance(value, dict) and len(value) == 1 and next(iter(value)) in _KEYS


def as_transform(given: Any) -> Transform:
    """The transform that a user's value stands for; Invalid if it stands for none.

    One already made, a function, "last_line", {"name": "regex", "pattern": "..."}, {"regex": {"pattern":
    "..."}}, or a list of these, which is a chain.
    """
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
    """Make the transform of this name with its options."""
    if name == "function" and not callable(options.get("fn")):
        raise Invalid("write a function as file.py:name")
    transform: Transform = made("transform", name, options)
    return transform
