"""Evaluators of the form of an output: `length` and `json_schema`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec

from peira.core.ids import Json, normalise
from peira.core.registry import nearest
from peira.core.text.numbers import is_number
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison, load, needs, text_of

UNITS: Mapping[str, Callable[[str], int]] = {
    "characters": len,
    "words": lambda text: len(text.split()),
    "lines": lambda text: len(text.splitlines()),
}


def length(
    unit: str = "characters",
    at_least: int | None = None,
    at_most: int | None = None,
    tolerance: float | None = None,
) -> Comparison:
    """The length of the text; with bounds, whether it is within them.

    `tolerance` is relative to the length of the expected text: 0.1 allows a tenth more or less. A missing
    answer has no length, and is within no bounds.
    """
    options = {"unit": unit, "at_least": at_least, "at_most": at_most, "tolerance": tolerance}
    if problems := _problems(options):
        raise Invalid(problems)
    bounded = any(options[name] is not None for name in ("at_least", "at_most", "tolerance"))
    return Comparison(
        "length",
        partial(_within, options) if bounded else partial(_length, unit),
        tuple(options.items()),
        needs_expected=tolerance is not None,
        no_answer=False if bounded else None,
    )


def _problems(options: Mapping[str, Any]) -> list[str]:
    unit, low, high = options["unit"], options["at_least"], options["at_most"]
    wrong = [] if unit in UNITS else [f"length: unit={unit!r}{nearest(str(unit), UNITS)}"]
    for name in ("at_least", "at_most"):
        if options[name] is not None and (type(options[name]) is not int or options[name] < 0):
            wrong.append(f"length: {name}={options[name]!r} is not a whole number of 0 or more")
    share = options["tolerance"]
    if share is not None and not (is_number(share) and 0 <= share < math.inf):
        wrong.append(f"length: tolerance={share!r} is not a number of 0 or more")
    if not wrong and low is not None and high is not None and low > high:
        wrong.append(f"length: nothing is at least {low} and at most {high} long")
    return wrong


def _length(unit: str, output: Json, _expected: Json) -> int:
    return UNITS[unit](text_of(output))


def _within(options: Mapping[str, Any], output: Json, expected: Json) -> bool:
    found = _length(options["unit"], output, None)
    low, high, share = options["at_least"], options["at_most"], options["tolerance"]
    if share is not None:
        meant = _length(options["unit"], expected, None)
        if abs(found - meant) > share * meant:
            return False
    return (low is None or found >= low) and (high is None or found <= high)


def json_schema(schema: Mapping[str, Json] | bool | None = None) -> Comparison:
    """The output is JSON that is valid against the schema: a value, or a text that is only JSON.

    Without a schema, the expected value is the schema. Nothing is downloaded: a schema may only refer to its
    own parts.
    """
    known = needs("json_schema", "jsonschema")
    if schema is None:
        return Comparison("json_schema", _keeps_to_expected, (("schema", None),), libraries=known)
    written = _checked(schema)
    compare = partial(_keeps, written)
    return Comparison("json_schema", compare, (("schema", schema),), needs_expected=False, libraries=known)


def _keeps_to_expected(output: Json, expected: Json) -> bool:
    return _keeps(_checked(expected), output)


def _checked(schema: Any) -> str:
    """The schema as text; raises `Invalid` if it is not a schema."""
    if not isinstance(schema, Mapping | bool):
        raise Invalid(f"json_schema: {schema!r} is not a schema; write a table")
    written = text_of(normalise(dict(schema) if isinstance(schema, Mapping) else schema, "json_schema"))
    _validator(written)
    return written


def _keeps(schema: str, output: Json, _expected: Json = None) -> bool:
    """Whether the output is valid against the schema."""
    try:
        value = msgspec.json.decode(output) if isinstance(output, str) else output
    except (msgspec.DecodeError, RecursionError):
        return False
    unresolved = load("referencing.exceptions").Unresolvable
    try:
        return bool(_validator(schema).is_valid(value))
    except (unresolved, re.error, RecursionError) as problem:  # looked up only where the value needs it
        raise Invalid(f"json_schema: the schema cannot be used: {problem}") from None


@lru_cache(maxsize=256)
def _validator(written: str) -> Any:
    """The validator of a schema given as text; raises `Invalid` if it is not a schema."""
    jsonschema, schema = load("jsonschema"), msgspec.json.decode(written)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as problem:
        raise Invalid(f"json_schema: not a schema: {problem.message}") from None
    return kind(schema, registry=load("referencing").Registry())
