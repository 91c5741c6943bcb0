"""Roles of the database for those who use a store: workers, and readers.

A worker may do what a run needs and no more: it adds events and blobs, and cannot change or delete one; it
deletes nothing but commands, and makes no tables. A reader changes nothing. Each is a role without a login,
named after the store's schema, which is granted to the logins of people and machines.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import psycopg
from psycopg import sql

from peira.errors import Invalid
from peira.stores.postgres.address import LONGEST
from peira.stores.postgres.connection import Connection

WORKER = {
    "store": "",
    "member": "INSERT, UPDATE",
    "command": "INSERT, DELETE",
    "run": "INSERT, UPDATE",
    "run_tag": "INSERT",
    "head": "INSERT, UPDATE",
    "task": "INSERT, UPDATE",
    "call": "INSERT, UPDATE",
    "event": "INSERT",
    "blob": "INSERT",
    "shared_run": "INSERT, UPDATE",
    "leased_range": "INSERT, UPDATE",
    "pool": "INSERT, UPDATE",
    "pool_share": "INSERT, UPDATE",
    "model_limit": "INSERT, UPDATE",
    "model_slot": "INSERT, UPDATE",
    "duty": "INSERT, UPDATE",
}
"""What a worker may do with each table, beyond reading it."""


@dataclass(frozen=True)
class StoreRoles:
    """The names of a store's roles."""

    worker: str
    reader: str

    @classmethod
    def of(cls, schema: str) -> StoreRoles:
        """Those of the store in this schema."""
        return cls(f"{schema}_worker", f"{schema}_reader")


def set_up(db: Connection, name: str, workers: Sequence[str], readers: Sequence[str]) -> StoreRoles:
    """Create the roles of the store in this schema, or renew their rights, and grant them to these logins.

    All or nothing; Invalid if this login may not do it, or a login does not exist.
    """
    roles = StoreRoles.of(name)
    problems = [
        f"the database has no role {login!r}: create it first"
        for login in dict.fromkeys((*workers, *readers))
        if not _exists(db, login)
    ]
    if len(roles.worker.encode()) > LONGEST:
        problems.append(f"schema {name!r}: its name is too long for roles that are named after it")
    owner = "SELECT pg_has_role(nspowner, 'USAGE') FROM pg_namespace WHERE nspname = %s"
    if not (row := db.execute(owner, (name,)).fetchone()) or not row[0]:
        problems.append(f"this login may not set up roles: it does not own the store in schema {name!r}")
    if problems:
        raise Invalid(problems)
    try:
        with db.transaction():
            for role in (roles.worker, roles.reader):
                if not _exists(db, role):
                    db.execute(sql.SQL("CREATE ROLE {} NOLOGIN").format(sql.Identifier(role)))
            grant(db, name)
            for role, logins in ((roles.worker, workers), (roles.reader, readers)):
                for login in logins:
                    member = sql.SQL("GRANT {} TO {}")
                    db.execute(member.format(sql.Identifier(role), sql.Identifier(login)))
    except psycopg.errors.InsufficientPrivilege as problem:
        raise Invalid(
            f"this login may not set up roles ({problem.diag.message_primary}): use one that may create them"
        ) from None
    return roles


def grant(db: Connection, name: str) -> None:
    """Give the roles of the store in this schema their rights on all of its tables, if there are such."""
    roles = StoreRoles.of(name)
    if not _exists(db, roles.worker) or not _exists(db, roles.reader):
        return
    tables = [row[0] for row in db.execute("SELECT tablename FROM pg_tables WHERE schemaname = %s", (name,))]
    within = sql.Identifier(name)
    worker, reader = sql.Identifier(roles.worker), sql.Identifier(roles.reader)
    for role in (worker, reader):
        db.execute(sql.SQL("GRANT USAGE ON SCHEMA {} TO {}").format(within, role))
        db.execute(sql.SQL("REVOKE ALL ON ALL TABLES IN SCHEMA {} FROM {}").format(within, role))
        db.execute(sql.SQL("GRANT SELECT ON ALL TABLES IN SCHEMA {} TO {}").format(within, role))
    for table, rights in WORKER.items():
        if rights and table in tables:
            give = sql.SQL(f"GRANT {rights} ON {{}}.{{}} TO {{}}")
            db.execute(give.format(within, sql.Identifier(table), worker))
    db.execute(sql.SQL("GRANT USAGE ON ALL SEQUENCES IN SCHEMA {} TO {}").format(within, worker))


def copy_grants(db: Connection, source: str, target: str) -> None:
    """Give everybody the rights on one schema's tables that they have on another's."""
    rows = db.execute(
        "SELECT 'SCHEMA', NULL, a.* FROM pg_namespace n, aclexplode(n.nspacl) a WHERE nspname = %(schema)s "
        "UNION ALL SELECT CASE relkind WHEN 'S' THEN 'SEQUENCE' ELSE 'TABLE' END, relname, a.* "
        "FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace, aclexplode(c.relacl) a "
        "WHERE nspname = %(schema)s AND relkind IN ('r', 'p', 'S', 'v')",
        {"schema": source},
    ).fetchall()
    for kind, name, _, grantee, right, grantable in rows:
        of = [sql.Identifier(target)] if name is None else [sql.Identifier(target, name)]
        row = db.execute("SELECT rolname FROM pg_roles WHERE oid = %s", (grantee,)).fetchone()
        db.execute(
            sql.SQL(
                f"GRANT {right} ON {kind} {{}} TO {{}} {'WITH GRANT OPTION' if grantable else ''}"
            ).format(*of, sql.Identifier(row[0]) if row else sql.SQL("PUBLIC"))
        )


def _exists(db: Connection, role: str) -> bool:
    return db.execute("SELECT 1 FROM pg_roles WHERE rolname = %s", (role,)).fetchone() is not None
