"""The source of code that is already running.

A source is believed only if compiling it gives the very code that runs: a file edited after it was imported
is not the source of what runs, and a long run must not take it for that.
Each file is parsed once per content.
"""

from __future__ import annotations

import ast
import linecache
import threading
import types
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from peira.core.code.constants import digest_of, encode
from peira.core.code.names import Chain, Function, Names, chain_of, names_of
from peira.core.code.syntax import syntax_digest, undecorated

_SHAPE_FLAGS = 0x04 | 0x08 | 0x20 | 0x80 | 0x200  # *args, **kwargs, generator, coroutine, async generator
_parsing = threading.Lock()


@dataclass(frozen=True, slots=True)
class Decorator:
    """One decorator of a definition, and the dotted name it calls or is, if it has one."""

    name: Chain | None
    digest: str
    names: Names


@dataclass(frozen=True, slots=True)
class Source:
    """A definition; its decorators stand apart, for what they are at run time decides whether they count."""

    digest: str
    names: Names
    decorators: tuple[Decorator, ...] = ()


def source_of_code(code: types.CodeType) -> Source | None:
    """The source of a function's code; None if there is none that compiles to this code."""
    return _source_of_code(_Same(code))


def source_of_class(cls: type, filename: str) -> Source | None:
    """The source of a class defined in a file; None if there is none that compiles to its methods."""
    return _source_of_class(_Same(cls), filename)


def source_of_module(filename: str) -> Source | None:
    """The source of a whole module as its file now stands; None if it cannot be read."""
    linecache.checkcache(filename)
    file = _file("".join(linecache.getlines(filename)))
    return _source(file.tree) if file else None


def compiled(code: types.CodeType) -> str:
    """Digest of compiled code, which stands in for source that cannot be seen; it differs between Pythons."""
    return digest_of(_encode_code(code))


def methods_of(cls: type) -> list[types.FunctionType]:
    """The functions that the body of a class defines, in the order of their names."""
    members = (_behind(member) for _, member in sorted(vars(cls).items(), key=lambda item: item[0]))
    functions = (member for member in members if isinstance(member, types.FunctionType))
    return [
        function for function in functions if function.__code__.co_qualname.startswith(f"{cls.__qualname__}.")
    ]


def _behind(member: object) -> object:
    match member:
        case staticmethod() | classmethod():
            return member.__func__
        case property():
            return member.fget
        case cached_property():
            return member.func
    return member


class _Same:
    """A cache key that is the object itself: code that compares equal may come from different sources."""

    __slots__ = ("value",)

    def __init__(self, value: types.CodeType | type) -> None:
        self.value = value

    def __hash__(self) -> int:
        return id(self.value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and self.value is other.value


@lru_cache(maxsize=4096)
def _source_of_code(key: _Same) -> Source | None:
    assert isinstance(key.value, types.CodeType)
    found = (file.function(key.value) for file in _versions(key.value.co_filename))
    return next((_source(node) for node in found if node), None)


@lru_cache(maxsize=1024)
def _source_of_class(key: _Same, filename: str) -> Source | None:
    assert isinstance(key.value, type)
    found = (file.class_(key.value, filename) for file in _versions(filename))
    return next((_source(node) for node in found if node), None)


def _source(node: ast.AST) -> Source | None:
    try:
        decorators = tuple(map(_decorator, getattr(node, "decorator_list", ())))
        bare = undecorated(node)
        return Source(syntax_digest(bare), names_of(bare), decorators)
    except RecursionError:  # an expression nested deeper than Python's own stack
        return None


def _decorator(node: ast.expr) -> Decorator:
    called = node.func if isinstance(node, ast.Call) else node
    return Decorator(chain_of(called), syntax_digest(node), names_of(node))


def _versions(filename: str) -> Iterator[_File]:
    """The file as first read in this process, which is likelier what was imported, then as it stands now."""
    first = "".join(linecache.getlines(filename))
    linecache.checkcache(filename)
    for text in dict.fromkeys((first, "".join(linecache.getlines(filename)))):
        file = _file(text)
        if file:
            yield file


def _file(text: str) -> _File | None:
    with _parsing:
        return _parse(text)


@lru_cache(maxsize=64)
def _parse(text: str) -> _File | None:
    # The user saw the warnings of this file when it was imported.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            tree = ast.parse(text)
            code = compile(tree, "", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT, dont_inherit=True)
        except (SyntaxError, ValueError, RecursionError):
            return None
    return _File(tree, code)


class _File:
    """A parsed file: its definitions by the line they start on, or by name for classes."""

    def __init__(self, tree: ast.Module, code: types.CodeType) -> None:
        self.tree = tree
        self._functions: dict[int, list[Function]] = defaultdict(list)
        self._classes: dict[str, list[ast.ClassDef]] = defaultdict(list)
        self._codes: dict[int, list[types.CodeType]] = defaultdict(list)
        self._index(tree)
        for inner in _codes_in(code):
            self._codes[inner.co_firstlineno].append(inner)

    def _index(self, tree: ast.Module) -> None:
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
        """The definition that a code object was compiled from."""
        if not self._holds(code):
            return None
        nodes = [node for node in self._functions.get(code.co_firstlineno, ()) if _name(node) == code.co_name]
        return nodes[0] if len(nodes) == 1 else _by_columns(nodes, code)

    def class_(self, cls: type, filename: str) -> ast.ClassDef | None:
        """The definition of a class, if it is the only one of its name and holds the methods that run."""
        codes = [method.__code__ for method in methods_of(cls) if method.__code__.co_filename == filename]
        if not all(map(self._holds, codes)):
            return None
        nodes = self._classes.get(cls.__qualname__, [])
        if len(nodes) > 1:
            lines = {vars(cls).get("__firstlineno__", 0), *(code.co_firstlineno for code in codes)} - {0}
            nodes = [node for node in nodes if lines and lines <= _lines(node)]
        return nodes[0] if len(nodes) == 1 else None

    def _holds(self, code: types.CodeType) -> bool:
        alike = [other for other in self._codes.get(code.co_firstlineno, ()) if other.co_name == code.co_name]
        return bool(alike) and compiled(code) in map(compiled, alike)


def _codes_in(code: types.CodeType) -> Iterator[types.CodeType]:
    stack = [code]
    while stack:
        code = stack.pop()
        yield code
        stack.extend(const for const in code.co_consts if isinstance(const, types.CodeType))


def _name(node: Function) -> str:
    return "<lambda>" if isinstance(node, ast.Lambda) else node.name


def _first_line(node: Function | ast.ClassDef) -> int:
    decorators = getattr(node, "decorator_list", None)
    return int(decorators[0].lineno if decorators else node.lineno)


def _lines(node: ast.ClassDef) -> set[int]:
    return set(range(_first_line(node), (node.end_lineno or node.lineno) + 1))


def _by_columns(nodes: list[Function], code: types.CodeType) -> Function | None:
    """Of several lambdas that start on one line, the innermost whose body holds all places of the code."""
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
    shape = [code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount, code.co_flags & _SHAPE_FLAGS]
    names = [code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars]
    constants = [_encode_code(c) if isinstance(c, types.CodeType) else encode(c) for c in code.co_consts]
    return [shape, names, code.co_code.hex(), code.co_exceptiontable.hex(), constants]
