"""Evaluators and transforms as a study writes them: a name with options, a function, or an object.

The first half is about evaluators, the second about transforms. A placeholder stands for one whose code is no
longer available.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from peira.core import registry as named
from peira.core.contracts import Evaluator
from peira.core.ids import Json
from peira.core.registry import registry
from peira.core.transforms import NoAnswer, Transform
from peira.core.transforms import as_transform as make
from peira.errors import Invalid
from peira.spec.agents import AgentValue
from peira.spec.modules import Missing, reference

ANSWER, TRANSFORM = "answer", "transform"
"""The evaluator that has a transform of its own, and the option by which any other gets one."""


def as_evaluator(given: Any) -> Evaluator:
    """The evaluator that a study's value stands for; Invalid if it stands for none."""
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
    """A placeholder for an evaluator that is no longer available; using it raises Invalid with the reason."""

    asynchronous = False

    def __init__(self, missing: Missing, identity: Json = None, takes: frozenset[str] = frozenset()) -> None:
        """`identity` and `takes` are those of the original, so that its recorded scores are found."""
        self.name, self.takes = missing.__name__, takes
        self.identity = {"missing": self.name} if identity is None else identity
        self._missing = missing

    def known_as(self, identity: Json, takes: Iterable[str]) -> MissingEvaluator:
        """The same placeholder with the identity of the original."""
        return MissingEvaluator(self._missing, identity, frozenset(takes))

    def judge(self, facts: Mapping[str, Any]) -> Any:
        """Raises Invalid."""
        return self._missing()


def options_of(given: str | Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and options of an evaluator as it is written."""
    return named.options_of(given, "an evaluator", '{name = "numeric", tolerance = 0.1}')


def _named(name: str, options: dict[str, Any]) -> Evaluator:
    """Make the evaluator of this name."""
    if name == "function":
        raise Invalid("write a function as file.py:name")
    if TRANSFORM in options and name != ANSWER:
        rest = {key: value for key, value in options.items() if key not in (TRANSFORM, "label")}
        label = options.get("label", name)
        evaluator = {"name": name, **rest} if rest else name
        return _make(ANSWER, transform=options[TRANSFORM], evaluator=evaluator, label=label)
    return _make(name, **options)


def _make(kind: str, /, **options: Any) -> Evaluator:
    """Make the evaluator of this kind with its options.

    A factory may also return a plain function of any of output, expected, case and trial: the evaluator then
    has the factory's name, and its options are part of its identity.
    """
    made: Any = named.made("evaluator", kind, options)
    if isinstance(made, Evaluator):
        return made
    if not callable(made):
        raise Invalid(f"{kind}: its factory returned {made!r}, which is neither an evaluator nor a function")
    evaluator: Evaluator = registry.make("evaluator", "function", fn=made, name=kind, options=options)
    return evaluator


def write_evaluator(given: Any, base: Path | None) -> Json:
    """The form that `as_evaluator` reads; None if a file cannot name it."""
    if isinstance(given, (str, Mapping)):
        name, options = options_of(given)
        return {"name": name, **options} if options else name
    if not isinstance(given, Evaluator):
        return reference(given, base)
    identity = given.identity
    config = identity.get("config") if isinstance(identity, Mapping) else None
    kind = (
        identity.get("evaluator") if isinstance(identity, Mapping) else None
    )  # not its name, which may be a label
    if isinstance(config, Mapping) and kind in registry.names("evaluator"):
        return {"name": kind, **config} if config else kind
    function: Callable[..., Any] | None = getattr(given, "fn", None)
    return reference(function if function is not None else given, base)


def name_of(given: Any) -> str:
    """The name to show for an evaluator, an agent or any other callable."""
    if isinstance(given, AgentValue):
        return given.kind
    if isinstance(given, (str, Mapping)):
        return options_of(given)[0]
    if isinstance(given, Evaluator):
        return given.name
    given = getattr(given, "func", given)
    return str(getattr(given, "__name__", None) or type(given).__name__).strip("<>")


def as_transform(given: Any) -> Transform:
    """The transform that a study's value stands for; Invalid if it stands for none."""
    return MissingTransform(given) if isinstance(given, Missing) else make(given)


class MissingTransform:
    """A placeholder for a transform that is no longer available; using it raises Invalid with the reason."""

    def __init__(self, missing: Missing, identity: Json = None) -> None:
        """`identity` is that of the original, so that its recorded answers are found."""
        self.name = missing.__name__
        self.identity = {"missing": self.name} if identity is None else identity
        self._missing = missing

    def known_as(self, identity: Json) -> MissingTransform:
        """The same placeholder with the identity of the original."""
        return MissingTransform(self._missing, identity)

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        """Raises Invalid."""
        found: Json = self._missing()
        return found


def write_transform(given: Any, base: Path | None) -> Json:
    """The form that `as_transform` reads; None if a file cannot name it."""
    if isinstance(given, list | tuple):
        steps = [write_transform(step, base) for step in given]
        return None if None in steps else steps
    if isinstance(given, str | Mapping):
        return given if isinstance(given, str) else dict(given)
    if not isinstance(given, Transform):
        return reference(given, base)
    config = given.identity.get("config") if isinstance(given.identity, Mapping) else None
    if isinstance(config, Mapping) and given.name in registry.names("transform"):
        return {"name": given.name, **config} if config else given.name
    return reference(getattr(given, "fn", given), base)
