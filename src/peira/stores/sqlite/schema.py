"""The tables, as a list of named migrations: append only, so that every store can be opened."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import apsw

from peira.core.codec import decode_event
from peira.core.log.state import touched
from peira.errors import StoreDamaged
from peira.stores.event_ranges import EventRange, extended, text
from peira.stores.rows import SEQ_BITS, place
from peira.stores.sqlite import views

FIRST_TABLES = """
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
CREATE INDEX run_planned ON run(planned);
CREATE INDEX run_study ON run(study, planned);
CREATE INDEX run_status ON run(status, planned);
CREATE INDEX run_study_status ON run(study, status, planned);
CREATE TABLE run_tag (
    tag TEXT NOT NULL,
    at  REAL NOT NULL,            -- when the run was planned: listings are in this order
    run INTEGER NOT NULL,
    PRIMARY KEY (tag, at, run)
) WITHOUT ROWID;

CREATE TABLE task (
    n             INTEGER PRIMARY KEY,
    id            BLOB NOT NULL,        -- a SHA-256; found by its first 8 bytes, see below
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
    rest          BLOB,                 -- reuse_key, scope, parent, needs, payload, lent
    result        BLOB
);
-- A third of the size of an index on the whole id, and so a third of the pages that each commit of
-- random ids has to write. Readers compare the whole id.
CREATE INDEX task_id ON task(substr(id, 1, 8));
CREATE INDEX task_queued ON task(class, priority DESC, n) WHERE state = 0;
CREATE INDEX task_active ON task(n) WHERE state BETWEEN 1 AND 4;
CREATE INDEX task_reused ON task(reused_from) WHERE reused_from IS NOT NULL;

CREATE TABLE call (
    key   BLOB PRIMARY KEY,
    task  BLOB NOT NULL,
    name  TEXT NOT NULL,
    state TEXT NOT NULL,
    value BLOB,
    blob  TEXT,
    rest  BLOB                    -- of a call: model, request, sends, why
) WITHOUT ROWID;

CREATE TABLE event (
    place INTEGER PRIMARY KEY,    -- run.n << 40 | seq: one tree serves for both
    n     INTEGER NOT NULL,       -- the order of commits, over all runs
    at    REAL NOT NULL,
    body  BLOB NOT NULL
);

CREATE TABLE blob (
    digest BLOB PRIMARY KEY,
    codec  TEXT NOT NULL,
    data   BLOB                   -- NULL: in a file of the blob folder
) WITHOUT ROWID;

INSERT INTO meta VALUES ('incarnation', 0);
"""
"""Create the tables of version 1."""


def calls_can_be_listed(db: apsw.Connection) -> None:
    """Move the fields that calls are listed by into columns, with a covering index."""
    db.execute(
        """
        ALTER TABLE call ADD COLUMN asked INTEGER;  -- of a call: the place of the event that asked it last
        ALTER TABLE call ADD COLUMN model TEXT;     -- no longer in rest: request, sends, why, served
        ALTER TABLE call ADD COLUMN input INTEGER;
        ALTER TABLE call ADD COLUMN output INTEGER;
        ALTER TABLE call ADD COLUMN cost REAL;
        """
    )
    rows: list[Any] = db.execute("SELECT key, rest FROM call WHERE rest IS NOT NULL").fetchall()
    asked = _asked(db) if rows else {}
    for key, rest in rows:
        model, request, sends, why, *_ = json.loads(rest)
        db.execute(
            "UPDATE call SET rest=?, asked=?, model=?, input=-1, output=-1, cost=-1 WHERE key=?",
            (json.dumps([request, sends, why]).encode(), asked[key], model, key),
        )
    # A covering index for listings and totals: of the calls only those that are shown are read. Keys ascend,
    # so the index grows at its end, and costs a commit almost nothing.
    db.execute(
        """
        CREATE INDEX call_asked ON call(asked, state, model, task, input, output, cost)
        WHERE asked IS NOT NULL
        """
    )


def _asked(db: apsw.Connection) -> dict[bytes, int]:
    """The place of the last request of each call."""
    rows = db.execute("SELECT place, body FROM event WHERE instr(body, 'call.intended') ORDER BY place")
    events = ((place, json.loads(body)) for place, body in rows)
    return {bytes.fromhex(event["key"]): at for at, event in events if event["kind"] == "call.intended"}


CALLS_IN_ORDER = """
DROP INDEX call_asked;
ALTER TABLE call RENAME TO call_by_key;
CREATE TABLE call (
    n      INTEGER PRIMARY KEY,   -- in the order they were asked: the next answers are near
    key    BLOB NOT NULL,         -- a SHA-256; found by its first 8 bytes, like a task's id
    task   BLOB NOT NULL,
    name   TEXT NOT NULL,
    state  TEXT NOT NULL,
    value  BLOB,
    blob   TEXT,
    rest   BLOB,                  -- of a call: request, sends, why, served, batch
    asked  INTEGER,               -- of a call: the place of the event that asked it last
    model  TEXT,
    input  INTEGER,
    output INTEGER,
    cost   REAL
);
INSERT INTO call(key, task, name, state, value, blob, rest, asked, model, input, output, cost)
SELECT key, task, name, state, value, blob, rest, asked, model, input, output, cost
FROM call_by_key ORDER BY asked;
DROP TABLE call_by_key;
CREATE INDEX call_key ON call(substr(key, 1, 8));
CREATE INDEX call_asked ON call(asked, state, model, task, input, output, cost)
WHERE asked IS NOT NULL;
"""
"""Store calls in the order of requests: with random keys, every change wrote a page of its own."""


RUNS_IN_ORDER = """
CREATE INDEX run_of_study ON run(study);        -- each ends with n, as every index does
CREATE INDEX run_of_status ON run(status);
CREATE INDEX run_of_study_status ON run(study, status);
CREATE INDEX run_tag_run ON run_tag(tag, run);
"""
"""Index runs in the order of their start, which does not depend on a clock that is set back."""


RUNS_HAVE_NAMES = """
ALTER TABLE run ADD COLUMN name TEXT;
CREATE UNIQUE INDEX run_name ON run(name) WHERE name IS NOT NULL;
"""
"""Add the names that people give to runs, each at most once."""


def tasks_know_their_events(db: apsw.Connection) -> None:
    """Note in the row of each task where its events are: its record is read without a scan."""
    db.execute("ALTER TABLE task ADD COLUMN events TEXT")  # run:first-last, newest first
    ranges: dict[str, tuple[EventRange, ...]] = {}
    for at, body in db.execute("SELECT place, body FROM event ORDER BY n"):
        run = at >> SEQ_BITS
        for task in touched(decode_event(body)):
            ranges[task] = extended(ranges.get(task, ()), run, at - place(run, 0))
    rows = [(text(ranges.get(id.hex(), ())), n) for n, id in db.execute("SELECT n, id FROM task")]
    db.executemany("UPDATE task SET events = ? WHERE n = ?", rows)
    # Few tasks have several ranges: those that more than one run was about, most of all.
    db.execute("CREATE INDEX task_ranges ON task(n) WHERE instr(events, ' ')")


JOBS_CAN_BE_LISTED = "CREATE INDEX task_job ON task(class, state, n) WHERE kind = 'job'"
"""Index the jobs of streams by stream and state; other tasks are not in this index."""


PAYLOADS_CAN_BE_FORGOTTEN = "CREATE TABLE forgotten (digest BLOB PRIMARY KEY) WITHOUT ROWID"
"""Add the digests of payloads that were removed on purpose."""


def jobs_have_times(db: apsw.Connection) -> None:
    """Note when each job was submitted, with an index: the jobs of a window are found without the others."""
    db.execute("ALTER TABLE task ADD COLUMN submitted REAL")
    rows = db.execute(
        "SELECT n, json_extract(CAST(rest AS TEXT), '$[8].at') FROM task WHERE kind = 'job'"
    ).fetchall()
    times = [(float(at), n) for n, at in rows if at is not None]
    db.executemany("UPDATE task SET submitted = ? WHERE n = ?", times)
    db.execute("CREATE INDEX task_submitted ON task(class, submitted) WHERE kind = 'job'")


MigrationStep = Callable[[apsw.Connection], object] | str
"""SQL, or a function where rows have to be read to be changed."""

MIGRATIONS: tuple[MigrationStep, ...] = (
    FIRST_TABLES,
    calls_can_be_listed,
    CALLS_IN_ORDER,
    RUNS_IN_ORDER,
    RUNS_HAVE_NAMES,
    tasks_know_their_events,
    JOBS_CAN_BE_LISTED,
    views.CREATE,
    PAYLOADS_CAN_BE_FORGOTTEN,
    jobs_have_times,
)


def migrate(db: apsw.Connection, version: int = len(MIGRATIONS)) -> None:
    """Bring the tables up to date (or up to an earlier version), each step in a transaction of its own.

    A new store, where no step has rows to change, takes them all in one: it is synced once.
    """
    missing = range(check(db), version)
    for numbers in [[number] for number in missing] if missing.start else [missing]:
        with db:
            for number in numbers:
                step = MIGRATIONS[number]
                db.execute(step) if isinstance(step, str) else step(db)
            db.execute(f"PRAGMA user_version = {numbers[-1] + 1}")


def empty() -> apsw.Connection:
    """Empty tables in memory."""
    db = apsw.Connection(":memory:")
    migrate(db)
    return db


def check(db: apsw.Connection) -> int:
    """The schema version, 0 before the first tables.

    StoreDamaged if it is another application's database, or of a newer version of peira.
    """
    # One statement sees one state: its owner may be creating the tables.
    [(version, tables)] = db.execute(
        "SELECT (SELECT user_version FROM pragma_user_version), (SELECT count(*) FROM sqlite_master)"
    )
    if version == 0 and tables:
        raise StoreDamaged(f"{db.filename} is a database, but not a peira store")
    if version > len(MIGRATIONS):
        raise StoreDamaged(
            f"this store has schema {version}; this peira knows up to {len(MIGRATIONS)}: upgrade it"
        )
    return int(version)
