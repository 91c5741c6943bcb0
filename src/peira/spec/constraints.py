"""Constraints: what makes a combination of levels inadmissible, or worth a warning."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import BeforeValidator

from peira.core.code.signature import TakenArguments, wants
from peira.core.expressions import Expression
from peira.core.ids import Json
from peira.errors import ExpressionError, Invalid
from peira.spec.values import Value


def _predicate(raw: object) -> Any:
    if isinstance(raw, str):
        try:
            Expression(raw)
        except ExpressionError as error:
            raise Invalid(f"{error.reason}, in {raw!r}") from None
    elif not callable(raw):
        raise Invalid(f"must be an expression or a function, not {raw!r}")
    else:
        _arguments(raw)
    return raw


def _arguments(fn: Callable[..., object]) -> TakenArguments:
    try:
        return wants(fn)
    except (TypeError, ValueError):
        raise Invalid("the arguments of the function cannot be read") from None


class Constraint(Value):
    """What must hold for a condition to be admissible; with severity "warning", what should.

    An expression over the names of factors (`model != "small" or style == "plain"`), or a function that takes
    factors by name. It does not apply to a condition that lacks a factor it names.
    """

    expression: Annotated[Any, BeforeValidator(_predicate, json_schema_input_type=str)]
    severity: Literal["error", "warning"] = "error"
    message: str = ""

    if TYPE_CHECKING:

        def __init__(
            self, expression: str | Callable[..., object], severity: str = "error", message: str = ""
        ) -> None: ...

    @cached_property
    def names(self) -> frozenset[str]:
        """The factors it names."""
        test = self._test
        return test.names if isinstance(test, Expression) else _arguments(test).required

    @cached_property
    def _test(self) -> Expression | Callable[..., object]:
        return Expression(self.expression) if isinstance(self.expression, str) else self.expression

    @cached_property
    def _wants(self) -> TakenArguments:
        return _arguments(self.expression)

    @property
    def open(self) -> bool:
        """Whether it takes every factor there is."""
        return not isinstance(self._test, Expression) and self._wants.anything

    def admits(self, assignment: Mapping[str, Json]) -> bool:
        """Whether it holds; raises ExpressionError, or the function's own error."""
        if not self.names <= assignment.keys():
            return True
        if isinstance(self._test, Expression):
            return self._test.evaluate(assignment)
        given = assignment if self.open else {n: v for n, v in assignment.items() if n in self._wants.names}
        return bool(self._test(**given))

    @property
    def text(self) -> str:
        """The expression, or the function's name."""
        if isinstance(self.expression, str):
            return self.expression
        return str(getattr(self.expression, "__name__", type(self.expression).__name__))

    @property
    def reason(self) -> str:
        """The message for conditions that violate it."""
        return self.message or f"violates {self.text}"
