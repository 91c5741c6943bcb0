"""Stores as earlier versions of peira wrote them: made from one of today, by the history of the schema."""

from __future__ import annotations

import json
from pathlib import Path

import apsw

from peira.stores.sqlite.schema import migrate

TABLES = ("meta", "run", "run_tag", "task", "call", "event", "blob")


def turn_back(path: Path, version: int) -> None:
    """Replace a closed store by one of this version of the schema with the same contents.

    Version 1 knew no tokens and no costs of calls: the store must have none.
    """
    draft = path.with_name(f"{path.name}.former")
    db = apsw.Connection(str(draft))
    migrate(db, version)
    db.execute("DELETE FROM meta")
    db.execute("ATTACH ? AS today", (str(path),))
    with db:
        for table in TABLES:
            today = _columns(db, "today", table)
            columns = ", ".join(name for name in _columns(db, "main", table) if name in today)
            db.execute(f"INSERT INTO main.{table}({columns}) SELECT {columns} FROM today.{table}")
        if version == 1:
            _put_models_into_rest(db)
    db.execute("DETACH today")
    db.close()
    draft.replace(path)


def _columns(db: apsw.Connection, schema: str, table: str) -> list[str]:
    return [name for (name,) in db.execute(f"SELECT name FROM pragma_table_info('{table}', '{schema}')")]


def _put_models_into_rest(db: apsw.Connection) -> None:
    rows = list(db.execute("SELECT key, model, rest FROM today.call WHERE rest IS NOT NULL"))
    for key, model, rest in rows:
        old = json.dumps([model, *json.loads(rest)[:3]]).encode()
        db.execute("UPDATE main.call SET rest = ? WHERE key = ?", (old, key))
