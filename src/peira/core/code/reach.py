"""What one piece of running code reaches: the objects behind the outside names it reads.

A name is looked up where the code itself would look: in its closure, then in its module, then through the
user's own modules by the attributes used. Every place a value is kept in has a slot, so that a place the code
writes to can be told from one it only reads.
"""

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

from peira.core.code.names import SELF, Chain, Names
from peira.core.code.node import Slot
from peira.core.code.origin import OWN, PYTHON, module_file, origin
from peira.core.code.source import methods_of

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


@dataclass(frozen=True, slots=True)
class Found:
    """A value, the slot it is kept in, and what remained of the dotted name when it was found."""

    value: object
    slot: Slot
    rest: Chain = ()


@dataclass(frozen=True, slots=True)
class Scope:
    """Where the outside names of a function or class are looked up."""

    cells: Mapping[str, types.CellType]
    names: Mapping[str, object]

    def find(self, chain: Chain) -> Found | None:
        """The value behind a dotted name, through the user's own modules; None for builtins and module facts.

        A name that is not there is found as MISSING.
        """
        found = self._first(chain[0], chain[1:])
        while found and found.rest and is_own_module(found.value):
            assert isinstance(found.value, types.ModuleType)
            found = _attribute(found.value, found.rest)
        return found

    def _first(self, name: str, rest: Chain) -> Found | None:
        if name in self.cells:
            cell = self.cells[name]
            return Found(cell_value(cell), (id(cell), ""), rest)
        if name in _MODULE_FACTS:
            return None
        if name in self.names:
            return Found(self.names[name], (id(self.names), name), rest)
        return None if hasattr(builtins, name) else Found(MISSING, (0, name), rest)

    def written(self, names: Names) -> Iterator[Slot]:
        """The slots that code with these names writes to: rebound names, and containers it fills."""
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
    """What an object keeps in itself but for cached properties, read without its own `__getattr__`."""
    mro = type.mro(type(value)) if not isinstance(value, type) else []
    names = [name for cls in mro for name in _declared(cls)]
    found = {name: object.__getattribute__(value, name) for name in names if _is_set(value, name)}
    found.update(getattr(value, "__dict__", {}))
    return {n: v for n, v in found.items() if not n.startswith("__") and not _is_cached(mro, n)}


def _declared(cls: type) -> Iterator[str]:
    slots = vars(cls).get("__slots__", ())
    yield from (slots,) if isinstance(slots, str) else slots
    fields = vars(cls).get("__struct_fields__", ())
    yield from fields if isinstance(fields, tuple) else ()  # msgspec.Struct itself has a descriptor there


def _is_set(value: object, name: str) -> bool:
    try:
        object.__getattribute__(value, name)
    except AttributeError:
        return False
    return True


def _is_cached(mro: list[type], name: str) -> bool:
    return any(isinstance(vars(cls).get(name), functools.cached_property) for cls in mro)


def scope_of_function(function: types.FunctionType) -> Scope:
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    return Scope(cells, function.__globals__)


def scope_of_class(cls: type) -> Scope:
    """The module of a class, and all that its methods close over."""
    scopes = [scope_of_function(method) for method in methods_of(cls)]
    cells = {name: cell for scope in scopes for name, cell in scope.cells.items()}
    module = sys.modules.get(cls.__module__)
    return Scope(cells, vars(module) if module else next((scope.names for scope in scopes), {}))


def names_of_code(code: types.CodeType) -> Names:
    """The names of compiled code, for want of source: no attributes, so modules it reads count whole."""
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
    return (
        isinstance(value, types.ModuleType)
        and origin(value.__name__, getattr(value, "__file__", None)) == OWN
    )


def class_file(cls: type) -> str | None:
    """The file a class is defined in: that of its methods, else that of its module."""
    files = (method.__code__.co_filename for method in methods_of(cls))
    return next((file for file in files if not file.startswith("<")), None) or module_file(cls.__module__)


def cell_value(cell: types.CellType) -> object:
    try:
        return cell.cell_contents
    except ValueError:  # the variable is not set yet
        return MISSING


def _attribute(module: types.ModuleType, rest: Chain) -> Found:
    value = vars(module).get(rest[0], MISSING)
    if value is MISSING:
        value = sys.modules.get(f"{module.__name__}.{rest[0]}", MISSING)
    return Found(value, (id(vars(module)), rest[0]), rest[1:])


def origin_of(value: object) -> str:
    """Whose the code of a function, class or module is; for any other object, whose its class is."""
    if isinstance(value, types.FunctionType):
        return origin(value.__globals__.get("__name__", ""), value.__code__.co_filename)
    if isinstance(value, types.ModuleType):
        return origin(value.__name__, getattr(value, "__file__", None))
    if isinstance(value, C_FUNCTIONS):
        return origin(module_of(value))
    cls = value if isinstance(value, type) else type(value)
    return PYTHON if cls.__module__ == "builtins" else origin(cls.__module__, class_file(cls))


def wrapped(value: object) -> object | None:
    """What a decorator wrapped, found without running an object's own `__getattr__`."""
    if isinstance(value, type) or inspect.getattr_static(value, "__wrapped__", None) is None:
        return None
    return typing.cast(object, value.__wrapped__)  # type: ignore[attr-defined]


def module_of(value: object) -> str:
    owner = getattr(value, "__objclass__", None)
    return getattr(owner or value, "__module__", None) or "builtins"
