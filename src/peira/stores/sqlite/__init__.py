"""The embedded SQLite store, which is the default; one that is only read needs no writer."""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.stores.sqlite.store import SqliteScheme as SqliteScheme
    from peira.stores.sqlite.store import SqliteStore as SqliteStore
    from peira.stores.sqlite.writer import Writer as Writer
