"""JSON schemas that users give: for the replies of models, and for the answers of people."""

from __future__ import annotations

from itertools import islice
from typing import Any

from peira.core.ids import Json, normalise
from peira.errors import Invalid

MOST_PROBLEMS = 3


def schema_of(given: Any) -> dict[str, Json] | None:
    """The schema as a JSON schema; Invalid if it is not one, or refers to something outside itself."""
    if given is None:
        return None
    given = given.model_json_schema() if hasattr(given, "model_json_schema") else given
    schema = normalise(given, "schema")
    if not isinstance(schema, dict):
        raise Invalid(f"schema: must be a JSON schema or a pydantic model, not {given!r}")
    from jsonschema import SchemaError, validators  # slow, and seldom needed

    try:
        validators.validator_for(schema).check_schema(schema)
    except SchemaError as problem:
        raise Invalid(f"schema: {problem.message}") from None
    schema_problems(None, schema)
    return schema


def schema_problems(value: Json, schema: dict[str, Json]) -> list[str]:
    """Where the value does not match the schema, the first few problems only.

    Nothing is fetched: every reference must be resolved inside the schema, else Invalid is raised.
    """
    from jsonschema import validators
    from referencing.exceptions import Unresolvable
    from referencing.jsonschema import EMPTY_REGISTRY

    found = validators.validator_for(schema)(schema, registry=EMPTY_REGISTRY).iter_errors(value)
    try:
        return [f"{error.json_path}: {error.message}" for error in islice(found, MOST_PROBLEMS)]
    except Unresolvable as problem:
        raise Invalid(f"schema: {problem}") from None
