"""Replacing the tables of a store by those of a draft, a second schema, in one transaction."""

from __future__ import annotations

from collections.abc import Collection

from psycopg import sql

from peira.stores.postgres.connection import Connection
from peira.stores.postgres.roles import copy_grants

SHARED = "shared IN (SELECT n FROM {draft}.shared_run)"
BESIDE = {
    "store": "true",
    "member": "true",
    "command": "true",
    "shared_run": "id IN (SELECT id FROM {draft}.run)",
    "leased_range": SHARED,
    "pool": SHARED,
    "pool_share": SHARED,
    "model_limit": "true",
}
"""The tables that do not follow from the history, in an order in which they can be filled, and which of their
rows are kept."""
NUMBERED = ("command", "shared_run")
"""Those of them whose rows the server numbers."""


def replace_tables(db: Connection, name: str, draft: str) -> None:
    """Let the schema `draft` take the place of the schema `name`, with what does not follow from the history:
    who uses the store, and which runs wait for workers, with their ranges and budgets."""
    schemas = {"draft": sql.Identifier(draft), "store": sql.Identifier(name)}
    with db.transaction():
        for table, kept in BESIDE.items():
            copied = (
                f"DELETE FROM {{draft}}.{table}; INSERT INTO {{draft}}.{table} OVERRIDING SYSTEM VALUE "
                f"SELECT * FROM {{store}}.{table} WHERE {kept}"
            )
            db.execute(sql.SQL(copied).format(**schemas))
        for table in NUMBERED:
            sequence = sql.SQL("{}.{}").format(schemas["draft"], sql.Identifier(table)).as_string(db)
            db.execute(
                sql.SQL(
                    "SELECT setval(pg_get_serial_sequence(%s, 'n'), "
                    f"(SELECT coalesce(max(n), 0) + 1 FROM {{draft}}.{table}), false)"
                ).format(**schemas),
                (sequence,),
            )
        copy_grants(db, name, draft)
        db.execute(sql.SQL("DROP SCHEMA {store} CASCADE").format(**schemas))
        db.execute(sql.SQL("ALTER SCHEMA {draft} RENAME TO {store}").format(**schemas))


def drop_schema(db: Connection, name: str) -> None:
    """Delete a schema, if there is one."""
    db.execute(sql.SQL("DROP SCHEMA IF EXISTS {} CASCADE").format(sql.Identifier(name)))


def copy_blobs(db: Connection, draft: str, digests: Collection[str]) -> None:
    """Copy those of these blobs that the store has to a draft."""
    copy = "INSERT INTO {}.blob SELECT * FROM blob WHERE digest = ANY(%s) ON CONFLICT DO NOTHING"
    keys = [bytes.fromhex(digest) for digest in digests]
    db.execute(sql.SQL(copy).format(sql.Identifier(draft)), (keys,))
