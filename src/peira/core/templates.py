"""Texts with places to fill: sandboxed Jinja in which every name must have a value.

Rendering is pure: it reads no file, clock or chance, changes nothing it is given, and the same template and
values give the same text.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from peira.core.ids import Json
from peira.errors import Invalid

if TYPE_CHECKING:
    from jinja2.environment import Environment
    from jinja2.environment import Template as Compiled

MARKS = ("{{", "{%", "{#")
_FAULTS = (TypeError, ValueError, ArithmeticError, RecursionError, LookupError, AttributeError)


def is_template(text: str) -> bool:
    """Whether there is anything in the text to fill in."""
    return any(mark in text for mark in MARKS)


@dataclass(frozen=True)
class Template:
    """A checked template, equal when its text is. `names` are the values it asks for."""

    text: str

    def __post_init__(self) -> None:
        _compiled(self.text)

    @property
    def names(self) -> frozenset[str]:
        from jinja2 import meta

        return frozenset(meta.find_undeclared_variables(_environment().parse(self.text)))

    def render(self, values: Mapping[str, Json]) -> str:
        """The text filled in; Invalid where a value is missing or cannot be used so."""
        from jinja2 import TemplateError

        try:
            return _compiled(self.text).render(values)
        except (TemplateError, *_FAULTS) as problem:
            raise Invalid(f"template: {' '.join(str(problem).split())}") from None


@lru_cache(maxsize=256)
def _compiled(text: str) -> Compiled:
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        return _environment().from_string(text)
    except TemplateSyntaxError as problem:
        raise Invalid(f"template: line {problem.lineno}: {problem.message}") from None
    except (TemplateError, *_FAULTS) as problem:
        raise Invalid(f"template: {' '.join(str(problem).split())}") from None


@lru_cache(maxsize=1)
def _environment() -> Environment:
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Pure(ImmutableSandboxedEnvironment):
        # A short template must not be able to ask for a huge text.
        intercepted_binops = frozenset(["*", "**"])

        def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
            if operator == "**" or not all(isinstance(side, int | float) for side in (left, right)):
                raise TypeError(f"{operator} is allowed between numbers only" if operator == "*" else "no **")
            return left * right

    environment = Pure(undefined=StrictUndefined, keep_trailing_newline=True)
    for name in ("lipsum", "cycler", "joiner"):
        del environment.globals[name]
    del environment.filters["random"]
    return environment
