"""The graph behind a fingerprint: nodes, edges, and resolving the names in code to objects."""

from __future__ import annotations

import builtins
import dis
import functools
import inspect
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from peira.core.code.names import SELF, Chain, Names
from peira.core.code.origin import OWN, PYTHON, module_file, origin
from peira.core.code.source import methods_of

Slot = tuple[int, str]

NOWHERE: Slot = (0, "")


class Edge(NamedTuple):
    """A reference; `name` is its role in the node and enters the digest, `label` is for people.

    `slot` is the place (object and key) that the value was read from.
    """

    name: str
    label: str
    value: object
    slot: Slot = NOWHERE


class Node(NamedTuple):
    """An object: the digest of itself alone, what it refers to, and the slots its code writes to."""

    label: str
    digest: str
    edges: tuple[Edge, ...] = ()
    unseen: tuple[str, ...] = ()
    written: frozenset[Slot] = frozenset()


@dataclass(frozen=True)  # stands where a user's value may, and must not be taken for a tuple
class ModuleFile:
    """A module of the user that counts as a whole: imported inside a function, or used as an object."""

    name: str
    package: str
    file: str


MISSING = object()
_MODULE_FACTS = frozenset(
    ("__name__", "__file__", "__doc__", "__package__", "__spec__", "__loader__", "__cached__", "__path__")
)
C_FUNCTIONS = (
    types.BuiltinFunctionType,
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.MethodWrapperType,
    types.ClassMethodDescriptorType,
)
FILLABLE = (list, dict, set, bytearray)


class ResolvedName(NamedTuple):
    """A value, the slot it was read from, and the unresolved rest of the dotted name."""

    value: object
    slot: Slot
    rest: Chain = ()


class Scope(NamedTuple):
    """Where the free names of a function or class are looked up: closure cells, then globals."""

    cells: Mapping[str, types.CellType]
    names: Mapping[str, object]

    def find(self, chain: Chain) -> ResolvedName | None:
        """The value of a dotted name, resolved through the user's own modules.

        None for builtins and module attributes such as `__name__`; a name that does not exist gives MISSING.
        """
        found = self._first(chain[0], chain[1:])
        while found and found.rest and is_own_module(found.value):
            assert isinstance(found.value, types.ModuleType)
            found = _attribute(found.value, found.rest)
        return found

    def _first(self, name: str, rest: Chain) -> ResolvedName | None:
        """The value of the first part of a dotted name."""
        if name in self.cells:
            cell = self.cells[name]
            return ResolvedName(cell_value(cell), (id(cell), ""), rest)
        if name in _MODULE_FACTS:
            return None
        if name in self.names:
            return ResolvedName(self.names[name], (id(self.names), name), rest)
        return None if hasattr(builtins, name) else ResolvedName(MISSING, (0, name), rest)

    def written(self, names: Names) -> Iterator[Slot]:
        """The slots that code with these names writes to: rebound names, and containers it mutates."""
        for chain in names.rebinds | names.mutates:
            found = self.find(chain) if chain[0] != SELF else None
            if found and found.rest:
                yield from written_attribute(found.value, found.rest, chain in names.rebinds)
            elif found and (chain in names.rebinds or isinstance(found.value, FILLABLE)):
                yield found.slot


def written_attribute(holder: object, chain: Chain, rebinds: bool) -> Iterator[Slot]:
    """The slot that a change of `holder.chain` writes to, if it can be found without running code."""
    for name in chain[:-1]:
        holder = attributes_of(holder).get(name)
    if rebinds or isinstance(attributes_of(holder).get(chain[-1]), FILLABLE):
        yield id(holder), chain[-1]


def attributes_of(value: object) -> dict[str, object]:
    """The attributes stored in an object, except cached properties, read without its `__getattr__`."""
    mro = type.mro(type(value)) if not isinstance(value, type) else []
    names = [name for cls in mro for name in _declared(cls)]
    found = {name: object.__getattribute__(value, name) for name in names if _is_set(value, name)}
    found.update(getattr(value, "__dict__", {}))
    return {n: v for n, v in found.items() if not n.startswith("__") and not _is_cached(mro, n)}


def _declared(cls: type) -> Iterator[str]:
    """The names of the slots, and of the fields of a msgspec.Struct, that a class declares."""
    slots = vars(cls).get("__slots__", ())
    yield from (slots,) if isinstance(slots, str) else slots
    fields = vars(cls).get("__struct_fields__", ())
    yield from fields if isinstance(fields, tuple) else ()  # msgspec.Struct itself has a descriptor there


def _is_set(value: object, name: str) -> bool:
    """Whether the attribute has a value."""
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def _is_cached(mro: list[type], name: str) -> bool:
    """Whether the attribute is the cache of a cached_property."""
    return any(isinstance(vars(cls).get(name), functools.cached_property) for cls in mro)


def scope_of_function(function: types.FunctionType) -> Scope:
    """The scope of a function: its closure and its globals."""
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return Scope(cells, function.__globals__)


def scope_of_class(cls: type) -> Scope:
    """The scope of a class: its module, and everything that its methods close over."""
    scopes = [scope_of_function(method) for method in methods_of(cls)]
    cells = {name: cell for scope in scopes for name, cell in scope.cells.items()}
    module = sys.modules.get(cls.__module__)
    return Scope(cells, vars(module) if module else next((scope.names for scope in scopes), {}))


def names_of_code(code: types.CodeType) -> Names:
    """The free names of compiled code, for code without source.

    It has no attribute names, so modules that it reads count as a whole.
    """
    reads: set[Chain] = {(name,) for name in code.co_freevars}
    rebinds: set[Chain] = set()
    stack = [code]
    while stack:
        inner = stack.pop()
        for instruction in dis.get_instructions(inner):
            if instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME"):
                reads.add((instruction.argval,))
            elif instruction.opname == "STORE_GLOBAL":
                rebinds.add((instruction.argval,))
        stack.extend(const for const in inner.co_consts if isinstance(const, types.CodeType))
    return Names(frozenset(reads), frozenset(rebinds))


def is_own_module(value: object) -> bool:
    """Whether it is a module of the user."""
    return (
        isinstance(value, types.ModuleType)
        and origin(value.__name__, getattr(value, "__file__", None)) == OWN
    )


def class_file(cls: type) -> str | None:
    """The file a class is defined in: that of its methods, else that of its module."""
    files = (method.__code__.co_filename for method in methods_of(cls))
    return next((file for file in files if not file.startswith("<")), None) or module_file(cls.__module__)


def cell_value(cell: types.CellType) -> object:
    """The value of a closure cell; MISSING if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not set yet
        return MISSING


def _attribute(module: types.ModuleType, rest: Chain) -> ResolvedName:
    """The attribute of a module, or its submodule if that is imported."""
    value = vars(module).get(rest[0], MISSING)
    if value is MISSING:
        value = sys.modules.get(f"{module.__name__}.{rest[0]}", MISSING)
    return ResolvedName(value, (id(vars(module)), rest[0]), rest[1:])


def origin_of(value: object) -> str:
    """Who owns the code of a function, class or module; for any other object, of its class."""
    if isinstance(value, types.FunctionType):
        return origin(value.__globals__.get("__name__", ""), value.__code__.co_filename)
    if isinstance(value, types.ModuleType):
        return origin(value.__name__, getattr(value, "__file__", None))
    if isinstance(value, C_FUNCTIONS):
        return origin(module_of(value))
    cls = value if isinstance(value, type) else type(value)
    return PYTHON if cls.__module__ == "builtins" else origin(cls.__module__, class_file(cls))


def wrapped(value: object) -> object | None:
    """The function that a decorator wrapped (`__wrapped__`), found without calling `__getattr__`."""
    if isinstance(value, type) or inspect.getattr_static(value, "__wrapped__", None) is None:
        return None
    return typing.cast(object, value.__wrapped__)  # type: ignore[attr-defined]


def module_of(value: object) -> str:
    """The name of the module that defines a function implemented in C."""
    owner = getattr(value, "__objclass__", None)
    return getattr(owner or value, "__module__", None) or "builtins"
