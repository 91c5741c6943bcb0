"""A syntax tree as a tree of JSON values, without what cannot change what the code does.

Positions, comments, formatting, docstrings and the spelling of string literals are left out, and so is what
differs between the Pythons peira supports: one source has one digest on all of them. Annotations stay in,
because dataclasses, validators and argument injection act on them.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from peira.core.code.constants import digest_of, encode

_IGNORED = frozenset(("ctx", "kind", "type_comment", "type_ignores"))
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def syntax_digest(node: ast.AST) -> str:
    """Equal for two trees only if they are the same code."""
    return digest_of(_dump(node))


def undecorated(node: ast.AST) -> ast.AST:
    """The definition without its decorators; any other node as it is."""
    if not getattr(node, "decorator_list", None):
        return node
    return type(node)(**{**dict(ast.iter_fields(node)), "decorator_list": []})


def _dump(node: object) -> object:
    if isinstance(node, list):
        return [_dump(item) for item in node]
    if isinstance(node, ast.Constant):
        return ["Constant", encode(node.value)]
    if isinstance(node, ast.JoinedStr):
        return ["JoinedStr", *_pieces(node)]
    if not isinstance(node, ast.AST):
        return encode(node)
    return [type(node).__name__, *([name, _dump(value)] for name, value in _fields(node))]


def _fields(node: ast.AST) -> Iterator[tuple[str, object]]:
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, _DOCUMENTED):
            yield name, _without_docstring(value)
        elif name == "format_spec" and isinstance(value, ast.JoinedStr) and not value.values:
            continue
        elif value is not None and value != [] and name not in _IGNORED:
            yield name, value


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
    return body


def _pieces(node: ast.JoinedStr) -> list[object]:
    """The parts of an f-string, with neighbouring literals joined: Pythons split them in different places."""
    pieces: list[object] = []
    for part in node.values:
        if not (isinstance(part, ast.Constant) and isinstance(part.value, str)):
            pieces.append(_dump(part))
        elif pieces and isinstance(pieces[-1], str):
            pieces[-1] += part.value
        elif part.value:
            pieces.append(part.value)
    return pieces
