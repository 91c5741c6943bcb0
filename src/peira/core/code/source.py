"""The source of running code: a hash of its syntax tree, without comments, format and docstrings.

The first part hashes trees. The second finds the definition of a function or class in its file, and verifies
by compiling it that the file still contains the code that is running.
"""

from __future__ import annotations

import ast
import linecache
import threading
import types
import warnings
from collections import defaultdict
from collections.abc import Iterator
from functools import cached_property, lru_cache
from operator import itemgetter
from typing import NamedTuple

from peira.core.code.constants import digest_of, encode
from peira.core.code.names import Chain, Function, Names, chain_of, names_of

_IGNORED = frozenset(("ctx", "kind", "type_comment", "type_ignores"))
_DOCUMENTED = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Module)


def syntax_digest(node: ast.AST) -> str:
    """The digest of a syntax tree, equal for two trees only if they are the same code."""
    return digest_of(_dump(node))


def _dump(node: object) -> object:
    """A syntax tree as a tree of JSON values."""
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
    """The fields of a node that count, without the docstring."""
    for name, value in ast.iter_fields(node):
        if name == "body" and isinstance(node, _DOCUMENTED):
            yield name, _without_docstring(value)
        elif name == "format_spec" and isinstance(value, ast.JoinedStr) and not value.values:
            continue
        elif value is not None and value != [] and name not in _IGNORED:
            yield name, value


def _without_docstring(body: list[ast.stmt]) -> list[ast.stmt]:
    """The body of a definition without its docstring."""
    match body:
        case [ast.Expr(value=ast.Constant(value=str())), *rest]:
            return rest or [ast.Pass()]
    return body


def _pieces(node: ast.JoinedStr) -> list[object]:
    """The parts of an f-string with adjacent literals joined: Python versions split them differently."""
    pieces: list[object] = []
    for part in node.values:
        if not (isinstance(part, ast.Constant) and isinstance(part.value, str)):
            pieces.append(_dump(part))
        elif pieces and isinstance(pieces[-1], str):
            pieces[-1] += part.value
        elif part.value:
            pieces.append(part.value)
    return pieces


_SHAPE_FLAGS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # *args, **kwargs, generator, coroutine, async generator
_parsing = threading.Lock()  # the filters of warnings are global


class DecoratorUse(NamedTuple):
    """One decorator of a definition, and its dotted name (of the function, if it is a call), if any."""

    name: Chain | None
    digest: str
    names: Names


class DefinitionSource(NamedTuple):
    """A definition and, separately, its decorators: their value at run time decides whether they count."""

    digest: str
    names: Names
    decorators: tuple[DecoratorUse, ...] = ()


def source_of_code(code: types.CodeType) -> DefinitionSource | None:
    """The source of a function's code; None if no source compiles to this code."""
    return _source_of_code(_Same(code))


def source_of_class(cls: type, filename: str) -> DefinitionSource | None:
    """The source of a class defined in a file; None if no source compiles to its methods."""
    return _source_of_class(_Same(cls), filename)


def source_of_module(filename: str) -> DefinitionSource | None:
    """The source of a whole module as its file is now; None if it cannot be read."""
    linecache.checkcache(filename)
    file = _file("".join(linecache.getlines(filename)))
    return _source(file.tree) if file else None


def compiled(code: types.CodeType) -> str:
    """The digest of compiled code, used if there is no source; it differs between Python versions."""
    return digest_of(_encode_code(code))


def methods_of(cls: type) -> list[types.FunctionType]:
    """The functions that the body of a class defines, sorted by name."""
    members = (_behind(member) for _, member in sorted(vars(cls).items(), key=itemgetter(0)))
    functions = (member for member in members if isinstance(member, types.FunctionType))
    return [
        function for function in functions if function.__code__.co_qualname.startswith(f"{cls.__qualname__}.")
    ]


def _behind(member: object) -> object:
    """The function of a staticmethod, classmethod, property or cached_property."""
    match member:
        case staticmethod() | classmethod():
            return member.__func__
        case property():
            return member.fget
        case cached_property():
            return member.func
    return member


class _Same:
    """A cache key that compares by identity: code that compares equal may come from different sources."""

    __slots__ = ("value",)

    def __init__(self, value: types.CodeType | type) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


@lru_cache(maxsize=4096)
def _source_of_code(key: _Same) -> DefinitionSource | None:
    assert isinstance(key.value, types.CodeType)
    found = (file.function(key.value) for file in _versions(key.value.co_filename))
    return next((_source(node) for node in found if node), None)


@lru_cache(maxsize=1024)
def _source_of_class(key: _Same, filename: str) -> DefinitionSource | None:
    assert isinstance(key.value, type)
    found = (file.class_(key.value, filename) for file in _versions(filename))
    return next((_source(node) for node in found if node), None)


def _source(node: ast.AST) -> DefinitionSource | None:
    """The source of a definition; None if it is nested too deeply to hash."""
    try:
        written: list[ast.expr] = getattr(node, "decorator_list", [])
        decorators = tuple(
            DecoratorUse(
                chain_of(use.func if isinstance(use, ast.Call) else use), syntax_digest(use), names_of(use)
            )
            for use in written
        )
        bare = type(node)(**{**dict(ast.iter_fields(node)), "decorator_list": []}) if written else node
        return DefinitionSource(syntax_digest(bare), names_of(bare), decorators)
    except RecursionError:  # an expression nested deeper than Python's own stack
        return None


def _versions(filename: str) -> Iterator[_File]:
    """The file as first read in this process, which is likely what was imported, then as it is now."""
    first = "".join(linecache.getlines(filename))
    linecache.checkcache(filename)
    for text in dict.fromkeys((first, "".join(linecache.getlines(filename)))):
        file = _file(text)
        if file:
            yield file


def _file(text: str) -> _File | None:
    """The parsed text, from the cache; one thread at a time."""
    with _parsing:
        return _parse(text)


@lru_cache(maxsize=64)
def _parse(text: str) -> _File | None:
    # The warnings of this file were shown when it was imported.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
            code = compile(tree, "", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return None
    return _File(tree, code)


class _File:
    """A parsed file: its functions and code objects by first line, its classes by qualified name."""

    def __init__(self, tree: ast.Module, code: types.CodeType) -> None:
        self.tree = tree
        self._functions: dict[int, list[Function]] = defaultdict(list)
        self._classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self._codes: dict[int, list[types.CodeType]] = defaultdict(list)
        self._index(tree)
        stack = [code]
        while stack:  # all code objects nested in it, and itself
            inner = stack.pop()
            self._codes[inner.co_firstlineno].append(inner)
            stack.extend(const for const in inner.co_consts if isinstance(const, types.CodeType))

    def _index(self, tree: ast.Module) -> None:
        """Index all functions and classes of the file."""
        stack: list[tuple[ast.AST, str]] = [(tree, "")]
        while stack:
            node, prefix = stack.pop()
            if isinstance(node, ast.ClassDef):
                self._classes[prefix + node.name].append(node)
                prefix = f"{prefix}{node.name}."
            elif isinstance(node, Function):
                self._functions[_first_line(node)].append(node)
                prefix = f"{prefix}{_name(node)}.<locals>."
            stack.extend((child, prefix) for child in ast.iter_child_nodes(node))

    def function(self, code: types.CodeType) -> Function | None:
        """The definition that a code object was compiled from; None if there is none, or it is ambiguous."""
        if not self._holds(code):
            return None
        nodes = [node for node in self._functions.get(code.co_firstlineno, ()) if _name(node) == code.co_name]
        return nodes[0] if len(nodes) == 1 else _by_columns(nodes, code)

    def class_(self, cls: type, filename: str) -> ast.ClassDef | None:
        """The definition of a class; None unless exactly one contains the methods that are running."""
        codes = [method.__code__ for method in methods_of(cls) if method.__code__.co_filename == filename]
        if not all(map(self._holds, codes)):
            return None
        nodes = self._classes.get(cls.__qualname__, [])
        if len(nodes) > 1:
            lines = {vars(cls).get("__firstlineno__", 0), *(code.co_firstlineno for code in codes)} - {0}
            nodes = [node for node in nodes if lines and lines <= _lines(node)]
        return nodes[0] if len(nodes) == 1 else None

    def _holds(self, code: types.CodeType) -> bool:
        """Whether compiling this file gives this very code."""
        alike = [other for other in self._codes.get(code.co_firstlineno, ()) if other.co_name == code.co_name]
        return bool(alike) and compiled(code) in map(compiled, alike)


def _name(node: Function) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: Function | ast.ClassDef) -> int:
    """The line of the first decorator, or of the definition."""
    decorators = getattr(node, "decorator_list", None)
    return int(decorators[0].lineno if decorators else node.lineno)


def _lines(node: ast.ClassDef) -> set[int]:
    """The lines that a class definition spans."""
    return set(range(_first_line(node), (node.end_lineno or node.lineno) + 1))


def _by_columns(nodes: list[Function], code: types.CodeType) -> Function | None:
    """Of several lambdas on one line, the innermost whose body contains all positions of the code."""
    places = [(line, end_line, column, end) for line, end_line, column, end in code.co_positions() if end]
    lambdas = [node for node in nodes if isinstance(node, ast.Lambda)]
    if not places or not all(None not in place for place in places):
        return None
    start = min((line or 0, column or 0) for line, _, column, _ in places)
    end = max((line or 0, column or 0) for _, line, _, column in places)
    around = [node for node in lambdas if _start(node.body) <= start and end <= _end(node.body)]
    return max(around, key=lambda node: _start(node.body), default=None)


def _start(node: ast.expr) -> tuple[int, int]:
    return node.lineno, node.col_offset


def _end(node: ast.expr) -> tuple[int, int]:
    return node.end_lineno or 0, node.end_col_offset or 0


def _encode_code(code: types.CodeType) -> object:
    """Compiled code as a tree of JSON values, without names of files and line numbers."""
    shape = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _SHAPE_FLAGS]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    constants = [_encode_code(c) if isinstance(c, types.CodeType) else encode(c) for c in code.co_consts]
    return [shape, names, code.co_code.hex(), code.co_exceptiontable.hex(), constants]
