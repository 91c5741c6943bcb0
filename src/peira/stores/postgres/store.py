"""The store in a Postgres schema: for runs that several machines look at, or take part in."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Literal
from uuid import uuid4

import psycopg

from peira.core.clock import Clock
from peira.core.codec import CODECS
from peira.core.contracts import (
    CallQuery,
    CallTotals,
    JobQuery,
    Merged,
    Op,
    OpenStore,
    Outcome,
    PayloadRemoval,
    Retained,
    RunQuery,
)
from peira.core.ids import digest_bytes
from peira.core.log.events import Record, State
from peira.core.log.state import Call, Run, Task
from peira.core.text.words import counted
from peira.errors import Invalid, StoreDamaged, StoreFault, Unknown
from peira.stores.blobs import LARGE, BlobFolder, LargeBlobs, StoredBlob
from peira.stores.bucket import SCHEME as BUCKET
from peira.stores.bucket import BlobBucket
from peira.stores.commit_thread import WriteRequest, claimed
from peira.stores.merge import MergePlan, merge_records, plan_merge
from peira.stores.postgres import members, schema
from peira.stores.postgres._replacement import copy_blobs, drop_schema, replace_tables
from peira.stores.postgres.address import Address
from peira.stores.postgres.connection import Connection, connect, translated
from peira.stores.postgres.reads import StoreReader
from peira.stores.postgres.sharing import LEASE, PostgresSharing
from peira.stores.postgres.spool import AnswerSpool, left_behind
from peira.stores.postgres.writer import PostgresWriter
from peira.stores.retention import RecordedClock, copy_retained
from peira.stores.sharing import SharedRun
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import blobs_of, verify

EVERYTHING = Retained({}, (), ())
"""Nothing is deleted."""
MOST_BYTES = 1_000_000_000
"""The largest value that Postgres keeps, about; larger blobs need a folder."""


class PostgresStore:
    """A store in one schema of a Postgres database, opened for writing or (`readonly`) for reading."""

    remote = True
    """Whether reading may wait for a server that is away."""

    def __init__(
        self,
        address: str | Address,
        *,
        readonly: bool = False,
        shared: bool = False,
        lease: float = LEASE,
        wait: float | None = 0.0,
        compression: str = "zstd",
        clock: Clock | None = None,
        on_commit: Callable[[list[Record]], None] | None = None,
        large: LargeBlobs | None = None,
    ) -> None:
        """Open, and create unless `readonly`. StoreInUse if another process owns it for longer than `wait`.

        With `shared`, any number of processes write it at the same time, each as a member that must renew
        its `lease` (`sharing`) before so many seconds are over. `clock` replaces the database's.
        `on_commit` is told the records of each commit once they are durable, before anybody waiting is.
        `large` is where large blobs are, instead of what the address or the store itself says.
        """
        if compression not in CODECS:
            raise Invalid(f"compression {compression!r}: choose {' or '.join(CODECS)}")
        self._where = address if isinstance(address, Address) else Address.parse(address)
        self.readonly, self._shared, self._compression = readonly, shared, compression
        self.incarnation = 0
        self._closed = False
        self._control: Connection | None = None
        self._files = large
        self._sharing: PostgresSharing | None = None
        if readonly:
            self._open_tables()
            return
        idle = lease if shared else LEASE
        db = connect(self._where, look_up=True, idle=idle)
        try:
            with translated(self._where):
                if self._where.blobs and not schema.version(db, self._where.schema):
                    self._reserve(self._where.blobs)
                schema.migrate(db, self._where.schema, self._where.blobs)
                self._files = large or self._large_blobs(db)
            self._reader = StoreReader(self._where, self._files)
        except BaseException:
            db.close()
            raise
        try:
            with translated(self._where):
                members.lock(db, self._where, wait, shared, self._reader.owner_row)
                self.incarnation = members.join(db, lease if shared else None)
        except BaseException:
            self._reader.close()
            db.close()
            raise
        self._writer = PostgresWriter(
            db,
            self._where,
            self.incarnation,
            shared,
            idle,
            clock,
            compression,
            on_commit,
            AnswerSpool(self.folder("answers"), self.incarnation),
        )
        if shared:
            self._sharing = PostgresSharing(self._where, self.incarnation, lease)
        self._take_in_answers()
        if self._files is not None and not shared:
            self._files.sweep()

    def _take_in_answers(self) -> None:
        """Record the answers that a process of this machine spooled before it ended.

        One is refused if its call has been answered meanwhile, or deleted.
        """
        for path, answers in left_behind(self.folder("answers")):
            self._submit(WriteRequest([answer.op() for answer in answers])).result()
            path.unlink()

    @property
    def sharing(self) -> PostgresSharing:
        """How this process shares runs with others; only of a store that was opened so."""
        if self._sharing is None:
            raise StoreFault("the store was not opened to be shared")
        return self._sharing

    def shared_runs(self, run: str = "") -> list[SharedRun]:
        return self._reader.shared_runs(run)

    def _open_tables(self) -> None:
        """Open a store for reading; Unknown if there is none. Older tables are brought up to date."""
        with translated(self._where):
            db = connect(self._where)
            try:
                known = schema.version(db, self._where.schema)
                if not known:
                    raise Unknown(f"there is no store at {self._where}")
                schema.migrate(db, self._where.schema, "")
                self._files = self._large_blobs(db)
            finally:
                db.close()
        self._reader = StoreReader(self._where, self._files)

    def _reserve(self, where: str) -> None:
        """Make sure, before the store is created, that its large blobs can be kept there, and only its."""
        try:
            owner = self._area(where).reserve(self.address)
        except OSError as problem:
            raise Invalid(f"store {self._where}: large blobs cannot be kept: {problem}") from problem
        if owner != self.address:
            raise Invalid(f"store {self._where}: {where} has the blobs of another store, {owner}")

    def _area(self, where: str) -> LargeBlobs:
        """The folder or bucket of this name."""
        if where.startswith(BUCKET):
            return BlobBucket(where, self._compression)
        return BlobFolder(Path(where), self._compression, f"-{uuid4().hex}")

    def _large_blobs(self, db: Connection) -> LargeBlobs | None:
        """Where large blobs are, as the store says; None if they are in the database."""
        row = db.execute("SELECT blobs FROM store").fetchone()
        named = row[0] if row else ""
        if self._where.blobs not in ("", named):
            raise Invalid(
                f"store {self._where}: its large blobs are in {named or 'the database'}, "
                f"not in {self._where.blobs}"
            )
        return self._area(named) if named else None

    @property
    def address(self) -> str:
        return str(self._where)

    def folder(self, name: str) -> Path:
        """A folder of this machine: what is in it can be made again, or belongs to a process here."""
        base = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
        return Path(base) / "peira" / f"postgres-{digest_bytes(self.address.encode())[:16]}" / name

    def owner(self) -> dict[str, int] | None:
        row = self._reader.owner_row()
        return None if row is None else owner_facts(row)

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        return self._submit(WriteRequest([self._spill(op) for op in ops]))

    def _submit(self, request: WriteRequest) -> Future[list[Outcome]]:
        if self.readonly:
            raise StoreFault("the store was opened for reading")
        return self._writer.submit(request)

    def _spill(self, op: Op) -> Op:
        """Large blobs go to files now, before the row that names them."""
        if not op.blobs or max(map(len, op.blobs)) <= LARGE:
            return op
        return Op(op.run, op.events, tuple(map(self._filed, op.blobs)))

    def _filed(self, data: bytes) -> bytes:
        """What stands for a blob in an op: its bytes, or a file that was written."""
        if len(data) <= LARGE:
            return data
        if self._files is None:
            if len(data) > MOST_BYTES:
                raise StoreFault(
                    f"a blob of {len(data):,} bytes does not fit into the database: create the store with a "
                    "folder or a bucket for large blobs (?blobs=/path, ?blobs=s3://bucket/prefix)"
                )
            return data
        digest = digest_bytes(data)
        try:
            self._files.write(digest, data)
        except OSError as problem:
            raise StoreFault(
                f"a blob cannot be written ({problem}); what was acknowledged is kept"
            ) from problem
        return StoredBlob.of(digest, len(data))

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> list[Task]:
        taken: list[str] = []

        def choose() -> Sequence[Op]:
            ops = self._writer.claim(run, owner, classes, n)
            taken[:] = claimed(ops)
            return ops

        outcomes = self._submit(WriteRequest((), choose)).result()
        found = self.find("task", taken)
        return [found[task] for task, refusal in zip(taken, outcomes, strict=True) if not refusal]

    def put(self, data: bytes) -> str:
        self._submit(WriteRequest([Op("", (), (self._filed(data),))])).result()
        return digest_bytes(data)

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        return self._reader.find(kind, keys)

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[Record]:
        return self._reader.events(run, after, limit)

    def get(self, digest: str) -> bytes:
        return self._reader.get(digest)

    def runs(self, query: RunQuery) -> list[Run]:
        return self._reader.runs(query)

    def calls(self, query: CallQuery) -> list[Call]:
        return self._reader.calls(query)

    def tally(self, query: CallQuery) -> CallTotals:
        return self._reader.tally(query)

    def about(self, tasks: Sequence[str], until: str = "") -> list[Record]:
        return self._reader.about(tasks, until)

    def changed_since(self, run: str) -> list[str]:
        return self._reader.changed_since(run)

    def active(self) -> list[Task]:
        return self._reader.active()

    def waiting(self) -> list[Task]:
        return self._reader.waiting()

    def jobs(self, query: JobQuery) -> list[Task]:
        return self._reader.jobs(query)

    def job_counts(self, cls: str) -> dict[State, int]:
        return self._reader.job_counts(cls)

    def queued(self, cls: str) -> list[Task]:
        return self._reader.queued(cls)

    def using(self, calls: Sequence[str]) -> list[Task]:
        return self._reader.using(calls)

    def history(self) -> Iterator[Record]:
        return self._reader.history()

    def rows(self) -> Iterator[Task | Call | Run]:
        return self._reader.rows()

    def blobs(self) -> Iterator[tuple[str, int, str]]:
        return self._reader.blobs()

    def damage(self) -> list[str]:
        return self._reader.damage()

    def losses(self) -> list[str]:
        return self._reader.losses()

    def size(self, run: str = "") -> int:
        return self._reader.size(run)

    @contextmanager
    def snapshot(self) -> Iterator[StoreReader]:
        """All that can be read, as it is at one moment, while others write."""
        frozen = StoreReader(self._where, self._files, snapshot=True)
        try:
            yield frozen
        finally:
            frozen.close()

    def send_command(self, id: str, body: bytes) -> None:
        """Leave a command for the owner of the store; durable when it returns."""
        with translated(self._where), connect(self._where) as db:
            db.execute("INSERT INTO command (id, body) VALUES (%s, %s)", (id, body))

    def command_queued(self, id: str) -> bool:
        return self._reader.command_queued(id)

    def pending_commands(self) -> list[tuple[str, bytes]]:
        """The commands that were left for the owner, oldest first; none if the server is not there."""
        try:
            rows = self._commands().execute("SELECT id, body FROM command ORDER BY n").fetchall()
        except (psycopg.OperationalError, StoreFault):
            if self._control is not None:
                self._control.close()
            return []
        return [(id, bytes(body)) for id, body in rows]

    def remove_command(self, id: str) -> None:
        """Remove a command that was executed; it is found again if the server cannot be reached."""
        with suppress(psycopg.OperationalError, StoreFault):
            self._commands().execute("DELETE FROM command WHERE id = %s", (id,))

    def _commands(self) -> psycopg.Connection:
        """A connection of its own for commands."""
        if self._control is None or self._control.closed:
            self._control = connect(self._where)
        return self._control

    def backup(self, target: Path) -> None:
        """Copy the store, as it is at one moment, to a new SQLite store, which has its name last."""
        if target.exists():
            raise Invalid(f"{target} exists already; a backup replaces nothing")
        folder, clock = target.with_name(f"{target.name}.copy"), RecordedClock()
        shutil.rmtree(folder, ignore_errors=True)  # of a copy that was cut off
        try:
            with (
                self.snapshot() as frozen,
                closing(SqliteStore(folder / "store.db", compression=self._compression, clock=clock)) as copy,
            ):
                copy_retained(frozen.history(), copy, clock, EVERYTHING)
                for digest in blobs_of(frozen, frozen.get):
                    copy.put(frozen.get(digest))
                if problems := verify(copy):
                    raise StoreDamaged("the copy is not sound: " + "; ".join(problems[:3]))
                copy.backup(target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)

    def retain(self, retained: Retained) -> None:
        def fill(draft: PostgresStore, clock: RecordedClock) -> set[str]:
            copy_retained(self.history(), draft, clock, retained)
            return blobs_of(draft, self.get)

        self._rewrite(fill)

    def merge(self, other: OpenStore, ours: bool = False, dry_run: bool = False) -> Merged:
        try:
            plan = plan_merge(self, other, ours)
            if plan.new and not dry_run:
                self._rewrite(lambda draft, clock: self._add(draft, clock, other, plan))
            return plan.brought
        finally:
            self.close()

    def _add(self, draft: PostgresStore, clock: RecordedClock, other: OpenStore, plan: MergePlan) -> set[str]:
        """Fill a draft with all there is, and with what another store brings; returns its blobs."""

        def get(digest: str) -> bytes:
            try:
                return self.get(digest)
            except Unknown:
                return other.get(digest)

        copy_retained(self.history(), draft, clock, EVERYTHING)
        merge_records(draft, clock, other, plan)
        needed = blobs_of(draft, get)
        missing = sorted(needed - {digest for digest, _, _ in self.blobs()})
        if isinstance(other, PayloadRemoval) and (gone := set(missing).intersection(other.forgotten())):
            raise Invalid(
                f"merge: {counted(len(gone), 'payload')} of the other store were removed, which a store in a "
                "database cannot say"
            )
        for digest in missing:
            draft.put(other.get(digest))
        return needed

    def _rewrite(self, fill: Callable[[PostgresStore, RecordedClock], set[str]]) -> None:
        """Replace the tables by those of a second schema, in one transaction; closes the store.

        `fill` fills it, and returns the blobs that it refers to: those of the store are copied.
        """
        draft = Address(self._where.server, f"{self._where.schema[:50]}.draft")
        self._writer.close()
        db, clock = self._writer.db, RecordedClock()
        try:
            with translated(self._where):
                drop_schema(db, draft.schema)
                target = PostgresStore(draft, compression=self._compression, clock=clock, large=self._files)
                try:
                    kept = fill(target, clock)
                    copy_blobs(db, draft.schema, kept)
                    if problems := verify(target):
                        raise StoreDamaged("nothing was changed: " + "; ".join(problems[:3]))
                finally:
                    target.close()
                replace_tables(db, self._where.schema, draft.schema)
            if self._files is not None:
                for digest in [digest for digest in self._files.digests() if digest not in kept]:
                    self._files.remove(digest)
        finally:
            if not db.closed:
                drop_schema(db, draft.schema)
            self.close()

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._control is not None:
            self._control.close()
        if self._sharing is not None:
            self._sharing.close()
        if not self.readonly:
            self._writer.close()
            db = self._writer.db
            try:
                if not db.closed:
                    members.leave(db, self._where, self._writer.me, self._shared)
            except psycopg.Error:  # the server is gone: its lock is free with the connection
                pass
            finally:
                db.close()
        self._reader.close()


def owner_facts(row: tuple[Any, ...]) -> dict[str, int]:
    """What `Ownership.owner` says: the process only if it is one of this machine."""
    number, host, pid = row
    return {"pid": pid, "incarnation": number} if host == members.this_host() else {"incarnation": number}
