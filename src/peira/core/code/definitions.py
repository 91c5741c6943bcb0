"""What a definition is and refers to: functions, classes and modules, the user's own and those of others.

The user's own count by their source and by what it reads. Those of others count by name.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Iterator
from dataclasses import replace
from importlib.util import resolve_name

from peira.core.code.constants import constant, digest_of
from peira.core.code.names import Chain, Names
from peira.core.code.node import Edge, ModuleFile, Node
from peira.core.code.origin import OWN, PEIRA, PYTHON, find_module, origin
from peira.core.code.reach import (
    FILLABLE,
    MISSING,
    Scope,
    cell_value,
    class_file,
    names_of_code,
    origin_of,
    scope_of_class,
    scope_of_function,
    wrapped,
)
from peira.core.code.source import (
    Source,
    compiled,
    methods_of,
    source_of_class,
    source_of_code,
    source_of_module,
)


def function_node(function: types.FunctionType) -> Node:
    code = function.__code__
    scope = scope_of_function(function)
    source = source_of_code(code)
    unseen = () if source else (f"compiled code of {code.co_qualname}: no source",)
    source = source or Source(compiled(code), names_of_code(code))
    digest, names = _counted(source, scope)
    edges = [*_reads(names, scope), *_defaults(function, scope), *wrapped_edge(code.co_qualname, function)]
    node = _node(code.co_qualname, digest, names, scope, edges)
    filled = frozenset((id(function), edge.name) for edge in edges if _fills(edge, names))
    return replace(node, unseen=(*node.unseen, *unseen), written=node.written | filled)


def _fills(edge: Edge, names: Names) -> bool:
    parameter = edge.name.removeprefix("default ")
    return parameter != edge.name and (parameter,) in names.mutates and isinstance(edge.value, FILLABLE)


def _node(label: str, digest: str, names: Names, scope: Scope, edges: list[Edge]) -> Node:
    package = str(scope.names.get("__package__") or "")
    imported, unseen = _imports(names, package)
    return Node(label, digest, (*edges, *imported), unseen, frozenset(scope.written(names)))


def _counted(source: Source, scope: Scope) -> tuple[str, Names]:
    """The digest and names of a definition with its decorators, but for those of peira."""
    decorators = [decorator for decorator in source.decorators if not _is_peira(decorator.name, scope)]
    every = [source.names, *(decorator.names for decorator in decorators)]
    names = Names(
        frozenset().union(*(names.reads for names in every)),
        source.names.rebinds,
        source.names.mutates,
        source.names.imports,
    )
    return digest_of([source.digest, *(decorator.digest for decorator in decorators)]), names


def _is_peira(name: Chain | None, scope: Scope) -> bool:
    found = scope.find(name) if name else None
    if found is None:
        return False
    value = found.value
    for attribute in found.rest:
        value = getattr(value, attribute, None)
    module = getattr(value, "__module__", None) or ""
    return module == "peira" or module.startswith("peira.")


def _reads(names: Names, scope: Scope) -> Iterator[Edge]:
    for chain in names.reads:
        found = scope.find(chain)
        if found is None:
            continue
        used = chain[: len(chain) - len(found.rest)]
        yield Edge(f"reads {'.'.join(used)}", used[-1], found.value, found.slot)
        if found.rest:
            yield from _constant_attribute(found.value, found.rest[0], used)


def _constant_attribute(holder: object, name: str, used: Chain) -> Iterator[Edge]:
    """A constant read from a class or function of the user, which may have been put there from outside."""
    if not isinstance(holder, type | types.FunctionType) or origin_of(holder) != OWN:
        return
    value = inspect.getattr_static(holder, name, MISSING)
    if constant(value):
        yield Edge(f"reads {'.'.join((*used, name))}", f"{used[-1]}.{name}", value, (id(holder), name))


def _defaults(function: types.FunctionType, scope: Scope) -> Iterator[Edge]:
    code = function.__code__
    values = function.__defaults__ or ()
    positional = code.co_varnames[code.co_argcount - len(values) : code.co_argcount]
    defaults = {**dict(zip(positional, values, strict=True)), **(function.__kwdefaults__ or {})}
    for name, value in defaults.items():
        slot = (id(function), f"default {name}")
        yield Edge(f"default {name}", f"{code.co_qualname}({name})", value, slot)
    if "__class__" in scope.cells:
        yield Edge("class", code.co_qualname, cell_value(scope.cells["__class__"]))


def wrapped_edge(label: str, value: object) -> Iterator[Edge]:
    inner = wrapped(value)
    if inner is not None:
        yield Edge("wrapped", label, inner)


def foreign_function_node(function: types.FunctionType) -> Node:
    """Code that is not the user's counts by name, and by what it was closed over: `make_scorer(0.3)`."""
    code = function.__code__
    cells = scope_of_function(function).cells
    edges = [
        Edge(f"closure {name}", f"{code.co_qualname}.{name}", cell_value(cell))
        for name, cell in cells.items()
        if not isinstance(cell_value(cell), FILLABLE)
    ]
    top = str(function.__globals__.get("__name__")).partition(".")[0]
    digest = digest_of(["foreign", top, code.co_qualname])
    every = (*edges, *wrapped_edge(code.co_qualname, function))
    return Node(code.co_qualname, digest, every, packages(origin_of(function)))


def foreign_node(label: str, cls: type) -> Node:
    # Only the top of the module's name: Pythons and packages move things between their inner modules.
    digest = digest_of(["foreign", cls.__module__.partition(".")[0], cls.__qualname__])
    return Node(label, digest, (), packages(origin_of(cls)))


def packages(owner: str) -> tuple[str, ...]:
    return () if owner in (OWN, PYTHON, PEIRA) else (owner,)


def class_node(cls: type) -> Node:
    scope = scope_of_class(cls)
    file = class_file(cls)
    source = source_of_class(cls, file) if file else None
    edges = [
        Edge(f"base {n}", base.__qualname__, base)
        for n, base in enumerate(cls.__bases__)
        if base is not object
    ]
    if source is None:
        edges += [
            Edge(f"member {name}", f"{cls.__qualname__}.{name}", value) for name, value in _members(cls)
        ]
        unseen = (f"compiled code of {cls.__qualname__}: no source",)
        return Node(cls.__qualname__, digest_of(["class", cls.__qualname__]), tuple(edges), unseen)
    digest, names = _counted(source, scope)
    edges += [*_reads(names, scope), *_assigned(cls)]
    return _node(cls.__qualname__, digest, names, scope, edges)


def _members(cls: type) -> Iterator[tuple[str, object]]:
    for method in methods_of(cls):
        yield method.__name__, method
    for name, value in list(vars(cls).items()):
        if not name.startswith("__") and constant(value):
            yield name, value


def _assigned(cls: type) -> Iterator[Edge]:
    """Functions of the user put into the class from outside its body."""
    inside = {id(method) for method in methods_of(cls)}
    for name, member in list(vars(cls).items()):
        if isinstance(member, types.FunctionType) and id(member) not in inside:
            generated = member.__code__.co_filename.startswith("<")
            if not generated and origin_of(member) == OWN:
                yield Edge(f"member {name}", f"{cls.__qualname__}.{name}", member)


def module_node(label: str, module: types.ModuleType) -> Node:
    file = getattr(module, "__file__", None)
    owner = origin_of(module)
    if owner != OWN:
        return Node(label, digest_of(["foreign", module.__name__]), (), packages(owner))
    if file is None:
        return Node(label, digest_of("module"), (), (f"module {label}: no source",))
    return module_file_node(ModuleFile(label, module.__package__ or "", file))


def module_file_node(module: ModuleFile) -> Node:
    source = source_of_module(module.file)
    if source is None:
        return Node(module.name, digest_of("module"), (), (f"module {module.name}: no source",))
    edges, unseen = _imports(source.names, module.package)
    return Node(module.name, source.digest, edges, unseen)


def _imports(names: Names, package: str) -> tuple[tuple[Edge, ...], tuple[str, ...]]:
    """Modules that code imports when it runs. They count whole, and finding them imports nothing."""
    edges: list[Edge] = []
    unseen: list[str] = []
    for name in names.imports:
        full = _absolute(name, package)
        file = find_module(full) if full else None
        owner = origin(full, file) if full else OWN
        if owner == OWN and file:
            inside = full if file.endswith("__init__.py") else full.rpartition(".")[0]
            edges.append(Edge(f"imports {name}", full.rpartition(".")[2], ModuleFile(full, inside, file)))
        elif owner == OWN and (name.rpartition(".")[0] or ".") not in names.imports:
            unseen.append(f"import {name}")
        unseen.extend(packages(owner))
    return tuple(edges), tuple(unseen)


def _absolute(name: str, package: str) -> str:
    """The full name of a module, or nothing for a relative name outside a package."""
    try:
        return resolve_name(name, package)
    except ImportError:
        return ""
