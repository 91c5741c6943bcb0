"""The tables of a store in one Postgres schema, as a list of named migrations: append only."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import psycopg
from psycopg import sql

from peira.errors import Invalid, StoreDamaged
from peira.stores.postgres.connection import Connection
from peira.stores.postgres.roles import grant


def first_tables(db: Connection) -> None:
    """Create the tables of version 1."""
    db.execute(
        """
        CREATE TABLE member (                  -- processes that opened the store for writing
            n         bigint PRIMARY KEY,      -- the incarnation
            host      text NOT NULL,           -- says which machine the process number is of
            pid       integer NOT NULL,
            backend   integer NOT NULL,        -- the server's process that holds its advisory lock
            state     text NOT NULL,           -- alive, left (closed it), dead (lost it to another)
            joined    double precision NOT NULL,
            token     bigint NOT NULL DEFAULT 0    -- the number of its last commit
        ) WITH (fillfactor = 20);

        CREATE TABLE command (                 -- to the owner, from any process
            n    bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id   text NOT NULL UNIQUE,
            body bytea NOT NULL
        );

        CREATE TABLE run (
            n           integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id          text NOT NULL UNIQUE,
            manifest    text NOT NULL,
            study       text NOT NULL,
            trials      bigint NOT NULL,
            status      text NOT NULL,
            planned     double precision NOT NULL,
            owner       text NOT NULL,
            incarnation bigint NOT NULL,
            rest        bytea NOT NULL,
            name        text
        );
        CREATE INDEX run_planned ON run (planned);
        CREATE INDEX run_study ON run (study, n);
        CREATE INDEX run_status ON run (status, n);
        CREATE UNIQUE INDEX run_name ON run (name) WHERE name IS NOT NULL;
        CREATE TABLE run_tag (
            tag text NOT NULL,
            at  double precision NOT NULL,
            run integer NOT NULL,
            PRIMARY KEY (tag, at, run)
        );
        -- What every commit to a run changes: narrow, with room on its page, so that updates write no index.
        CREATE TABLE head (
            run      integer PRIMARY KEY,
            next_seq bigint NOT NULL,
            version  integer NOT NULL          -- of the row in `run`
        ) WITH (fillfactor = 10);

        CREATE SEQUENCE commit_number;

        CREATE TABLE task (
            id            bytea PRIMARY KEY,
            n             bigint NOT NULL,     -- the order in which tasks were first seen
            kind          text NOT NULL,
            class         text NOT NULL,
            state         smallint NOT NULL,   -- index into STATES
            epoch         integer NOT NULL,    -- the fencing token
            owner         text,
            attempts      integer NOT NULL,
            interruptions integer,
            priority      integer,
            not_before    double precision,
            run           integer NOT NULL,    -- the run that changed it last
            reused_from   bytea,
            rest          bytea,
            result        bytea,
            version       integer NOT NULL,    -- raised by every change
            events        bigint[] NOT NULL    -- where its events are, see `extended`
        ) WITH (fillfactor = 80);
        CREATE INDEX task_queued ON task (class, (-coalesce(priority, 0)), n) WHERE state = 0;
        CREATE INDEX task_active ON task (run) WHERE state BETWEEN 1 AND 4;
        CREATE INDEX task_job ON task (class, state, n) WHERE kind = 'job';
        CREATE INDEX task_ranges ON task (n) WHERE cardinality(events) > 3;

        CREATE TABLE call (
            key     bytea PRIMARY KEY,
            task    bytea NOT NULL,
            name    text NOT NULL,
            state   text NOT NULL,
            value   bytea,
            blob    text,
            rest    bytea,
            asked   bigint,                    -- of a call: run << 40 | seq of the event that asked it last
            model   text,
            input   bigint,
            output  bigint,
            cost    double precision,
            version integer NOT NULL
        ) WITH (fillfactor = 80);
        CREATE INDEX call_asked ON call (asked) WHERE asked IS NOT NULL;

        CREATE TABLE event (
            run  integer NOT NULL,
            seq  bigint NOT NULL,
            n    bigint NOT NULL,              -- the order of commits, over all runs
            at   double precision NOT NULL,
            body bytea NOT NULL,
            PRIMARY KEY (run, seq)
        );

        CREATE TABLE blob (
            digest bytea PRIMARY KEY,
            codec  text NOT NULL,
            data   bytea,                      -- NULL: a file in the folder of blobs
            size   bigint NOT NULL
        );
        ALTER TABLE blob ALTER COLUMN data SET STORAGE EXTERNAL;  -- it is compressed already
        """
    )
    put_function(db)


def put_function(db: Connection) -> None:
    """Create the function that commits; a migration that changes `put.sql` calls this again."""
    db.execute(Path(__file__).with_name("put.sql").read_text(encoding="utf-8"))


def shared_runs(db: Connection) -> None:
    """Version 2: members have leases, and share runs by ranges of positions."""
    db.execute(
        """
        ALTER TABLE member
            ADD COLUMN until      double precision,  -- when its lease runs out; NULL: it owns the store alone
            ADD COLUMN lease      double precision,  -- for how long it is renewed
            ADD COLUMN shared_run text,              -- the run that it works on
            ADD COLUMN failures   integer NOT NULL DEFAULT 0,  -- that it has counted in that run
            ADD COLUMN released   boolean NOT NULL DEFAULT false;  -- what it had was given to others
        CREATE INDEX member_lease ON member (until) WHERE state = 'alive';
        CREATE INDEX member_gone ON member (n) WHERE state <> 'alive' AND NOT released;
        CREATE INDEX member_run ON member (shared_run) WHERE shared_run IS NOT NULL;

        CREATE TABLE shared_run (
            n       integer GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
            id      text NOT NULL UNIQUE,
            next    bigint NOT NULL DEFAULT 0,       -- the first position that was not handed out
            trials  bigint NOT NULL,
            options bytea NOT NULL,                  -- how it is executed
            stop    bytea NOT NULL DEFAULT ''        -- why all are to stop
        ) WITH (fillfactor = 10);

        CREATE TABLE leased_range (
            shared integer NOT NULL,
            first  bigint NOT NULL,
            size   integer NOT NULL,
            state  text NOT NULL,                    -- taken, free, done
            member bigint NOT NULL,                  -- the last one that had it
            lost   integer NOT NULL DEFAULT 0,       -- how many of its holders died
            counts jsonb NOT NULL DEFAULT '{}',      -- tasks that ended, by kind
            PRIMARY KEY (shared, first)
        ) WITH (fillfactor = 50);
        CREATE INDEX leased_range_open ON leased_range (shared, state, first) WHERE state <> 'done';

        CREATE TABLE duty (                          -- what one member does for all
            name   text PRIMARY KEY,
            member bigint NOT NULL,
            until  double precision NOT NULL
        ) WITH (fillfactor = 10);
        """
    )
    sharing_functions(db)


def shared_limits(db: Connection) -> None:
    """Version 3: members keep budgets and the limits of models together."""
    db.execute(
        """
        CREATE TABLE pool (                          -- a limit of a shared run's budget
            shared  integer NOT NULL,
            scope   text NOT NULL,                   -- an account and its limit: budget.money
            granted double precision NOT NULL,       -- all shares, and what was spent before
            wanted  double precision NOT NULL DEFAULT 0,  -- a member lacks so much
            PRIMARY KEY (shared, scope)
        ) WITH (fillfactor = 10);
        CREATE TABLE pool_share (                    -- what a member holds of it
            shared  integer NOT NULL,
            scope   text NOT NULL,
            member  bigint NOT NULL,
            granted double precision NOT NULL,
            settled double precision NOT NULL DEFAULT 0,  -- spent of it, for good
            PRIMARY KEY (shared, scope, member)
        ) WITH (fillfactor = 50);

        CREATE TABLE model_limit (                   -- what all members together send to a model
            name         text PRIMARY KEY,
            next_send    double precision NOT NULL DEFAULT 0,  -- the next time to send that nobody has
            tokens_due   double precision NOT NULL DEFAULT 0,  -- when the tokens that were used are over
            closed_until double precision NOT NULL DEFAULT 0   -- a pause that the provider asked for
        ) WITH (fillfactor = 10);
        CREATE TABLE model_slot (                    -- calls that a member may have under way
            name   text NOT NULL,
            member bigint NOT NULL,
            slots  integer NOT NULL,
            wanted integer NOT NULL,
            PRIMARY KEY (name, member)
        ) WITH (fillfactor = 50);

        DROP FUNCTION IF EXISTS beat(bigint, text, integer);
        """
    )
    sharing_functions(db)


def separate_writes(db: Connection) -> None:
    """Version 4: a commit inserts new rows and updates known ones, each by a statement of its own."""
    put_function(db)


def parts_of_ranges(db: Connection) -> None:
    """Version 5: ranges of which all that is left waits, or is for members that do other classes of work."""
    db.execute(
        """
        ALTER TABLE leased_range                     -- its state may be waiting, too: for people
            ADD COLUMN needs text[] NOT NULL DEFAULT '{}';  -- classes of what is left; empty: not known
        DROP FUNCTION IF EXISTS take_range(bigint, text, integer, integer);
        """
    )
    sharing_functions(db)


def shares_with_commits(db: Connection) -> None:
    """Version 6: shares of pools are taken in the transaction of the commit that needs them."""
    sharing_functions(db)


SUBMITTED = """(substring(encode(rest, 'escape') from '"at":"([0-9.]+)"')::double precision)"""
"""SQL for when a job was submitted, as its labels say; quotes within other labels are escaped."""


def jobs_by_time(db: Connection) -> None:
    """Version 7: the jobs of a window of time are found without the others."""
    db.execute(f"CREATE INDEX task_submitted ON task (class, {SUBMITTED}) WHERE kind = 'job'")


def sharing_functions(db: Connection) -> None:
    """Create the functions of members; a migration that changes `sharing.sql` calls this again."""
    db.execute(Path(__file__).with_name("sharing.sql").read_text(encoding="utf-8"))


MIGRATIONS: tuple[Callable[[Connection], None], ...] = (
    first_tables,
    shared_runs,
    shared_limits,
    separate_writes,
    parts_of_ranges,
    shares_with_commits,
    jobs_by_time,
)


def version(db: Connection, schema: str) -> int | None:
    """The version of the tables; None if there is no such schema, 0 if it is empty.

    StoreDamaged if the schema holds something else, or tables of a newer peira.
    """
    found = db.execute(
        "SELECT to_regclass(format('%%I.store', nspname)) IS NOT NULL, "
        "EXISTS (SELECT 1 FROM pg_class WHERE relnamespace = pg_namespace.oid) "
        "FROM pg_namespace WHERE nspname = %s",
        (schema,),
    ).fetchone()
    if found is None:
        return None
    ours, filled = found
    if not ours and filled:
        raise StoreDamaged(
            f"schema {schema!r} of the database has tables that are not a peira store's; name another one "
            "(?schema=NAME)"
        )
    if not ours:
        return 0
    row = db.execute(sql.SQL("SELECT version FROM {}.store").format(sql.Identifier(schema))).fetchone()
    known = int(row[0]) if row else 0
    if known > len(MIGRATIONS):
        raise StoreDamaged(
            f"this store has schema {known}; this peira knows up to {len(MIGRATIONS)}: upgrade it"
        )
    return known


def migrate(db: Connection, schema: str, blobs: str) -> None:
    """Create the schema and its tables, or bring them up to date; one process at a time, all or nothing."""
    known = version(db, schema)
    if known == len(MIGRATIONS):
        return
    try:
        with db.transaction():
            _bring_up_to_date(db, schema, blobs)
    except psycopg.errors.InsufficientPrivilege as problem:
        if not known:
            raise
        raise Invalid(
            f"the store in schema {schema!r} has tables of an earlier version ({known}; this peira needs "
            f"{len(MIGRATIONS)}), which this role may not change ({problem.diag.message_primary}): let its "
            "owner run `peira migrate`"
        ) from None


def _bring_up_to_date(db: Connection, schema: str, blobs: str) -> None:
    """The migrations that are missing, within a transaction; roles get their rights on new tables."""
    db.execute("SELECT pg_advisory_xact_lock(hashtextextended('peira schema ' || %s, 0))", (schema,))
    found = version(db, schema)
    if found is None:
        db.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(schema)))
    if not found:
        db.execute("CREATE TABLE store (version integer NOT NULL, blobs text NOT NULL)")
        db.execute("INSERT INTO store VALUES (0, %s)", (blobs,))
    for migration in MIGRATIONS[found or 0 :]:
        migration(db)
    db.execute("UPDATE store SET version = %s", (len(MIGRATIONS),))
    grant(db, schema)
