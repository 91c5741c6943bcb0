"""Values that cross between the process of generated code and the process of its tests; see `code_driver`.

Values of built-in types, and some of the library, cross as copies: `ValueEncoder`, `ValueDecoder`. Mutable
arguments keep their identity, and what the other process changes in them is changed here. Other objects stay
where they are, and are represented on the other side by a `Remote`, which forwards what is asked of it.

This is executed where peira is not; it imports only what every Python has loaded when it starts.
"""

from __future__ import annotations

import builtins
import operator
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from typing import Any

    from peira.evaluators.code_driver import PipeEnd

MOST = 256 << 20
"""The maximum length of a message."""
FRAMES = 20_000
"""Frames of the interpreter for encoding and decoding, beyond the usual limit."""

PLAIN = (bool, int, float, complex, str, bytes, bytearray, tuple, list, dict, set, frozenset, range, object)
IMMUTABLE = (int, float, complex, str, bytes, tuple, frozenset)
CONTAINERS: dict[type, bytes] = {list: b"l", set: b"e", dict: b"d"}
LIBRARY = {
    ("collections", "Counter"): b"C",
    ("collections", "OrderedDict"): b"O",
    ("collections", "defaultdict"): b"D",
    ("collections", "deque"): b"q",
}
KINDS = {letter: kind for kind, letter in LIBRARY.items()}
VALUES: dict[tuple[str, str], Callable[[Any], tuple[Any, ...]]] = {
    ("decimal", "Decimal"): lambda value: (str(value),),
    ("fractions", "Fraction"): lambda value: (value.numerator, value.denominator),
    ("datetime", "timedelta"): lambda value: (value.days, value.seconds, value.microseconds),
    ("datetime", "date"): lambda value: (value.year, value.month, value.day),
    ("datetime", "time"): lambda value: (value.hour, value.minute, value.second, value.microsecond),
    ("datetime", "datetime"): lambda value: (
        *(value.year, value.month, value.day),
        *(value.hour, value.minute, value.second, value.microsecond),
    ),
}
"""Types of the library that cross by value, and the arguments that make them again."""
SINGLE: dict[type, tuple[bytes, ...]] = {
    bool: (b"F", b"T"),
    type(None): (b"N",),
    type(Ellipsis): (b".",),
    type(NotImplemented): (b"!",),
}
CONSTANTS = {b"N": None, b"T": True, b"F": False, b".": Ellipsis, b"!": NotImplemented}


class Oversized(Exception):
    """The encoded value is longer than allowed."""


CLOSED = (
    *("function", "builtin_function_or_method", "method", "module", "frame", "generator", "coroutine"),
    *("async_generator", "code", "traceback", "type", "method-wrapper", "cell"),
)
"""Types of the tests' objects whose attributes lead to the tests themselves."""


def harmless(value: Any) -> bool:
    """Whether a built-in is a type of plain values, or of exceptions."""
    return isinstance(value, type) and (value in PLAIN or issubclass(value, BaseException))


class Opaque:
    """Encoded as a reference to an object, whatever it is."""

    def __init__(self, value: Any) -> None:
        self.value = value


class Remote:
    """An object of the other process. Operators work among the objects of that process only."""

    __slots__ = ("__weakref__", "_number", "_side")
    _side: PipeEnd
    _number: int

    def __init__(self, side: PipeEnd, number: int) -> None:
        object.__setattr__(self, "_side", side)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        return self._side.request("get", self, name)

    def __setattr__(self, name: str, value: object) -> None:
        self._side.request("set", self, name, value)

    def __delattr__(self, name: str) -> None:
        self._side.request("del", self, name)

    def __instancecheck__(self, value: object) -> bool:
        return self._side.request("isinstance", value, self) is True

    def __subclasscheck__(self, value: object) -> bool:
        return self._side.request("issubclass", value, self) is True

    def __hash__(self) -> int:
        # The candidate does not ask the tests: it may ask only while they wait for it.
        return int(self._side.request("hash", self)) if self._side.guarded else self._number


class RemoteFunction(Remote):
    """A callable object of the other process."""

    __slots__ = ()

    def __call__(self, *args: Any, **named: Any) -> Any:
        return self._side.request("call", self, *args, **named)

    def __get__(self, instance: object, owner: type | None = None) -> Any:
        return self if instance is None else lambda *args, **named: self(instance, *args, **named)


def _asked(name: str) -> Callable[..., Any]:
    """A special method that is forwarded: what it is given is no expectation."""

    def method(self: Remote, *args: Any) -> Any:
        return self._side.request(name, self, *args)

    return method


def _combined(name: str) -> Callable[..., Any]:
    """An operator that is forwarded for two objects of the other process; for one and a value of the tests
    it is applied to the value that the object extends (a subclass of list), or not at all."""

    def method(self: Remote, other: object) -> Any:
        if name == "eq" and self is other:
            return True
        if isinstance(other, Remote) or not self._side.guarded:
            return self._side.request(name, self, other)
        own = self._side.request("value", self)
        return NotImplemented if isinstance(own, Remote) else OPERATIONS[name](own, other)

    return method


def _iterated(self: Remote) -> Iterator[Any]:
    """Items one by one; whether a value is among them is decided here."""
    every = self._side.request("iter", self)
    while True:
        try:
            item = self._side.request("next", every)
        except StopIteration:
            return
        yield item


def _awaited(value: Any) -> Any:
    """Run a coroutine to its end."""
    import asyncio  # only a candidate with coroutines needs it

    async def wait() -> Any:
        return await value

    return asyncio.run(wait())


def _base(value: Any) -> Any:
    """The built-in value that an object extends or is; itself if there is none."""
    kinds: tuple[Any, ...] = (list, dict, set, bytearray, *IMMUTABLE)
    kind = next((kind for kind in kinds if isinstance(value, kind)), None)
    return value if kind is None or kind is type(value) else kind(value)


FUNCTIONS = (
    *("iter", "next", "len", "bool", "str", "repr", "hash", "format", "int", "float", "complex", "round"),
    *("reversed", "dir", "isinstance", "issubclass"),
)
ITEMS = ("abs", "neg", "pos", "invert", "index", "getitem", "setitem", "delitem")
COMBINATIONS = (
    *("eq", "ne", "lt", "le", "gt", "ge", "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul"),
    *("and", "or", "xor", "lshift", "rshift"),
)
OPERATIONS: dict[str, Callable[..., Any]] = {
    "get": getattr,
    "set": setattr,
    "del": delattr,
    "call": lambda what, *args, **named: what(*args, **named),
    "enter": lambda what: what.__enter__(),
    "exit": lambda what, *about: what.__exit__(*about),
    "value": _base,
    "await": _awaited,
    **{name: getattr(builtins, name) for name in FUNCTIONS},
    **{name: getattr(operator, f"__{name}__") for name in (*ITEMS, *COMBINATIONS)},
}
"""What one process may ask of an object of the other."""

for _name in {*FUNCTIONS, *ITEMS, "enter"} - {"iter", "hash", "isinstance", "issubclass"}:
    setattr(Remote, f"__{_name}__", _asked(_name))
for _name in COMBINATIONS:
    setattr(Remote, f"__{_name}__", _combined(_name))
for _kind in (Remote, RemoteFunction):
    _kind.__doc__ = property(lambda self: self._side.request("get", self, "__doc__"))  # type: ignore[assignment]
Remote.__iter__ = _iterated  # type: ignore[attr-defined]
Remote.__exit__ = lambda self, kind, *_: self._side.request("exit", self, kind, None, None)  # type: ignore[attr-defined]


def _extension(base: type) -> type:
    """A built-in value whose further attributes are in the other process: a named tuple, an enumeration."""

    def further(self: Any, name: str) -> Any:
        if name in ("_side", "_number"):
            raise AttributeError(name)
        return self._side.request("get", self, name)

    return type(base.__name__, (base,), {"__getattr__": further})


EXTENSIONS = {base.__name__: _extension(base) for base in IMMUTABLE}


def deeply(function: Callable[..., Any], *args: Any) -> Any:
    """Call it with room for values that are nested deeply: they take several frames for each level."""
    limit = sys.getrecursionlimit()
    sys.setrecursionlimit(limit + FRAMES)
    try:
        return function(*args)
    finally:
        sys.setrecursionlimit(limit)


class ValueEncoder:
    """Encodes one message. `containers` are the mutable ones in it, in order: they keep their identity."""

    def __init__(self, side: PipeEnd, containers: Sequence[Any] = (), most: int = MOST) -> None:
        self._side, self._most, self._parts, self._size = side, most, list[bytes](), 0
        self.containers = list(containers)
        self._numbers = {id(one): number for number, one in enumerate(self.containers)}

    def encoded(self, value: Any) -> bytes:
        """The message; Oversized or RecursionError if it is too long, or nested too deeply."""
        deeply(self.put, value)
        return b"".join(self._parts)

    def _add(self, part: bytes) -> None:
        self._parts.append(part)
        self._size += len(part)
        if self._size > self._most:
            raise Oversized

    def put(self, value: Any) -> None:
        kind = type(value)
        if kind in IMMUTABLE:
            self._put_plain(value, kind)
        elif kind in CONTAINERS or kind is bytearray or (kind.__module__, kind.__name__) in LIBRARY:
            self._put_container(value, kind)
        elif kind in SINGLE:
            self._add(SINGLE[kind][bool(value)] if kind is bool else SINGLE[kind][0])
        else:
            self._put_other(value, kind)

    def _put_plain(self, value: Any, kind: type) -> None:
        """A value as one of an immutable built-in type, by that type's own methods."""
        if kind is int:
            self._add(b"i%x;" % int.__index__(value))
        elif kind is float:
            self._add(b"f%s;" % float.hex(value).encode())
        elif kind is complex:
            self._add(b"c")
            self._put_plain(value.real, float)
            self._put_plain(value.imag, float)
        elif kind is str:
            self._put_bytes(b"s", str.encode(value, "utf-8", "surrogatepass"))
        elif kind is bytes:
            self._put_bytes(b"b", bytes(memoryview(value)))
        else:
            self._put_items(b"t" if kind is tuple else b"z", list(kind.__iter__(value)))  # type: ignore[attr-defined]

    def _put_bytes(self, letter: bytes, data: bytes) -> None:
        self._add(b"%s%x;" % (letter, len(data)))
        self._add(data)

    def _put_items(self, letter: bytes, items: Sequence[Any]) -> None:
        self._add(b"%s%x;" % (letter, len(items)))
        for item in items:
            self.put(item)

    def _put_container(self, value: Any, kind: type) -> None:
        if id(value) in self._numbers:
            return self._add(b"@%x;" % self._numbers[id(value)])
        self._numbers[id(value)] = len(self.containers)
        self.containers.append(value)
        if kind is bytearray:
            return self._put_bytes(b"y", bytes(value))
        letter = CONTAINERS.get(kind) or LIBRARY[kind.__module__, kind.__name__]
        items = content(value)
        if letter in b"qD":
            items = (value.maxlen if letter == b"q" else value.default_factory, *items)
        return self._put_items(letter, items)

    def _put_other(self, value: Any, kind: type) -> None:
        name = (kind.__module__, kind.__name__)
        number = self._side.owned_elsewhere(value)
        if number is not None:
            self._add(b"Y%x;" % number)
        elif kind is range or kind is slice:
            self._put_items(b"r" if kind is range else b"/", (value.start, value.stop, value.step))
        elif isinstance(value, type | type(len)) and self._side.shares(value):
            self._put_bytes(b"B", value.__name__.encode())
        elif isinstance(value, type) and issubclass(value, BaseException):
            self._add(b"E%x;" % self._side.number(value))
            self._put_bytes(b"s", value.__name__.encode())
            self._put_items(b"t", [base for base in value.__bases__ if issubclass(base, BaseException)])
        elif name in VALUES and getattr(value, "tzinfo", None) is None:
            self._add(b"V")
            self.put((*name, *VALUES[name](value)))
        else:
            self._put_reference(value, kind)

    def _put_reference(self, value: Any, kind: type) -> None:
        """An object that stays here; with its value, if it extends an immutable one."""
        if isinstance(value, Opaque):
            return self._add(b"h%x;" % self._side.number(value.value))
        base = next((base for base in IMMUTABLE if isinstance(value, base)), None)
        number = self._side.number(value)
        if base is not None:
            self._add(b"U%x;" % number)
            self._put_bytes(b"s", base.__name__.encode())
            self._put_plain(value, base)
        elif kind.__name__ == "coroutine":
            self._add(b"A%x;" % number)
        else:
            self._add(b"H%x;" % number if callable(value) else b"h%x;" % number)
        return None


class ValueDecoder:
    """Decodes one message, into new values of exact built-in types and representatives of other objects."""

    def __init__(self, side: PipeEnd, data: bytes, containers: Sequence[Any] = ()) -> None:
        self._side, self._data, self._at = side, data, 0
        self.containers = list(containers)

    def value(self) -> Any:
        letter = self._data[self._at : self._at + 1]
        self._at += 1
        if letter in CONSTANTS:
            return CONSTANTS[letter]
        if letter == b"f":
            return float.fromhex(self._word().decode())
        if letter == b"c":
            return complex(self.value(), self.value())
        if letter == b"V":
            return self._library()
        return self._counted(letter, int(self._word(), 16))

    def _word(self) -> bytes:
        end = self._data.index(b";", self._at)
        found, self._at = self._data[self._at : end], end + 1
        return found

    def _raw(self, length: int) -> bytes:
        if not 0 <= length <= len(self._data) - self._at:
            raise ValueError(length)
        found, self._at = self._data[self._at : self._at + length], self._at + length
        return found

    def _items(self, length: int) -> list[Any]:
        if not 0 <= length <= len(self._data) - self._at:
            raise ValueError(length)
        return [self.value() for _ in range(length)]

    def _counted(self, letter: bytes, count: int) -> Any:
        if letter == b"i":
            return count
        if letter == b"s":
            return self._raw(count).decode("utf-8", "surrogatepass")
        if letter == b"b":
            return self._raw(count)
        if letter == b"t":
            return tuple(self._items(count))
        if letter == b"z":
            return frozenset(self._items(count))
        if letter == b"@":
            return self.containers[count]
        if letter == b"r":
            return range(*self._items(count))
        if letter == b"/":
            return slice(*self._items(count))
        if letter == b"B":
            return self._side.builtin(self._raw(count).decode())
        if letter == b"Y":
            return self._side.exported[count]
        if letter in b"HhAEU":
            return self._represented(letter, count)
        return self._container(letter, count)

    def _container(self, letter: bytes, count: int) -> Any:
        found: Any = {b"l": list, b"e": set, b"d": dict, b"y": bytearray}.get(letter)
        if found is None:
            module, name = KINDS[letter]
            found = getattr(__import__(module), name)
        place = len(self.containers)
        self.containers.append(None)
        extra = () if letter not in b"qD" else (self.value(),) if letter == b"D" else ((), self.value())
        self.containers[place] = made = found(*extra)
        restore(made, self._raw(count) if letter == b"y" else self._items(count - bool(extra)))
        return made

    def _library(self) -> Any:
        module, name, *args = self.value()
        if (module, name) not in VALUES:
            raise ValueError(name)
        return getattr(__import__(module), name)(*args)

    def _represented(self, letter: bytes, number: int) -> Any:
        if letter == b"E":
            name, bases = self.value(), self.value()
            return self._side.represented(number, lambda: _error_type(self._side, number, name, bases))
        if letter == b"U":
            base, plain = self.value(), self.value()
            return self._side.represented(number, lambda: _extended(self._side, number, base, plain))
        if letter == b"A":
            return self._side.represented(number, lambda: _coroutine(Remote(self._side, number)))
        kind = RemoteFunction if letter == b"H" else Remote
        return self._side.represented(number, lambda: kind(self._side, number))


async def _coroutine(represented: Remote) -> Any:
    return represented._side.request("await", represented)


def _extended(side: PipeEnd, number: int, base: str, plain: Any) -> Any:
    made = EXTENSIONS[base](plain)
    made._side, made._number = side, number
    return made


def _error_type(side: PipeEnd, number: int, name: str, bases: tuple[type, ...]) -> type:
    """A type that stands for an exception type of the other process, so that tests can catch it."""

    def further(self: Any, name: str) -> Any:
        if name.startswith("_peira"):
            raise AttributeError(name)
        return getattr(self._peira_object, name)

    def text(self: Any) -> str:
        return str(self._peira_text)

    body = {"_side": side, "_number": number, "__getattr__": further, "__str__": text}
    if not all(issubclass(base, BaseException) for base in bases):
        raise ValueError(name)
    try:
        return type(name, bases, dict(body))
    except TypeError:
        return type(name, bases[:1], dict(body))


def content(container: Any) -> tuple[Any, ...]:
    """The items of a container; of a mapping, keys and values in turn."""
    if isinstance(container, dict):
        return tuple(item for pair in container.items() for item in pair)
    return tuple(container)


def restore(container: Any, items: Sequence[Any]) -> None:
    """Give a container these items."""
    if isinstance(container, list | bytearray):
        container[:] = items
        return
    container.clear()
    if isinstance(container, dict):
        for key, value in zip(items[::2], items[1::2], strict=True):
            container[key] = value
    elif isinstance(container, set):
        container.update(items)
    else:
        container.extend(items)
