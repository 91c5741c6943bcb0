"""`named://NAME`: stores that lie together in the folder that PEIRA_STORES names."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from peira.core.registry import Registry
from peira.errors import Invalid
from peira.stores.sqlite import SqliteScheme, SqliteStore

SCHEME = "named://"


class NamedStore(SqliteStore):
    """A store that is known by its name wherever the folder of stores lies."""

    @property
    def address(self) -> str:
        return f"{SCHEME}{self.path.stem}"


class NamedScheme:
    """How such stores are found and opened."""

    def exists(self, address: str) -> bool:
        return _path(address).exists()

    def owner(self, address: str) -> Mapping[str, int] | None:
        return SqliteScheme().owner(str(_path(address)))

    def own(self, address: str, wait: float | None, compression: str) -> NamedStore:
        return NamedStore(_path(address), wait=wait, compression=compression)

    def read(self, address: str) -> NamedStore:
        return NamedStore(_path(address), readonly=True)


def _path(address: str) -> Path:
    name, folder = address.removeprefix(SCHEME), os.environ.get("PEIRA_STORES")
    if not re.fullmatch(r"[\w-]+", name):
        raise Invalid(f"store {address}: a name has letters, digits, _ and - only")
    if folder is None:
        raise Invalid(f"store {address}: PEIRA_STORES does not say where stores are")
    return Path(folder).resolve() / f"{name}.db"


def register(registry: Registry) -> None:
    registry.add("store", "named", NamedScheme)
