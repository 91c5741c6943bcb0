"""The form of an output, whatever it says: `length` and `json_schema`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from functools import lru_cache, partial
from typing import Any

import msgspec

from peira.core.ids import Json, normalise
from peira.core.reading.numbers import is_number
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison, text_of
from peira.evaluators.libraries import load, needs

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
    """How long the text is; with bounds, whether it lies within them.

    `tolerance` is a bound by what is expected: 0.1 allows a text a tenth longer or shorter than that. No
    answer has no length; it lies within no bounds.
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
    """The output is JSON that keeps to the schema: as a value, or as a text that is nothing but JSON.

    Without a schema, what the case expects is the schema. Nothing is fetched: a schema may refer to its own
    parts only.
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
    """The schema as text; Invalid if it is none."""
    if not isinstance(schema, Mapping | bool):
        raise Invalid(f"json_schema: {schema!r} is not a schema; write a table")
    written = text_of(normalise(dict(schema) if isinstance(schema, Mapping) else schema, "json_schema"))
    _validator(written)
    return written


def _keeps(schema: str, output: Json, _expected: Json = None) -> bool:
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
    jsonschema, schema = load("jsonschema"), msgspec.json.decode(written)
    kind = jsonschema.validators.validator_for(schema, default=jsonschema.Draft202012Validator)
    try:
        kind.check_schema(schema)
    except jsonschema.SchemaError as problem:
        raise Invalid(f"json_schema: not a schema: {problem.message}") from None
    return kind(schema, registry=load("referencing").Registry())
