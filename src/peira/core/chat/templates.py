"""Templates: sandboxed Jinja in which every name must have a value.

Rendering is a pure function: it reads no file, clock or random number, changes none of its arguments, and the
same template and values give the same text.
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
    """Whether the text contains any Jinja syntax."""
    return any(mark in text for mark in MARKS)


@dataclass(frozen=True)
class Template:
    """A checked template, equal when its text is; Invalid if its syntax is wrong."""

    text: str

    def __post_init__(self) -> None:
        _compiled(self.text)

    @property
    def names(self) -> frozenset[str]:
        """The names of the values that it needs."""
        from jinja2 import meta

        return frozenset(meta.find_undeclared_variables(_environment().parse(self.text)))

    def render(self, values: Mapping[str, Json]) -> str:
        """The rendered text; Invalid where a value is missing or of the wrong type."""
        from jinja2 import TemplateError

        try:
            return _compiled(self.text).render(values)
        except (TemplateError, *_FAULTS) as problem:
            raise Invalid(f"template: {' '.join(str(problem).split())}") from None


@lru_cache(maxsize=256)
def _compiled(text: str) -> Compiled:
    """The compiled template, cached by its text."""
    from jinja2 import TemplateError, TemplateSyntaxError

    try:
        return _environment().from_string(text)
    except TemplateSyntaxError as problem:
        raise Invalid(f"template: line {problem.lineno}: {problem.message}") from None
    except (TemplateError, *_FAULTS) as problem:
        raise Invalid(f"template: {' '.join(str(problem).split())}") from None


@lru_cache(maxsize=1)
def _environment() -> Environment:
    """The sandboxed Jinja environment, without random numbers and without large repetitions."""
    from jinja2 import StrictUndefined
    from jinja2.sandbox import ImmutableSandboxedEnvironment

    class Pure(ImmutableSandboxedEnvironment):
        # A short template must not be able to produce a huge text.
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
