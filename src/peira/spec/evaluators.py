"""Evaluators as a study writes them: a name, a name with options, a function, or an evaluator made already.

This room makes them through the registry and writes them down again; the evaluators themselves are plug-ins.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from peira.core import named
from peira.core.contracts import Evaluator
from peira.core.ids import Json
from peira.core.registry import registry
from peira.errors import Invalid
from peira.spec.modules import Missing, reference


def as_evaluator(given: Any) -> Evaluator:
    """The evaluator that is meant; Invalid says why there is none."""
    if isinstance(given, Evaluator) and not inspect.isclass(given):
        return given
    if isinstance(given, Missing):
        return MissingEvaluator(given)
    if isinstance(given, (str, Mapping)):
        return _named(*options_of(given))
    if callable(given):
        return _make("function", fn=given)
    raise Invalid(f"{given!r} is not an evaluator; give a function, a name, or a name with its options")


class MissingEvaluator:
    """Stands for an evaluator that cannot be had any more; judging with it says why."""

    asynchronous = False

    def __init__(self, missing: Missing, identity: Json = None, takes: frozenset[str] = frozenset()) -> None:
        """`identity` and `takes` are those of the evaluator itself, so that its recorded scores are found."""
        self.name, self.takes = missing.__name__, takes
        self.identity = {"missing": self.name} if identity is None else identity
        self._missing = missing

    def known_as(self, identity: Json, takes: Iterable[str]) -> MissingEvaluator:
        return MissingEvaluator(self._missing, identity, frozenset(takes))

    def judge(self, facts: Mapping[str, Any]) -> Any:
        return self._missing()


def options_of(given: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and options of an evaluator as it is written."""
    return named.options_of(given, "an evaluator", '{name = "numeric", tolerance = 0.1}')


def _named(name: str, options: dict[str, Any]) -> Evaluator:
    if name == "function":
        raise Invalid("write a function as file.py:name")
    return _make(name, **options)


def _make(kind: str, /, **options: Any) -> Evaluator:
    evaluator: Evaluator = named.made("evaluator", kind, options)
    return evaluator


def write_evaluator(given: Any, base: Path | None) -> Json:
    """What `as_evaluator` reads; None for what cannot be named in a file."""
    if isinstance(given, (str, Mapping)):
        name, options = options_of(given)
        return {"name": name, **options} if options else name
    if not isinstance(given, Evaluator):
        return reference(given, base)
    identity = given.identity
    config = identity.get("config") if isinstance(identity, Mapping) else None
    kind = identity.get("evaluator") if isinstance(identity, Mapping) else None  # its name may be a label
    if isinstance(config, Mapping) and kind in registry.names("evaluator"):
        return {"name": kind, **config} if config else kind
    function: Callable[..., Any] | None = getattr(given, "fn", None)
    return reference(function if function is not None else given, base)


def name_of(given: Any) -> str:
    """What people call an evaluator, an agent or any other callable."""
    if isinstance(given, (str, Mapping)):
        return options_of(given)[0]
    if isinstance(given, Evaluator):
        return given.name
    given = getattr(given, "func", given)
    return str(getattr(given, "__name__", None) or type(given).__name__).strip("<>")
