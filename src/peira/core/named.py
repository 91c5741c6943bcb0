"""Plug-ins as people write them: a name, or a name with its options, in either of two forms."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from peira.core.registry import registry
from peira.errors import Invalid, Unknown


def options_of(given: str | Mapping[str, Any], what: str, example: str) -> tuple[str, dict[str, Any]]:
    """Name and options of "numeric", {"name": "numeric", "tolerance": 1} or {"numeric": {"tolerance": 1}}."""
    if isinstance(given, str):
        return given, {}
    if isinstance(given.get("name"), str):
        return given["name"], {str(key): value for key, value in given.items() if key != "name"}
    if len(given) == 1:
        [(name, options)] = given.items()
        if isinstance(options, Mapping):
            return str(name), dict(options)
    raise Invalid(f"{dict(given)!r} is not {what}; write {example}")


def made(kind: str, name: str, options: Mapping[str, Any]) -> Any:
    """The plug-in, made with its options; Invalid if there is none of that name, or it does not take them."""
    try:
        return registry.make(kind, name, **options)
    except Unknown as error:
        raise Invalid(str(error)) from None
    except TypeError as error:
        raise Invalid(f"{name}: {error}") from None
