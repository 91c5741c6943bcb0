"""The tables, as a list of named migrations: append only, so every store ever written still opens."""

from __future__ import annotations

from collections.abc import Callable

import apsw

from peira.errors import StoreDamaged


def first_tables(db: apsw.Connection) -> None:
    db.execute(
        """
        CREATE TABLE meta (
            key   TEXT PRIMARY KEY,
            value                         -- incarnation: raised by every owner
        ) WITHOUT ROWID;

        CREATE TABLE run (
            n           INTEGER PRIMARY KEY,
            id          TEXT NOT NULL UNIQUE,
            manifest    TEXT NOT NULL,    -- the blob that holds the plan
            study       TEXT NOT NULL,
            trials      INTEGER NOT NULL,
            status      TEXT NOT NULL,
            planned     REAL NOT NULL,
            next_seq    INTEGER NOT NULL, -- event numbers come from here, in commit order
            owner       TEXT NOT NULL,
            incarnation INTEGER NOT NULL,
            rest        BLOB NOT NULL     -- tags, provenance, times, counts, reason
        );
        CREATE INDEX run_study ON run(study, n);
        CREATE INDEX run_status ON run(status, n);
        CREATE TABLE run_tag (tag TEXT NOT NULL, run INTEGER NOT NULL, PRIMARY KEY (tag, run)) WITHOUT ROWID;

        CREATE TABLE task (
            n             INTEGER PRIMARY KEY,
            id            BLOB NOT NULL UNIQUE, -- a SHA-256
            kind          TEXT NOT NULL,
            class         TEXT NOT NULL,
            state         INTEGER NOT NULL,     -- index into STATES
            epoch         INTEGER NOT NULL,     -- the fencing token
            owner         TEXT,
            attempts      INTEGER NOT NULL,
            interruptions INTEGER,
            priority      INTEGER,
            not_before    REAL,
            run           INTEGER NOT NULL,     -- the run that changed it last
            reused_from   BLOB,
            rest          BLOB,                 -- reuse_key, scope, parent, needs, payload
            result        BLOB
        );
        CREATE INDEX task_queued ON task(class, priority DESC, n) WHERE state = 0;
        CREATE INDEX task_active ON task(n) WHERE state BETWEEN 1 AND 4;
        CREATE INDEX task_reused ON task(reused_from) WHERE reused_from IS NOT NULL;

        CREATE TABLE call (
            key   BLOB PRIMARY KEY,
            task  BLOB NOT NULL,
            name  TEXT NOT NULL,
            state TEXT NOT NULL,
            value BLOB,
            blob  TEXT
        ) WITHOUT ROWID;

        CREATE TABLE event (
            n    INTEGER PRIMARY KEY,     -- the order of commits, over all runs
            run  INTEGER NOT NULL,
            seq  INTEGER NOT NULL,
            at   REAL NOT NULL,
            body BLOB NOT NULL,
            UNIQUE (run, seq)
        );

        CREATE TABLE blob (
            digest BLOB PRIMARY KEY,
            codec  TEXT NOT NULL,
            data   BLOB                   -- NULL: in a file of the blob folder
        ) WITHOUT ROWID;

        INSERT INTO meta VALUES ('incarnation', 0);
        """
    )


MIGRATIONS: tuple[Callable[[apsw.Connection], None], ...] = (first_tables,)


def migrate(db: apsw.Connection) -> None:
    """Bring the tables up to date, each step in a transaction of its own."""
    for number in range(check(db), len(MIGRATIONS)):
        with db:
            MIGRATIONS[number](db)
            db.execute(f"PRAGMA user_version = {number + 1}")


def check(db: apsw.Connection) -> int:
    """The store's schema version; refuses one from a newer peira."""
    version = int(db.execute("PRAGMA user_version").get)
    if version > len(MIGRATIONS):
        raise StoreDamaged(
            f"this store has schema {version}; this peira knows up to {len(MIGRATIONS)}: upgrade it"
        )
    return version
