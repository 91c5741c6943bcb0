"""The built-in stores; the module of each is imported when the first store of its kind is opened.

What is seldom done with a store is imported when it is done.
"""

from __future__ import annotations

from peira.core.lazy import late, lazy_imports
from peira.core.registry import Registry

with lazy_imports(__name__, "register"):
    from peira.stores import merge as merge
    from peira.stores import retention as retention
    from peira.stores import verify as verify


def register(registry: Registry) -> None:
    """Register the built-in stores by their schemes, as any plug-in would."""
    registry.add("store", "sqlite", late("peira.stores.sqlite", "SqliteScheme"))
    registry.add("store", "postgresql", late("peira.stores.postgres", "postgres_scheme"))
