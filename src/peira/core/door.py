"""Packages whose rooms open when something of them is first asked for: what is not used costs no time."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from functools import cache, partial
from importlib import import_module
from types import ModuleType
from typing import Any


class Door(ModuleType):
    """A package that knows in which of its rooms each of its names is."""

    room_of: dict[str, str]

    def __getattr__(self, name: str) -> Any:
        rooms = self.__dict__.get("room_of", {})
        if name not in rooms:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        value = getattr(import_module(rooms[name]), name)
        self.__dict__[name] = value
        return value

    def __setattr__(self, name: str, value: object) -> None:
        """Importing a room binds its name here; where something within bears that name, it is that."""
        if not (name in self.__dict__.get("room_of", {}) and isinstance(value, ModuleType)):
            super().__setattr__(name, value)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self.room_of})


def open_late(package: str, rooms: Mapping[str, tuple[str, ...]]) -> None:
    """Let the package (by name, while it is imported) have these names, each from its room."""
    module = sys.modules[package]
    module.__dict__["room_of"] = {name: room for room, names in rooms.items() for name in names}
    module.__class__ = Door


@cache
def late(package: str, maker: str) -> Callable[..., Any]:
    """What makes the same as `maker` of the package, its room being opened when something is first made."""
    return partial(_make, package, maker)


def _make(package: str, maker: str, /, *args: Any, **options: Any) -> Any:
    return getattr(import_module(package), maker)(*args, **options)
