"""`Value`, the frozen base class of the parts of a study, and the uniform format of its problems.

Every problem is one line, `path: what is wrong`. A problem found inside a value is a *continuation*: it
starts with `.`, `[` or `:` and is appended to the path of that value.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from peira.core.clock import seconds
from peira.core.ids import Json, normalise
from peira.core.registry import nearest
from peira.errors import Invalid

MAX_SEED = 2**53 - 1
MAX_PARALLEL = 10_000
"""Trials at once: each may be a thread."""
MAX_REPEATS = 1_000_000_000
SMALLEST_SHARE = 1e-12
"""The least distance of a level of confidence or significance from 0 and 1: beyond, quantiles are noise."""


class Value(BaseModel):
    """A frozen part of a study, made by position or by name; Invalid holds every problem of a bad one."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        strict=True,
        arbitrary_types_allowed=True,
        allow_inf_nan=False,
        defer_build=True,  # validators are built on first use, which keeps `import peira` fast
    )

    def __init__(self, *values: Any, **named: Any) -> None:
        fields = list(type(self).model_fields)
        if len(values) > len(fields):
            raise TypeError(f"{type(self).__name__} takes at most {len(fields)} values")
        try:
            super().__init__(**dict(zip(fields, values, strict=False)), **named)
        except ValidationError as error:
            written = [name for name, field in type(self).model_fields.items() if not field.exclude]
            raise Invalid(translate(error, written)) from None


def read_value(kind: type[Value], raw: object) -> Any:
    """The value itself, or one made from a table; the problems of Invalid are continuations."""
    if isinstance(raw, kind):
        return raw
    if not isinstance(raw, Mapping):
        raise Invalid(f": must be a table of {', '.join(kind.model_fields)}, not {raw!r}")
    try:
        return kind(**{str(key): value for key, value in raw.items()})
    except Invalid as error:
        raise Invalid(f".{problem}" for problem in error.problems) from None


def translate(error: ValidationError, known: Iterable[str]) -> list[str]:
    """The errors of pydantic as problems in peira's format."""
    known = list(known)
    return [line for found in error.errors(include_url=False) for line in _lines(found, known)]


def _lines(found: ErrorDetails, known: list[str]) -> list[str]:
    """The problems of one error of pydantic."""
    path = "".join(f"[{at}]" if isinstance(at, int) else f".{at}" for at in found["loc"])[1:]
    cause = found.get("ctx", {}).get("error")
    if isinstance(cause, Invalid):
        return [join(path, problem) for problem in cause.problems]
    return [join(path, _text(found, known))]


def join(path: str, problem: str) -> str:
    """The problem with its path in front."""
    if not path:
        return problem.removeprefix(": ").removeprefix(".")
    return f"{path}{problem}" if problem[:1] in (".", "[", ":") else f"{path}: {problem}"


def _text(found: ErrorDetails, known: list[str]) -> str:
    """What is wrong, without the path."""
    kind, given, limits = found["type"], found["input"], found.get("ctx", {})
    if kind == "extra_forbidden":
        return f"is not known here{nearest(str(found['loc'][-1]), known)}"
    if kind == "missing":
        return "is missing"
    if kind == "literal_error":
        choices = str(limits["expected"]).replace("'", "").replace(" or ", ", ").split(", ")
        return f"must be one of {', '.join(choices)}, not {given!r}{_suggestion(given, choices)}"
    if kind in _BOUNDS:
        return f"must be {_BOUNDS[kind]} {next(iter(limits.values()))}, not {given!r}"
    if kind in _TYPES:
        return f"must be {_TYPES[kind]}, not {given!r}"
    return f"{found['msg'].removeprefix('Value error, ').removeprefix('Input ')} (it is {given!r})"


def _suggestion(given: object, choices: list[str]) -> str:
    """A suggestion, if one of the choices is close."""
    hint = nearest(given, choices) if isinstance(given, str) else ""
    return hint if "did you mean" in hint else ""


_BOUNDS = {
    "greater_than": "more than",
    "greater_than_equal": "at least",
    "less_than": "less than",
    "less_than_equal": "at most",
}
_TYPES = {
    "int_type": "a whole number",
    "int_from_float": "a whole number",
    "int_parsing_size": "a smaller whole number",
    "float_type": "a number",
    "finite_number": "a finite number",
    "string_type": "text",
    "string_too_short": "text that is not empty",
    "string_pattern_mismatch": "one line of text without slashes",
    "bool_type": "true or false",
    "tuple_type": "a list",
    "dict_type": "a table of names and values",
}


def _texts(value: object) -> object:
    """One text, or a list of them, as a tuple."""
    if isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def _table(value: object) -> Json:
    """A table, normalised."""
    if not isinstance(value, Mapping):
        raise Invalid(f"must be a table of names and values, not {value!r}")
    return normalise(dict(value), "")


def _duration(value: Any) -> float | None:
    """A duration in seconds."""
    return None if value is None else seconds(value)


Duration = Annotated[float, BeforeValidator(_duration, json_schema_input_type=float | str)]
"""Seconds, or a text such as "90s" or "2h"."""
Texts = Annotated[tuple[str, ...], BeforeValidator(_texts, json_schema_input_type=list[str] | str)]
Table = Annotated[dict[str, Any], BeforeValidator(_table, json_schema_input_type=dict[str, Any])]
Plain = Annotated[Any, BeforeValidator(lambda value: normalise(value, ""))]
"""Any JSON value, normalised."""
Name = Annotated[str, Field(min_length=1)]


def _range(value: Any) -> tuple[float, float]:
    if isinstance(value, (list, tuple)) and len(value) == 2 and all(type(v) in (int, float) for v in value):
        least, most = map(float, value)
        if least < most:
            return least, most
    raise Invalid(f"must be the least and the most that a value can be, like [0, 1], not {value!r}")


Range = Annotated[tuple[float, float], BeforeValidator(_range, json_schema_input_type=list[float])]
"""The smallest and the largest possible score."""
