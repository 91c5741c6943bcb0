"""What one object is and refers to, whatever it is: a node of the graph."""

from __future__ import annotations

import functools
import types
import typing
from collections.abc import Iterator
from dataclasses import replace

from peira.core.code.constants import constant, content, digest_of
from peira.core.code.definitions import (
    class_node,
    foreign_function_node,
    foreign_node,
    function_node,
    module_file_node,
    module_node,
    packages,
    wrapped_edge,
)
from peira.core.code.names import SELF, Names
from peira.core.code.node import Edge, ModuleFile, Node, Slot
from peira.core.code.origin import OWN, PEIRA, PYTHON
from peira.core.code.reach import (
    C_FUNCTIONS,
    attributes_of,
    class_file,
    module_of,
    origin_of,
    wrapped,
    written_attribute,
)
from peira.core.code.source import source_of_class


def bare(value: object) -> object:
    """The object behind what does not count: peira's own decorators, and how a class keeps its functions."""
    while True:
        if isinstance(value, staticmethod | classmethod):
            value = value.__func__
        elif origin_of(value) == PEIRA and wrapped(value) is not None:
            value = wrapped(value)
        else:
            return value


def describe(label: str, value: object) -> Node:
    """The node of an object that is not a plain constant."""
    match value:
        case types.FunctionType():
            return function_node(value) if origin_of(value) == OWN else foreign_function_node(value)
        case type():
            return class_node(value) if origin_of(value) == OWN else foreign_node(label, value)
        case types.ModuleType():
            return module_node(label, value)
        case ModuleFile():
            return module_file_node(value)
        case functools.partial():
            return _partial(label, value)
        case types.MethodType():
            edges = Edge("function", label, value.__func__), Edge("self", f"{label}.self", value.__self__)
            return Node(label, digest_of("method"), edges)
        case list() | tuple() | dict() if origin_of(value) == PYTHON:
            return _container(label, value)
    if isinstance(value, C_FUNCTIONS):
        return _c_function(label, value)
    return _object(label, value)


def _c_function(label: str, value: object) -> Node:
    owner = getattr(value, "__self__", None)
    bound = owner is not None and not isinstance(owner, types.ModuleType)
    edges = (Edge("self", f"{label}.self", owner),) if bound else ()
    name = getattr(value, "__qualname__", label)
    digest = digest_of(["foreign", module_of(value).partition(".")[0], name])
    return Node(label, digest, edges, (f"builtin {name}", *packages(origin_of(value))))


def _partial(label: str, value: functools.partial[object]) -> Node:
    edges = [Edge("function", label, value.func)]
    edges += [Edge(f"argument {n:03}", f"{label}({n})", item) for n, item in enumerate(value.args)]
    edges += [Edge(f"keyword {name}", f"{label}({name})", item) for name, item in value.keywords.items()]
    return Node(label, digest_of("partial"), tuple(edges))


def _container(label: str, value: list[object] | tuple[object, ...] | dict[object, object]) -> Node:
    """A container of more than constants, such as a table of functions."""
    if isinstance(value, dict):
        keys = [constant(key) or type(key).__qualname__ for key in value]
        items = list(value.values())
    else:
        keys, items = [], list(value)
    edges = [Edge(f"item {n:06}", f"{label}[{n}]", item) for n, item in enumerate(items)]
    return Node(label, digest_of([type(value).__qualname__, *keys]), tuple(edges))


def _object(label: str, value: object) -> Node:
    cls = type(value)
    owner = origin_of(value)
    if wrapped(value) is not None:
        return replace(foreign_node(label, cls), edges=tuple(wrapped_edge(label, value)))
    if typing.get_origin(value) is not None:
        edges = [
            Edge(f"argument {n:03}", f"{label}[{n}]", item) for n, item in enumerate(typing.get_args(value))
        ]
        return Node(label, digest_of(["alias", str(typing.get_origin(value))]), tuple(edges))
    if owner in (OWN, PEIRA) or cls is types.SimpleNamespace:
        return _instance(label, value)
    return Node(label, digest_of("unseen"), (), (f"{label}: {cls.__qualname__}", *packages(owner)))


def _instance(label: str, value: object) -> Node:
    attributes = attributes_of(value)
    edges = [Edge("type", type(value).__qualname__, type(value))]
    edges += [Edge(f"attribute {n}", f"{label}.{n}", v, (id(value), n)) for n, v in attributes.items()]
    inner = content(value)
    if inner is not None:
        edges.append(Edge("value", label, inner))
    return Node(label, digest_of("instance"), tuple(edges), (), frozenset(_own_writes(value)))


def _own_writes(value: object) -> Iterator[Slot]:
    """The attributes that the methods of an object change after its construction."""
    for cls in type(value).__mro__:
        file = class_file(cls) if origin_of(cls) == OWN else None
        source = source_of_class(cls, file) if file else None
        names = source.names if source else Names()
        for chain in names.rebinds | names.mutates:
            if chain[0] == SELF:
                yield from written_attribute(value, chain[1:], chain in names.rebinds)
