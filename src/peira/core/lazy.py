"""Lazy imports: names of a package whose module is imported when the name is first used."""

from __future__ import annotations

import builtins
import sys
from _thread import allocate_lock
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any

_importing = allocate_lock()
"""Held while `builtins.__import__` is replaced, so that each thread restores what it found."""


class _Placeholder:
    """Stands for a module whose import was recorded and not executed; every attribute is None."""

    def __getattr__(self, name: str) -> None:
        return None


_PLACEHOLDER = _Placeholder()


class LazyPackage(ModuleType):
    """A package that knows from which module each of its lazily imported names comes.

    `room_of` maps each name to the full name of its module, or to the package itself if the name is a
    submodule.
    """

    room_of: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        """Import the module of a lazy name and return the attribute, which is cached in the package."""
        modules = self.__dict__.get("room_of", {})
        if name not in modules:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        if modules[name] == self.__name__:
            return import_module(f"{self.__name__}.{name}")
        value = getattr(__import__(modules[name], fromlist=(name,)), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Set an attribute, except where importing a submodule would overwrite a lazy name.

        Importing a module binds its name in its package; a lazy name of the same spelling takes precedence.
        """
        declared = self.__dict__.get("room_of", {}).get(name, self.__name__)
        if declared == self.__name__ or not isinstance(value, ModuleType):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.room_of})


@contextmanager
def lazy_imports(package: str, *others: str) -> Iterator[list[str]]:
    """Make the `from module import name` statements in the with block lazy.

    Yields a list that holds their names after the block. `__all__` of the package becomes these names and the
    `others`, sorted. Raises ImportError for any other form of import statement.
    """
    module = sys.modules[package]
    modules: dict[str, str] = {}
    names: list[str] = []
    with _importing:
        builtins.__import__, before = (
            partial(_record_import, module, modules, builtins.__import__),
            builtins.__import__,
        )
        try:
            yield names
        finally:
            builtins.__import__ = before
    for name in modules:
        del module.__dict__[name]
    names.extend(modules)
    module.__dict__.update(room_of=modules, __all__=sorted({*modules, *others}))
    module.__class__ = LazyPackage


def _record_import(
    package: ModuleType,
    modules: dict[str, str],
    original: Callable[..., Any],
    name: str,
    globals: Mapping[str, object] | None = None,
    locals: Mapping[str, object] | None = None,
    fromlist: Sequence[str] | None = (),
    level: int = 0,
) -> Any:
    """Replacement of `__import__`: records imports of the package itself, executes those of all others."""
    if globals is not package.__dict__:
        return original(name, globals, locals, fromlist, level)
    if not fromlist or level:
        raise ImportError(f"{package.__name__}: a lazy import is written `from module import name`")
    modules.update(dict.fromkeys(fromlist, name))
    return _PLACEHOLDER


@cache
def late(package: str, maker: str) -> Callable[..., Any]:
    """A function that calls `maker` of the package, which is imported at the first call."""
    return partial(_make, package, maker)


def _make(package: str, maker: str, /, *args: Any, **options: Any) -> Any:
    """Import the package and call its `maker`."""
    return getattr(import_module(package), maker)(*args, **options)
