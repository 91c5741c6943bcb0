"""The built-in stores; the module of each is imported when the first store of its kind is opened."""

from __future__ import annotations

from peira.core.lazy import late
from peira.core.registry import Registry


def register(registry: Registry) -> None:
    """Register the built-in stores by their schemes, as any plug-in would."""
    registry.add("store", "sqlite", late("peira.stores.sqlite", "SqliteScheme"))
    registry.add("store", "postgresql", late("peira.stores.postgres", "postgres_scheme"))
