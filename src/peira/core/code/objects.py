"""The graph node of each kind of object: function, class, module, container, instance, and others.

`describe` chooses by type. Code of the user is a node with the digest of its source; code of installed
packages counts by name only, and is listed as unseen.
"""

from __future__ import annotations

import functools
import inspect
import types
import typing
from collections.abc import Iterator
from importlib.util import resolve_name

from peira.core.code.constants import constant, content, digest_of
from peira.core.code.names import SELF, Chain, Names
from peira.core.code.origin import OWN, PEIRA, PYTHON, find_module, origin
from peira.core.code.references import (
    C_FUNCTIONS,
    FILLABLE,
    MISSING,
    Edge,
    ModuleFile,
    Node,
    Scope,
    Slot,
    attributes_of,
    cell_value,
    class_file,
    module_of,
    names_of_code,
    origin_of,
    scope_of_class,
    scope_of_function,
    wrapped,
    written_attribute,
)
from peira.core.code.source import (
    DefinitionSource,
    compiled,
    methods_of,
    source_of_class,
    source_of_code,
    source_of_module,
)


def function_node(function: types.FunctionType) -> Node:
    """The node of a function of the user: its source, what it reads, its defaults, what it wraps."""
    code = function.__code__
    scope = scope_of_function(function)
    source = source_of_code(code)
    unseen = () if source else (f"compiled code of {code.co_qualname}: no source",)
    source = source or DefinitionSource(compiled(code), names_of_code(code))
    digest, names = _counted(source, scope)
    edges = [*_reads(names, scope), *_defaults(function, scope), *wrapped_edge(code.co_qualname, function)]
    node = _node(code.co_qualname, digest, names, scope, edges)
    # The parameters whose default values the function mutates.
    mutable = {edge.name for edge in edges if isinstance(edge.value, FILLABLE)}
    defaults = (f"default {chain[0]}" for chain in names.mutates if len(chain) == 1)
    filled = frozenset((id(function), name) for name in defaults if name in mutable)
    return node._replace(unseen=(*node.unseen, *unseen), written=node.written | filled)


def _node(label: str, digest: str, names: Names, scope: Scope, edges: list[Edge]) -> Node:
    """A node with the modules that the code imports when it runs, and the slots it writes to."""
    package = str(scope.names.get("__package__") or "")
    imported, unseen = _imports(names, package)
    return Node(label, digest, (*edges, *imported), unseen, frozenset(scope.written(names)))


def _counted(source: DefinitionSource, scope: Scope) -> tuple[str, Names]:
    """The digest and names of a definition with its decorators, except those of peira."""
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
    """Whether a dotted name refers to something that peira defines."""
    found = scope.find(name) if name else None
    if found is None:
        return False
    value = found.value
    for attribute in found.rest:
        value = getattr(value, attribute, None)
    module = getattr(value, "__module__", None) or ""
    return module == "peira" or module.startswith("peira.")


def _reads(names: Names, scope: Scope) -> Iterator[Edge]:
    """Edges to the objects that the free names refer to."""
    for chain in names.reads:
        found = scope.find(chain)
        if found is None:
            continue
        used = chain[: len(chain) - len(found.rest)]
        yield Edge(f"reads {'.'.join(used)}", used[-1], found.value, found.slot)
        if found.rest:
            yield from _constant_attribute(found.value, found.rest[0], used)


def _constant_attribute(holder: object, name: str, used: Chain) -> Iterator[Edge]:
    """An edge to a constant attribute of a class or function of the user, which may be set elsewhere."""
    if not isinstance(holder, type | types.FunctionType) or origin_of(holder) != OWN:
        return
    value = inspect.getattr_static(holder, name, MISSING)
    if constant(value):
        yield Edge(f"reads {'.'.join((*used, name))}", f"{used[-1]}.{name}", value, (id(holder), name))


def _defaults(function: types.FunctionType, scope: Scope) -> Iterator[Edge]:
    """Edges to the defaults of the parameters, and to the class that `super()` uses."""
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
    """An edge to the function that a decorator wrapped, if there is one."""
    inner = wrapped(value)
    if inner is not None:
        yield Edge("wrapped", label, inner)


def foreign_function_node(function: types.FunctionType) -> Node:
    """A function that is not the user's: counts by name and by its closure, as in `make_scorer(0.3)`."""
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
    """The node of an object whose class is not the user's: counts by the name of the class."""
    # Only the top-level package: Python and packages move things between their inner modules.
    digest = digest_of(["foreign", cls.__module__.partition(".")[0], cls.__qualname__])
    return Node(label, digest, (), packages(origin_of(cls)))


def packages(owner: str) -> tuple[str, ...]:
    """The package that owns code, as an entry of `unseen`; empty for the user, Python and peira."""
    return () if owner in (OWN, PYTHON, PEIRA) else (owner,)


def class_node(cls: type) -> Node:
    """The node of a class of the user: its source, its bases, and functions assigned from outside."""
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
    """Methods and constants of a class without source."""
    for method in methods_of(cls):
        yield method.__name__, method
    for name, value in list(vars(cls).items()):
        if not name.startswith("__") and constant(value):
            yield name, value


def _assigned(cls: type) -> Iterator[Edge]:
    """Edges to functions of the user assigned to the class outside its body."""
    inside = {id(method) for method in methods_of(cls)}
    for name, member in list(vars(cls).items()):
        if isinstance(member, types.FunctionType) and id(member) not in inside:
            generated = member.__code__.co_filename.startswith("<")
            if not generated and origin_of(member) == OWN:
                yield Edge(f"member {name}", f"{cls.__qualname__}.{name}", member)


def module_node(label: str, module: types.ModuleType) -> Node:
    """The node of a module used as an object."""
    file = getattr(module, "__file__", None)
    owner = origin_of(module)
    if owner != OWN:
        return Node(label, digest_of(["foreign", module.__name__]), (), packages(owner))
    if file is None:
        return Node(label, digest_of("module"), (), (f"module {label}: no source",))
    return module_file_node(ModuleFile(label, module.__package__ or "", file))


def module_file_node(module: ModuleFile) -> Node:
    """The node of a module of the user, by the whole source of its file."""
    source = source_of_module(module.file)
    if source is None:
        return Node(module.name, digest_of("module"), (), (f"module {module.name}: no source",))
    edges, unseen = _imports(source.names, module.package)
    return Node(module.name, source.digest, edges, unseen)


def _imports(names: Names, package: str) -> tuple[tuple[Edge, ...], tuple[str, ...]]:
    """Edges to modules that code imports when it runs; they count as a whole and are not imported here."""
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
    """The full name of a module; "" for a relative name outside a package."""
    try:
        return resolve_name(name, package)
    except ImportError:
        return ""


def bare(value: object) -> object:
    """The object without wrappers that do not count: peira's decorators, staticmethod, classmethod."""
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
    """The node of a function implemented in C: counts by name, and by the object it is bound to."""
    owner = getattr(value, "__self__", None)
    bound = owner is not None and not isinstance(owner, types.ModuleType)
    edges = (Edge("self", f"{label}.self", owner),) if bound else ()
    name = getattr(value, "__qualname__", label)
    digest = digest_of(["foreign", module_of(value).partition(".")[0], name])
    return Node(label, digest, edges, (f"builtin {name}", *packages(origin_of(value))))


def _partial(label: str, value: functools.partial[object]) -> Node:
    """The node of a functools.partial: its function and its arguments."""
    edges = [Edge("function", label, value.func)]
    edges += [Edge(f"argument {n:03}", f"{label}({n})", item) for n, item in enumerate(value.args)]
    edges += [Edge(f"keyword {name}", f"{label}({name})", item) for name, item in value.keywords.items()]
    return Node(label, digest_of("partial"), tuple(edges))


def _container(label: str, value: list[object] | tuple[object, ...] | dict[object, object]) -> Node:
    """The node of a container of more than constants, such as a table of functions."""
    if isinstance(value, dict):
        keys = [constant(key) or type(key).__qualname__ for key in value]
        items = list(value.values())
    else:
        keys, items = [], list(value)
    edges = [Edge(f"item {n:06}", f"{label}[{n}]", item) for n, item in enumerate(items)]
    return Node(label, digest_of([type(value).__qualname__, *keys]), tuple(edges))


def _object(label: str, value: object) -> Node:
    """The node of any other object: a wrapper, a generic alias, an instance, or something unseen."""
    cls = type(value)
    owner = origin_of(value)
    if wrapped(value) is not None:
        return foreign_node(label, cls)._replace(edges=tuple(wrapped_edge(label, value)))
    if typing.get_origin(value) is not None:
        edges = [
            Edge(f"argument {n:03}", f"{label}[{n}]", item) for n, item in enumerate(typing.get_args(value))
        ]
        return Node(label, digest_of(["alias", str(typing.get_origin(value))]), tuple(edges))
    if owner in (OWN, PEIRA) or cls is types.SimpleNamespace:
        return _instance(label, value)
    return Node(label, digest_of("unseen"), (), (f"{label}: {cls.__qualname__}", *packages(owner)))


def _instance(label: str, value: object) -> Node:
    """The node of an instance: its class, its attributes, and its value as a builtin."""
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
