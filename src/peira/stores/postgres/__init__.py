"""The Postgres store (postgresql://...), for runs that several machines look at or take part in."""

from __future__ import annotations

import importlib.util

from peira.core.contracts import StoreScheme
from peira.core.lazy import late
from peira.errors import Invalid

_scheme = late("peira.stores.postgres.scheme", "PostgresScheme")


def postgres_scheme() -> StoreScheme:
    """How such stores are opened; Invalid if psycopg is not installed."""
    if importlib.util.find_spec("psycopg") is None:
        raise Invalid(
            "store postgresql://...: needs psycopg, which is not installed: pip install 'peira[postgres]'"
        )
    scheme: StoreScheme = _scheme()
    return scheme
