"""Which free names a piece of source reads, and which of them it changes.

A name is free when no scope of the piece itself binds it. What the piece rebinds or mutates (a counter, a
cache) is state, not a constant, and is recorded separately: a cache that fills during a run is no change of
code.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

Chain = tuple[str, ...]
SELF = ""  # the first part of names of the instance, in the names of a class

_MUTATORS = {
    *("add", "append", "appendleft", "clear", "discard", "extend", "insert", "pop", "popitem", "popleft"),
    *("remove", "reverse", "setdefault", "sort", "update"),
    *("difference_update", "intersection_update", "symmetric_difference_update"),
}
_CONSTRUCTION = frozenset(("__init__", "__new__", "__post_init__", "__setstate__", "__init_subclass__"))
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

Function = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda


class Names(NamedTuple):
    """The free names of a piece of source, by how it uses them.

    Dotted names are tuples: `helpers.score` is ("helpers", "score"). Attributes of the instance that methods
    change after its construction start with SELF.
    """

    reads: frozenset[Chain] = frozenset()
    rebinds: frozenset[Chain] = frozenset()
    mutates: frozenset[Chain] = frozenset()
    imports: frozenset[str] = frozenset()  # modules imported inside functions, relative ones with their dots


def names_of(root: ast.AST) -> Names:
    """The free names of one piece of source: a function, a class, an expression or a module."""
    visitor = _Visitor(root)
    visitor.visit(root)
    return Names(
        frozenset(visitor.reads),
        frozenset(visitor.rebinds),
        frozenset(visitor.mutates),
        frozenset(visitor.imports),
    )


def chain_of(node: ast.AST) -> Chain | None:
    """The dotted name that an expression consists of; None for any other expression."""
    attributes: list[str] = []
    while isinstance(node, ast.Attribute):
        attributes.append(node.attr)
        node = node.value
    return (node.id, *reversed(attributes)) if isinstance(node, ast.Name) else None


class _Visitor(ast.NodeVisitor):
    """Collects the free names of a syntax tree while it tracks which names are bound."""

    def __init__(self, root: ast.AST) -> None:
        self.reads: set[Chain] = set()
        self.rebinds: set[Chain] = set()
        self.mutates: set[Chain] = set()
        self.imports: set[str] = set()
        self._bound: frozenset[str] = frozenset()
        self._declared: frozenset[str] = frozenset()
        # A parameter's default outlives the call, so mutating it matters although the name is local.
        self._parameters = frozenset(_parameters(root)) if isinstance(root, Function) else frozenset()
        self._root = root
        self._self: str | None = None

    @contextmanager
    def _scope(self, bound: Iterable[str], declared: Iterable[str] = ()) -> Iterator[None]:
        """A nested scope that binds these names, and declares others global or nonlocal."""
        outer = self._bound, self._declared
        self._declared = frozenset(declared)
        self._bound = (self._bound - self._declared) | frozenset(bound)
        yield
        self._bound, self._declared = outer

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _rebind(self, chain: Chain) -> None:
        """Record an assignment to a free name, or to an attribute of the instance."""
        if chain[0] not in self._bound and (len(chain) > 1 or chain[0] in self._declared):
            self.rebinds.add(chain)
        elif chain[0] == self._self and len(chain) > 1:
            self.rebinds.add((SELF, *chain[1:]))

    def _mutate(self, target: ast.AST) -> None:
        """Record a mutation of the object behind a free name, or behind an attribute of the instance."""
        chain = chain_of(target)
        if chain is None:
            return
        if chain[0] not in self._bound or chain[0] in self._parameters:
            self.mutates.add(chain)
        elif chain[0] == self._self and len(chain) > 1:
            self.mutates.add((SELF, *chain[1:]))

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._rebind((node.id,))
        elif node.id not in self._bound:
            self.reads.add((node.id,))

    def visit_Attribute(self, node: ast.Attribute) -> None:
        chain = chain_of(node)
        if chain is None:
            self.generic_visit(node)
        elif not isinstance(node.ctx, ast.Load):
            self._rebind(chain)
            self.visit(node.value)
        elif chain[0] not in self._bound:
            self.reads.add(chain)

    def visit_Subscript(self, node: ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._mutate(node.value)
        self.generic_visit(node)

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        self._mutate(node.target)
        self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if isinstance(node.func, ast.Attribute) and node.func.attr in _MUTATORS:
            self._mutate(node.func.value)
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        self.imports.update(alias.name for alias in node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        module = "." * node.level + (node.module or "")
        joint = "" if module.endswith(".") else "."
        self.imports.add(module)
        self.imports.update(f"{module}{joint}{alias.name}" for alias in node.names if alias.name != "*")

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        # A class body binds no names for its methods, and may read a global name before it binds it.
        with self._scope(_type_parameters(node)):
            self._visit_all([*node.decorator_list, *node.bases, *node.keywords])
            for child in node.body:
                self._visit_member(child)

    def _visit_member(self, child: ast.stmt) -> None:
        """Visit a statement of a class body; in a method, its first parameter is the instance."""
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef):
            parameters = _parameters(child)
            outer, self._self = self._self, parameters[0] if parameters else None
            if child.name in _CONSTRUCTION:
                self._self = None
            self.visit(child)
            self._self = outer
        elif not isinstance(child, ast.Assign | ast.AnnAssign | ast.AugAssign):
            self.visit(child)
        else:
            self._visit_all([child.value, getattr(child, "annotation", None)])

    def visit_FunctionDef(self, node: Function) -> None:
        body = [node.body] if isinstance(node, ast.Lambda) else node.body
        bound, declared = _bindings(body)
        with self._scope(_type_parameters(node)):
            self._visit_all(_outside_body(node, whole=node is not self._root))
            with self._scope([*bound, *_parameters(node)], declared):
                self._visit_all(body)

    visit_AsyncFunctionDef = visit_FunctionDef
    visit_Lambda = visit_FunctionDef

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        self.visit(node.generators[0].iter)
        bound, _ = _bindings([generator.target for generator in node.generators])
        with self._scope(bound):
            self.generic_visit(node)

    visit_ListComp = _visit_comprehension
    visit_SetComp = _visit_comprehension
    visit_DictComp = _visit_comprehension
    visit_GeneratorExp = _visit_comprehension


def _parameters(node: Function) -> list[str]:
    """The names of all parameters."""
    a = node.args
    every = [
        *a.posonlyargs,
        *a.args,
        *([a.vararg] if a.vararg else []),
        *a.kwonlyargs,
        *([a.kwarg] if a.kwarg else []),
    ]
    return [arg.arg for arg in every]


def _type_parameters(node: ast.AST) -> list[str]:
    """The names of the type parameters (PEP 695)."""
    return [parameter.name for parameter in getattr(node, "type_params", ())]


def _outside_body(node: Function, whole: bool) -> list[ast.AST | None]:
    """The expressions of a definition that are evaluated in the enclosing scope.

    Without the defaults of the piece itself: they were evaluated once, and the function holds their values.
    """
    a = node.args
    arguments = [a] if whole else [*a.posonlyargs, *a.args, a.vararg, *a.kwonlyargs, a.kwarg]
    around = [*getattr(node, "decorator_list", ()), *getattr(node, "type_params", ())]
    return [*around, *arguments, getattr(node, "returns", None)]


def _bindings(nodes: Iterable[ast.AST]) -> tuple[set[str], set[str]]:
    """The names a scope binds, and those it declares global or nonlocal."""
    bound: set[str] = set()
    declared: set[str] = set()
    stack = list(nodes)
    while stack:
        node = stack.pop()
        if isinstance(node, ast.Global | ast.Nonlocal):
            declared.update(node.names)
        elif isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            bound.add(node.name)
        elif isinstance(node, _COMPREHENSIONS):
            stack.extend(inner.target for inner in ast.walk(node) if isinstance(inner, ast.NamedExpr))
        elif not isinstance(node, ast.Lambda):
            bound.update(_bound_by(node))
            stack.extend(ast.iter_child_nodes(node))
    return bound - declared, declared


def _bound_by(node: ast.AST) -> Iterator[str]:
    """The names that a node binds."""
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        yield node.id
    elif isinstance(node, ast.alias):
        yield node.asname or node.name.split(".")[0]
    elif isinstance(node, ast.ExceptHandler | ast.MatchAs | ast.MatchStar) and node.name:
        yield node.name
    elif isinstance(node, ast.MatchMapping) and node.rest:
        yield node.rest
