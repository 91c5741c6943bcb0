"""The embedded SQLite store, which is the default."""

from peira.stores.sqlite.store import SqliteScheme, SqliteStore

__all__ = ["SqliteScheme", "SqliteStore"]
