"""Safe expressions over names: constraints (`model != 'a' or style == 'plain'`) and `--where` filters.

The text is parsed as Python, checked against a short list of allowed forms, and compiled once into nested
closures; nothing is ever given to Python's own evaluator. The semantics are Python's, with these differences:

- a dotted name such as `case.slice` is one name, looked up as a whole; there is no attribute access;
- the words `true`, `false` and `null` are always the literals True, False and None, never names, so that the
  meaning of a text does not depend on the values it is evaluated on;
- a tuple is a list, as it is in a study's values;
- arithmetic takes numbers only (and `+` two strings), so that no short text can produce a huge result;
- `implies(a, b)` is `not a or b`, and is True or False.
"""

from __future__ import annotations

import ast
import operator
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any, NoReturn

from peira.errors import ExpressionError

MAX_LENGTH = 10_000
MAX_DEPTH = 100

_Values = Mapping[str, object]
_Thunk = Callable[[_Values], Any]

_FAULTS = (TypeError, ValueError, ArithmeticError, RecursionError)
_WINDOW = 60
_WORDS = {"true": True, "false": False, "null": None}


@dataclass(frozen=True)
class Expression:
    """A checked expression: equal when its text is, safe on any values, cheap to evaluate often.

    `names` are all names the text mentions. Construction and evaluation raise nothing but `ExpressionError`.
    """

    text: str
    names: frozenset[str] = field(init=False, compare=False, repr=False)
    _thunk: _Thunk = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        builder = _Builder(self.text.replace("\r\n", "\n").replace("\r", "\n").strip())
        object.__setattr__(self, "_thunk", builder.whole())
        object.__setattr__(self, "names", frozenset(builder.names))

    def __reduce__(self) -> tuple[type[Expression], tuple[str]]:
        return Expression, (self.text,)

    def evaluate(self, values: _Values) -> bool:
        """The truth value of the expression.

        A name needs a value only if its part of the text is evaluated (`and`, `or` and `if` short-circuit).
        """
        try:
            return bool(self._thunk(values))
        except ExpressionError:
            raise
        except _FAULTS as fault:
            raise ExpressionError(f"cannot be evaluated: {fault}", self.text) from fault


def _on_numbers(function: Callable[..., Any], *operands: Any) -> Any:
    """The function of these operands; raises TypeError for operands that are not numbers."""
    for operand in operands:
        if not isinstance(operand, (int, float)):
            raise TypeError(f"needs numbers, not {type(operand).__name__}")
    return function(*operands)


_add_numbers = partial(_on_numbers, operator.add)


def _add(left: Any, right: Any) -> Any:
    """Addition of two numbers, or concatenation of two strings."""
    if isinstance(left, str) and isinstance(right, str):
        return left + right
    return _add_numbers(left, right)


_COMPARISONS: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: lambda item, box: item in box,
    ast.NotIn: lambda item, box: item not in box,
}
_ARITHMETIC: dict[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: _add,
    ast.Sub: partial(_on_numbers, operator.sub),
    ast.Mult: partial(_on_numbers, operator.mul),
    ast.Div: partial(_on_numbers, operator.truediv),
    ast.FloorDiv: partial(_on_numbers, operator.floordiv),
    ast.Mod: partial(_on_numbers, operator.mod),
}
_abs = partial(_on_numbers, abs)
_FUNCTIONS: dict[str, Callable[..., Any]] = {"len": len, "min": min, "max": max, "abs": _abs}
_ALLOWED_CALLS = "len, min, max, abs and implies"
_REFUSED: dict[type[ast.AST], str] = {
    ast.Subscript: "subscripts are not allowed",
    ast.Lambda: "lambdas are not allowed",
    ast.ListComp: "comprehensions are not allowed",
    ast.SetComp: "comprehensions are not allowed",
    ast.DictComp: "comprehensions are not allowed",
    ast.GeneratorExp: "comprehensions are not allowed",
    ast.JoinedStr: "f-strings are not allowed",
    ast.NamedExpr: "assignments (:=) are not allowed",
    ast.Starred: "unpacking (*) is not allowed",
    ast.Set: "sets are not allowed: use a list",
    ast.Dict: "dictionaries are not allowed",
    ast.Is: "'is' is not allowed: use ==",
    ast.IsNot: "'is not' is not allowed: use !=",
    ast.Pow: "the operator ** is not allowed",
    ast.LShift: "the operator << is not allowed",
    ast.UAdd: "unary + is not allowed",
    ast.BitAnd: "the operator & is not allowed: use 'and'",
    ast.BitOr: "the operator | is not allowed: use 'or'",
    ast.Invert: "the operator ~ is not allowed: use 'not'",
}


class _Builder:
    """Compiles one text into closures; every error carries its position in that text."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.names: set[str] = set()
        self._depth = 0

    def whole(self) -> _Thunk:
        """The closure for the whole text; ExpressionError if anything in it is not allowed."""
        try:
            return self.build(self.parse())
        except (RecursionError, MemoryError):
            raise ExpressionError("nested too deeply", self.source) from None

    def parse(self) -> ast.expr:
        """The syntax tree of the text, which must be one Python expression."""
        if not self.source:
            raise ExpressionError("the expression is empty", self.source)
        if len(self.source) > MAX_LENGTH:
            raise ExpressionError(f"longer than {MAX_LENGTH:,} characters", self.source[:_WINDOW])
        try:
            # Doubtful escapes and the like only warn today: refusing them keeps one meaning on every Python.
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                return ast.parse(self.source, mode="eval").body
        except SyntaxError as error:
            offset = self._offset(error.lineno or 1, (error.offset or 1) - 1)
            raise ExpressionError(f"not an expression: {error.msg}", self.source, offset) from None
        except ValueError as error:  # null characters, lone surrogates
            raise ExpressionError(f"not an expression: {error}", self.source) from None

    def build(self, node: ast.expr) -> _Thunk:
        """The closure for a node, within the limit on nesting."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self._refuse(node, f"nested more than {MAX_DEPTH} levels deep")
        thunk = self._form(node)
        self._depth -= 1
        return thunk

    def _form(self, node: ast.expr) -> _Thunk:
        """The closure for a node by its type, or a refusal."""
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name() | ast.Attribute():
                return self._name(node)
            case ast.List(elts=items) | ast.Tuple(elts=items):
                return self._list(items)
            case ast.BoolOp():
                return self._junction(node)
            case ast.UnaryOp():
                return self._unary(node)
            case ast.Compare():
                return self._comparison(node)
            case ast.BinOp():
                return self._arithmetic(node)
            case ast.IfExp():
                return self._choice(node)
            case ast.Call():
                return self._call(node)
        self._refuse(node)

    def _constant(self, node: ast.Constant) -> _Thunk:
        value = node.value
        if not isinstance(value, (str, int, float, bool, type(None))):
            self._refuse(node, f"{type(value).__name__} literals are not allowed")
        return lambda values: value

    def _name(self, node: ast.Name | ast.Attribute) -> _Thunk:
        """A lookup of a (dotted) name, or the constant that `true`, `false` or `null` stands for."""
        if isinstance(node, ast.Name) and node.id in _WORDS:
            word = _WORDS[node.id]
            return lambda values: word
        name = self._dotted(node)
        self.names.add(name)

        def look_up(values: _Values) -> object:
            try:
                return values[name]
            except KeyError:
                raise self._error(node, f"no value for the name {name!r}") from None

        return look_up

    def _dotted(self, node: ast.Name | ast.Attribute) -> str:
        parts: list[str] = []
        inner: ast.expr = node
        while isinstance(inner, ast.Attribute):
            parts.append(inner.attr)
            inner = inner.value
        if not isinstance(inner, ast.Name) or inner.id in _WORDS:
            self._refuse(node, "attributes are not allowed, except in dotted names")
        return ".".join([inner.id, *reversed(parts)])

    def _list(self, items: list[ast.expr]) -> _Thunk:
        """A list, built once if all its items are constants."""
        thunks = [self.build(item) for item in items]
        if all(isinstance(item, ast.Constant) for item in items):
            constant = [thunk({}) for thunk in thunks]
            return lambda values: constant
        return lambda values: [thunk(values) for thunk in thunks]

    def _junction(self, node: ast.BoolOp) -> _Thunk:
        """`and` or `or`, with Python's short circuit and result."""
        *first, last = (self.build(value) for value in node.values)
        decides = isinstance(node.op, ast.Or)

        def join(values: _Values) -> Any:
            for thunk in first:
                value = thunk(values)
                if bool(value) is decides:
                    return value
            return last(values)

        return join

    def _unary(self, node: ast.UnaryOp) -> _Thunk:
        operand = self.build(node.operand)
        if isinstance(node.op, ast.Not):
            return lambda values: not operand(values)
        if isinstance(node.op, ast.USub):
            return self._apply(node, partial(_on_numbers, operator.neg), [operand])
        self._refuse(node, about=node.op)

    def _comparison(self, node: ast.Compare) -> _Thunk:
        """A comparison, possibly chained (`1 < x <= 3`)."""
        for op in node.ops:
            if type(op) not in _COMPARISONS:
                self._refuse(node, about=op)
        compares = [_COMPARISONS[type(op)] for op in node.ops]
        first, *rest = (self.build(side) for side in (node.left, *node.comparators))
        if len(rest) == 1:
            return self._apply(node, compares[0], [first, rest[0]])
        links = list(zip(compares, rest, strict=True))

        def chain(values: _Values) -> Any:
            left, held = first(values), None
            for compare, side in links:
                right = side(values)
                try:
                    held = compare(left, right)
                    if not held:
                        break
                except _FAULTS as fault:
                    raise self._fault(node, fault) from None
                left = right
            return held

        return chain

    def _arithmetic(self, node: ast.BinOp) -> _Thunk:
        function = _ARITHMETIC.get(type(node.op))
        if function is None:
            self._refuse(node, about=node.op)
        return self._apply(node, function, [self.build(node.left), self.build(node.right)])

    def _choice(self, node: ast.IfExp) -> _Thunk:
        test, then, otherwise = self.build(node.test), self.build(node.body), self.build(node.orelse)
        return lambda values: then(values) if test(values) else otherwise(values)

    def _call(self, node: ast.Call) -> _Thunk:
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        if name not in _FUNCTIONS and name != "implies":
            self._refuse(node, f"only {_ALLOWED_CALLS} can be called")
        if node.keywords:
            self._refuse(node, f"{name}() takes no named arguments")
        wanted = 2 if name == "implies" else 1
        if len(node.args) < wanted or (name not in ("min", "max") and len(node.args) > wanted):
            self._refuse(node, f"{name}() takes {wanted} argument{'s'[: wanted - 1]}, not {len(node.args)}")
        arguments = [self.build(argument) for argument in node.args]
        if name == "implies":
            given, then = arguments
            return lambda values: not given(values) or bool(then(values))
        return self._apply(node, _FUNCTIONS[name], arguments)

    def _apply(self, node: ast.expr, function: Callable[..., Any], operands: list[_Thunk]) -> _Thunk:
        """A call of the function on the operands, whose errors point at the node."""
        if len(operands) == 2:
            left, right = operands

            def apply_two(values: _Values) -> Any:
                first, second = left(values), right(values)
                try:
                    return function(first, second)
                except _FAULTS as fault:
                    raise self._fault(node, fault) from None

            return apply_two

        def apply(values: _Values) -> Any:
            arguments = [operand(values) for operand in operands]
            try:
                return function(*arguments)
            except _FAULTS as fault:
                raise self._fault(node, fault) from None

        return apply

    def _offset(self, line: int, column: int) -> int:
        """The index in the text of a line (from 1) and a column (from 0) in characters."""
        lines = self.source.split("\n")
        before = sum(len(text) + 1 for text in lines[: line - 1])
        return min(before + column, len(self.source))

    def _position(self, node: ast.expr) -> int:
        """The index in the text where a node starts; the syntax tree counts columns in UTF-8 bytes."""
        lines = self.source.split("\n")
        column = len(lines[node.lineno - 1].encode()[: node.col_offset].decode())
        return self._offset(node.lineno, column)

    def _error(self, node: ast.expr, reason: str) -> ExpressionError:
        return ExpressionError(reason, self.source, self._position(node))

    def _fault(self, node: ast.expr, fault: BaseException) -> ExpressionError:
        """The error for an exception raised while the node was evaluated."""
        part = ast.get_source_segment(self.source, node) or self.source
        shown = part if len(part) <= _WINDOW else part[:_WINDOW] + "..."
        return self._error(node, f"cannot evaluate {shown!r}: {fault}")

    def _refuse(self, node: ast.expr, reason: str | None = None, about: ast.AST | None = None) -> NoReturn:
        """Raise the error for a form that is not allowed."""
        kind = type(about or node)
        raise self._error(node, reason or _REFUSED.get(kind, f"{kind.__name__} is not allowed"))
