"""SQLite, embedded: the store that a laptop starts with."""

from peira.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
