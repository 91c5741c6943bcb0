"""The embedded store: SQLite through apsw, in WAL mode, synced at every commit.

One process owns it for writing (a lock file beside it, an incarnation number inside); any number of
others read it meanwhile.
"""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from functools import partial
from hashlib import sha256
from io import BytesIO
from pathlib import Path
from shutil import copyfile
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import quote

import apsw
import zstandard
from msgspec.structs import asdict

import peira.stores as stores
import peira.stores.sqlite as sqlite
from peira.core.clock import Clock, SystemClock
from peira.core.codec import CODECS, in_pieces, unpack
from peira.core.contracts import (
    CallQuery,
    CallTotals,
    CallWords,
    JobQuery,
    Merged,
    Op,
    OpenStore,
    Outcome,
    PayloadRemoval,
    PlanEntry,
    Retained,
    RunQuery,
    TaskFinder,
)
from peira.core.failpoints import reach
from peira.core.ids import digest_bytes
from peira.core.log.events import Record, State
from peira.core.log.state import Call, Run, Task
from peira.errors import Invalid, NotKept, StoreDamaged, StoreFault, StoreInUse, Unknown
from peira.stores.blobs import LARGE, BlobFolder
from peira.stores.sqlite import connection, reads, schema, views
from peira.stores.sqlite._backup import copy_store, copy_tables
from peira.stores.sqlite._rewrite import copy_blobs, remove_draft, replace_tables, unneeded
from peira.stores.sqlite.lock import (
    POLL,
    OwnerLock,
    ProcessIdentity,
    in_use,
    last_event,
    owner,
    process_from,
    refuse_second_names,
    running_process,
)

if TYPE_CHECKING:
    from peira.stores.merge import MergePlan
    from peira.stores.retention import RecordedClock

BUSY = 0.15
"""CPU seconds of commits in a second, from which on a process of its own commits; its start takes 0.1."""
MIGRATION = 2.0
"""Seconds in which a reader waits for an owner that is creating the tables, or bringing them up to date."""
MANY_TASKS = 5_000
"""Tasks of a run whose writer gets a process before it is busy."""
AT_ONCE = 100
"""Blobs that are copied from another store together."""
SCAN_SHARE = 4
"""Reading every task is faster than looking up a part of them that is larger than one in this many."""


_owned: set[tuple[int, int] | None] = set()
"""The files that this process owns now, by device and inode: a file names the process, not the object."""


def _size(path: Path) -> int:
    """The bytes of a file; 0 if there is none."""
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _file_identity(path: Path) -> tuple[int, int] | None:
    """What tells a file from others, whatever its name; None if there is none."""
    try:
        found = os.stat(path)
    except FileNotFoundError:
        return None
    return found.st_dev, found.st_ino


def _groups(digests: list[str]) -> Iterator[list[str]]:
    """A few digests at a time."""
    return (digests[start : start + AT_ONCE] for start in range(0, len(digests), AT_ONCE))


class SqliteStore:
    def __init__(
        self,
        path: str | Path,
        *,
        readonly: bool = False,
        wait: float | None = 0.0,
        compression: str = "zstd",
        on_commit: Callable[[list[Record]], None] | None = None,
        clock: Clock | None = None,
        vfs: str | None = None,
        busy: float | None = BUSY,
    ) -> None:
        """Open, and create unless `readonly`. StoreInUse if another process owns it for longer than `wait`.

        `on_commit` is told the records of each commit once they are durable, before anybody waiting is. From
        `busy` CPU seconds of commits in a second on, another process commits (0: at once; None: never).
        """
        self.path = Path(path).resolve()
        self.readonly = readonly
        self.incarnation = 0
        self._clock, self._busy = clock or SystemClock(), busy
        if compression not in CODECS:
            raise Invalid(f"compression {compression!r}: choose {' or '.join(CODECS)}")
        refuse_second_names(self.path)
        self._compression = compression
        self._files = BlobFolder(self.path.with_name(self.path.name + ".blobs"), compression)
        self._vfs = vfs
        self._copy: TemporaryDirectory[str] | None = None
        self._lock = None if readonly else self._own(wait)
        try:
            self._open(compression, on_commit, wait)
        except (apsw.Error, OSError, StoreDamaged) as problem:
            self._give_up(problem)

    def _own(self, wait: float | None) -> OwnerLock:
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            return OwnerLock(self.lock_path, wait)
        except OSError as problem:
            raise StoreFault(f"cannot open the store {self.path}: {problem}") from problem

    def _give_up(self, problem: Exception) -> None:
        if self._lock:
            self._lock.free()
        if isinstance(problem, StoreDamaged):
            raise problem
        if isinstance(problem, (apsw.NotADBError, apsw.CorruptError)):
            raise StoreDamaged(f"{self.path} is not a peira store, or is damaged: {problem}") from problem
        if self.readonly and not self.path.exists():
            raise Unknown(f"there is no store at {self.path}") from None
        raise StoreFault(f"cannot open the store {self.path}: {problem}") from problem

    def _open(
        self, compression: str, on_commit: Callable[[list[Record]], None] | None, wait: float | None
    ) -> None:
        self._reader_lock = threading.Lock()
        self._log_path = self.path.with_name(self.path.name + "-wal")
        self._had_log = _size(self._log_path) > 0
        if self._lock:
            db = self._connect(create=True)
            # A log whose last sync failed reads as whole now, and may not be so on the disk: nothing is added
            # to it before all of it was written to the file, and synced there.
            db.execute("PRAGMA wal_checkpoint")
            schema.migrate(db)
            self._identity: tuple[int, int] | None = _file_identity(self.path)
            self.incarnation = self._enter(db, wait)
            self._lock.note(self.incarnation)
            self._log_identity = _file_identity(self._log_path)  # SQLite keeps it as long as it is open
            self._files.sweep()
            draft = self._draft
            if draft.exists() or draft.with_name(f"{draft.name}.blobs").exists():
                remove_draft(draft)
            self._db = db
            self._writer = sqlite.Writer(
                self.path,
                db,
                self.incarnation,
                self._check_file,
                self._lock,
                self._clock,
                compression,
                on_commit,
                None if on_commit or self._vfs else self._busy,
            )
        self._reader = self._connect(create=False)
        deadline = time.monotonic() + MIGRATION
        while schema.check(self._reader) < len(schema.MIGRATIONS):
            self._reader.close()
            self._migrate(deadline)
            self._reader = self._connect(create=False)
        self._reader.execute("PRAGMA query_only = ON")

    def _migrate(self, deadline: float) -> None:
        """Bring the tables up to date, as their owner; one that is just doing so is waited for."""
        try:
            SqliteStore(self.path, vfs=self._vfs).close()
        except StoreInUse:
            if time.monotonic() >= deadline:
                raise
            time.sleep(POLL)

    def _enter(self, db: apsw.Connection, wait: float | None) -> int:
        """Become the owner that the store itself names, under a new incarnation.

        The lock file does not suffice: it may have been removed, or the file may be reached past it.
        """
        deadline = None if wait is None else time.monotonic() + wait
        while holder := self._named_owner(db):
            if deadline is not None and time.monotonic() >= deadline:
                db.close()
                raise StoreInUse(in_use(self.lock_path, holder))
            time.sleep(POLL)
        _owned.add(self._identity)
        # Into the file itself, where it is seen by whatever name the file is opened.
        db.execute("PRAGMA wal_checkpoint")
        return int(db.execute("SELECT value FROM meta WHERE key = 'incarnation'").get)

    def _named_owner(self, db: apsw.Connection) -> ProcessIdentity | None:
        """The living process that the store names as its owner; if there is none, it names this one now."""
        db.execute("BEGIN IMMEDIATE")
        try:
            assert self._lock is not None
            said = db.execute("SELECT value FROM meta WHERE key = 'owner'").get
            named = json.loads(said) if said else {}
            holder = process_from(named)
            # Whoever locked the very file that is ours now has let it go: also where its process cannot be
            # looked at, as that of another container.
            gone = holder is None or holder.is_dead or named.get("lock") == self._lock.identity
            if holder and not gone and (holder != running_process(os.getpid()) or self._identity in _owned):
                return holder
            if said and (last := last_event(self.lock_path)) > reads.newest_event(db):
                db.execute("INSERT OR REPLACE INTO meta VALUES ('lost_log', ?)", (last,))
            db.execute("UPDATE meta SET value = value + 1 WHERE key = 'incarnation'")
            mine = json.dumps({**asdict(running_process(os.getpid())), "lock": self._lock.identity})
            db.execute("INSERT OR REPLACE INTO meta VALUES ('owner', ?)", (mine,))
            return None
        finally:
            db.execute("COMMIT")

    def _leave(self) -> None:
        """The store has no owner any more. Not synced: after a power loss no owner is alive in any case."""
        if self._lock is None or self._lock.is_free:
            return
        _owned.discard(self._identity)
        try:
            self._db.execute("PRAGMA synchronous = OFF")
            self._db.execute(
                "UPDATE meta SET value = NULL WHERE key = 'owner' "
                "AND (SELECT value FROM meta WHERE key = 'incarnation') = ?",
                (self.incarnation,),
            )
        except (
            apsw.Error
        ):  # a disk that takes nothing: the name stays, and means nothing once this process ends
            return
        finally:
            self._db.execute("PRAGMA synchronous = FULL")

    def _check_file(self) -> None:
        """The file that was opened is still the one that has the store's name."""
        now = _file_identity(self.path)
        if now is None:
            raise StoreFault(f"{self.path} was removed")
        if now != self._identity:
            raise StoreFault(f"{self.path} was replaced by another file")
        if self._log_identity not in (None, _file_identity(self._log_path)):
            raise StoreFault(f"{self._log_path}, the log of the store, was removed or replaced")

    def _connect(self, create: bool) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        db = apsw.Connection(str(self.path), flags=flags, vfs=self._vfs)
        db.set_busy_timeout(connection.BUSY_TIMEOUT)
        try:
            tables = schema.check(db)
        except (apsw.CantOpenError, apsw.ReadOnlyError):
            if create or os.access(self.path.parent, os.W_OK):
                raise
            db.close()
            db = self._connect_unwritable()
            tables = schema.check(db)
        connection.set_up(db, writes=create)
        # One that was cut off before it had tables holds nothing, and reads as that.
        return db if create or tables else schema.empty()

    def _connect_unwritable(self) -> apsw.Connection:
        """A connection to a store on a medium that cannot be written, where SQLite can keep no shared memory.

        Nobody writes there, so the file can be read as it is; if a killed owner left a log beside it, a copy
        of both is read.
        """
        if not self._had_log:
            flags = apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI
            return apsw.Connection(f"file:{quote(str(self.path))}?immutable=1", flags=flags, vfs=self._vfs)
        if self._copy is None:
            self._copy = TemporaryDirectory(prefix="peira-")
            for end in ("", "-wal"):
                copyfile(f"{self.path}{end}", f"{self._copy.name}/store{end}")
        return apsw.Connection(f"{self._copy.name}/store", vfs=self._vfs)

    @property
    def lock_path(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

    @property
    def address(self) -> str:
        return str(self.path.resolve())

    def folder(self, name: str) -> Path:
        """The files of this name beside the store."""
        return self.path.with_name(f"{self.path.name}.{name}")

    def owner(self) -> dict[str, int] | None:
        """Who owns the store for writing now, if anybody does."""
        return owner(self.lock_path)

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        return self._writer.commit([self._spill(op) if op.blobs else op for op in ops])

    def _spill(self, op: Op) -> Op:
        """Large blobs go to files now, before the row that names them."""
        if max(map(len, op.blobs)) <= LARGE:
            return op
        small = tuple(data for data in op.blobs if not self._large(data))
        return Op(op.run, op.events, small)

    def _large(self, data: bytes) -> bool:
        if len(data) <= LARGE:
            return False
        self._write_file(digest_bytes(data), in_pieces(data), len(data))
        return True

    def _write_file(self, digest: str, pieces: Iterable[bytes | memoryview], size: int) -> None:
        try:
            self._files.write_pieces(digest, pieces, size)
        except OSError as problem:
            raise StoreFault(
                f"a blob cannot be written ({problem}); what was acknowledged is kept"
            ) from problem

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> list[Task]:
        taken = self._writer.claim(run, owner, classes, n)
        found = self.find("task", taken)
        return [found[task] for task in taken]

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        if kind != "run" and self._lock and not (keys := self._writer.recorded[kind].possible(keys)):
            return {}
        with self._reading():
            if kind == "task":
                return reads.tasks_by_id(self._reader, keys)
            if kind == "run":
                return {run.id: run for _, run in reads.runs(self._reader, keys, looking=True)}
            return {call.key: call for _, call in reads.calls(self._reader, keys)}

    def scan_tasks(self, wanted: int) -> TaskFinder | None:
        def fetch(sql: str, bindings: tuple[Any, ...]) -> list[tuple[Any, ...]]:
            with self._reading():  # for each chunk: others read meanwhile
                return self._reader.execute(sql, bindings).fetchall()

        [(tasks,)] = fetch("SELECT coalesce(max(n), 0) FROM task", ())
        if not tasks or wanted * SCAN_SHARE < tasks:
            return None
        from peira.stores.sqlite.task_scan import TaskScan  # needs numpy, which is slow to import

        return TaskScan(fetch, partial(self.find, "task"))

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[Record]:
        with self._reading():
            return reads.records(self._reader, run, after, limit)

    def put(self, data: bytes) -> str:
        if not self._large(data):
            self._writer.commit([Op("", (), (data,))]).result()
        return digest_bytes(data)

    def put_pieces(self, pieces: Callable[[], Iterable[bytes]]) -> str:
        whole, size = sha256(), 0
        for piece in pieces():
            whole.update(piece)
            size += len(piece)
        if size <= LARGE:
            return self.put(b"".join(pieces()))
        self._write_file(digest := whole.hexdigest(), pieces(), size)
        return digest

    def get(self, digest: str) -> bytes:
        whole = BytesIO()  # whose content is taken without a copy
        whole.writelines(self.get_pieces(digest))
        return whole.getvalue()

    def get_pieces(self, digest: str) -> Iterator[bytes]:
        with self._reading():
            row = self._reader.execute(
                "SELECT codec, data FROM blob WHERE digest = ?", (bytes.fromhex(digest),)
            ).fetchone()
        whole = sha256()
        try:
            for piece in [unpack(row[1], row[0])] if row else self._files.read_pieces(digest):
                whole.update(piece)
                yield piece
        except FileNotFoundError:
            if digest in self.forgotten():
                raise NotKept(f"the content with digest {digest[:12]} was not kept (storage)") from None
            raise Unknown(f"no blob {digest} in this store") from None
        except zstandard.ZstdError as problem:
            raise StoreDamaged(f"the bytes of blob {digest} cannot be unpacked: {problem}") from problem
        if whole.hexdigest() != digest:
            raise StoreDamaged(f"the bytes of blob {digest} do not match it")

    def runs(self, query: RunQuery) -> list[Run]:
        with self._reading():
            return reads.listing(self._reader, query)

    def calls(self, query: CallQuery) -> list[Call]:
        with self._reading():
            return reads.called(self._reader, query)

    def tally(self, query: CallQuery) -> CallTotals:
        with self._reading():
            return reads.tally(self._reader, query)

    def active(self) -> list[Task]:
        with self._reading():
            return reads.begun(self._reader, reads.ACTIVE)

    def waiting(self) -> list[Task]:
        with self._reading():
            return reads.begun(self._reader, reads.WAITING)

    def jobs(self, query: JobQuery) -> list[Task]:
        with self._reading():
            return reads.jobs(self._reader, query)

    def job_counts(self, cls: str) -> dict[State, int]:
        with self._reading():
            return reads.job_counts(self._reader, cls)

    def queued(self, cls: str) -> list[Task]:
        with self._reading():
            return reads.queued(self._reader, cls)

    def about(self, tasks: Sequence[str], until: str = "") -> list[Record]:
        with self._reading():
            return reads.about(self._reader, tasks, until)

    def changed_since(self, run: str) -> list[str]:
        with self._reading():
            return reads.changed_since(self._reader, run)

    def using(self, calls: Sequence[str]) -> list[Task]:
        with self._reading():
            return reads.using(self._reader, calls)

    def history(self) -> Iterator[Record]:
        return reads.history(self._connect(create=False))

    def rows(self) -> Iterator[Task | Call | Run]:
        return reads.every_row(self._connect(create=False))

    def blobs(self) -> Iterator[tuple[str, int, str]]:
        db = self._connect(create=False)
        for digest, size in db.execute("SELECT digest, length(data) FROM blob"):
            yield digest.hex(), size, self._wrong(digest.hex())
        for name, file in self._files.files():
            yield name, file.stat().st_size, self._wrong(name)
        for digest in self.forgotten():
            yield digest, 0, ""
        for draft in self._files.drafts():
            yield draft.name, draft.stat().st_size, "was begun and never finished"

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file itself, and what cannot be decoded."""
        try:
            found = self._reader.execute("PRAGMA integrity_check").fetchall()
            if lines := [f"database: {line}" for (line,) in found if line != "ok"]:
                return lines
            return list(reads.unreadable(self._connect(create=False)))
        except (apsw.CorruptError, UnicodeDecodeError) as problem:
            return [f"database: {problem}"]

    def losses(self) -> list[str]:
        """A killed owner leaves its log (-wal) beside the file; without it, durable events are gone."""
        lost = self._reader.execute("SELECT value FROM meta WHERE key = 'lost_log'").get
        if not lost and last_event(self.lock_path) <= reads.newest_event(self._reader):
            return []
        log = f"{self.path.name}-wal"
        return [f"database: events at its end are gone, as if its log {log} had been removed after a kill"]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """The reader's turn; a damaged file, or a closed one, is an error of ours, not of SQLite's."""
        with self._reader_lock:
            try:
                yield
            except apsw.ConnectionClosedError:
                raise StoreFault(f"the store {self.path} is closed") from None
            except (apsw.CorruptError, UnicodeDecodeError) as problem:
                raise StoreDamaged(f"{self.path} is damaged: {problem}") from problem

    def _wrong(self, digest: str) -> str:
        try:
            self.get(digest)
        except (StoreDamaged, OSError) as problem:
            return str(problem)
        except ValueError:
            return "is not the name of a blob"
        return ""

    def size(self, run: str = "") -> int:
        if not run:
            beside = (self.path.with_name(self.path.name + end) for end in ("", "-wal"))
            return sum(file.stat().st_size for file in beside if file.exists()) + self._files.size()
        with self._reading():
            return reads.size(self._reader, run)

    def changes(self) -> int:
        """A number that changes with every commit of another connection."""
        with self._reading():
            return int(self._reader.execute("PRAGMA data_version").get)

    def backup(self, target: Path) -> None:
        source = self._connect(create=False)
        try:
            copy_store(source, self._files, target)
        finally:
            source.close()

    def listed(self) -> dict[str, bool]:
        with self._reading():
            return views.listed(self._reader)

    def listed_cases(self, numbers: range) -> int:
        with self._reading():
            return views.listed_cases(self._reader, numbers)

    def listed_tasks(self, plan: str, prefix: str) -> list[tuple[str, int]]:
        with self._reading():
            return list(views.found(self._reader, plan, prefix))

    def anticipate(self, tasks: int) -> None:
        if tasks >= MANY_TASKS:
            self._writer.prepare()

    def list_plan(self, plan: str, entries: Iterable[PlanEntry], complete: bool = False) -> Future[None]:
        return self._writer.list_plan(plan, entries, complete)

    def list_calls(self, calls: Iterable[CallWords]) -> Future[None]:
        return self._writer.list_calls(calls)

    def unlisted_calls(self, run: str = "") -> list[str]:
        with self._reading():
            return views.unlisted_calls(self._reader, run)

    @property
    def _draft(self) -> Path:
        """Where a rewrite of the store is prepared."""
        return self.path.with_name(f"{self.path.name}.draft")

    def forgotten(self) -> set[str]:
        with self._reading():
            return {digest.hex() for (digest,) in self._reader.execute("SELECT digest FROM forgotten")}

    def forget(self, digests: Collection[str]) -> int:
        files = {digest: file for digest, file in self._files.files() if digest in digests}
        removed = sum(file.stat().st_size for file in files.values())

        def change(db: apsw.Connection) -> None:
            nonlocal removed
            keys = [(bytes.fromhex(digest),) for digest in sorted(digests)]
            db.execute("PRAGMA secure_delete = ON")  # what is not kept is not left in unused pages
            for key in keys:
                removed += db.execute("SELECT length(data) FROM blob WHERE digest = ?", key).get or 0
            db.executemany("INSERT OR IGNORE INTO forgotten VALUES (?)", keys)
            db.executemany("DELETE FROM blob WHERE digest = ?", keys)

        self._writer.derive(change).result()
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        reach("forget.before_files")
        for file in files.values():
            file.unlink()
        return removed

    def compress(self, codec: str) -> None:
        if codec not in CODECS:
            raise Invalid(f"compression {codec!r}: choose {' or '.join(CODECS)}")
        self._compression = codec
        self._files.compress(codec)
        self._writer.compress(codec)

    def merge(self, other: OpenStore, ours: bool = False, dry_run: bool = False) -> Merged:
        try:
            plan = stores.merge.plan_merge(self, other, ours)
            if plan.new and not dry_run:
                self._rewrite(lambda draft, clock: self._add(draft, clock, other, plan))
            return plan.brought
        finally:
            self.close()

    def _add(self, draft: SqliteStore, clock: RecordedClock, other: OpenStore, plan: MergePlan) -> set[str]:
        """Add records to a draft, with the blobs that they refer to; returns all that are referred to."""
        stores.merge.merge_records(draft, clock, other, plan)

        def get(digest: str) -> bytes:
            try:
                return draft.get(digest)
            except Unknown:
                return other.get(digest)

        blobs = stores.verify.blobs_of(draft, get)
        gone = set(other.forgotten()) if isinstance(other, PayloadRemoval) else set()
        needed = blobs - draft._blob_digests() - draft.forgotten()
        for missing in _groups(sorted(needed - gone)):
            draft.commit([Op("", (), tuple(map(other.get, missing)))]).result()
        draft.forget(needed & gone)
        reach("merge.before_blobs")
        for digest, _ in draft._files.files():
            self._files.write(digest, draft._files.read(digest))
        return blobs

    def _blob_digests(self) -> set[str]:
        """The digests of all blobs that are there."""
        rows = {digest.hex() for (digest,) in self._reader.execute("SELECT digest FROM blob")}
        return rows | {digest for digest, _ in self._files.files()}

    def retain(self, retained: Retained) -> None:
        def fill(draft: SqliteStore, clock: RecordedClock) -> set[str]:
            stores.retention.copy_retained(self.history(), draft, clock, retained)
            blobs = stores.verify.blobs_of(draft, self.get)
            copy_blobs(self._db, self._files, self._draft, blobs)
            draft.forget(blobs & self.forgotten() - draft._blob_digests())
            return blobs

        self._rewrite(fill, empty=True)

    def _rewrite(self, fill: Callable[[SqliteStore, RecordedClock], set[str]], empty: bool = False) -> None:
        """Replace the tables by those of a draft, which is filled and verified first; closes the store.

        The draft begins empty or as a copy. `fill` returns the blobs that it refers to; the files of others
        are removed.
        """
        self._writer.close()  # its numbers would not be those of the rewritten tables
        draft, clock = self._draft, stores.retention.RecordedClock()
        try:
            if not empty:
                copy_tables(self._db, draft)
                copy_blobs(self._db, self._files, draft, {digest for digest, _ in self._files.files()})
            target = SqliteStore(draft, compression=self._compression, clock=clock, busy=None)
            try:
                target._db.execute("PRAGMA synchronous = OFF")  # it is synced with the store
                blobs = fill(target, clock)
                if problems := stores.verify.verify(target):
                    raise StoreDamaged("nothing was changed: " + "; ".join(problems[:3]))
                newest = reads.newest_event(target._reader)
            finally:
                target.close()
            # The number must never be above that of the tables, whichever are there after a kill.
            if self._lock:
                self._lock.mark(min(newest, reads.newest_event(self._db)))
            replace_tables(self._db, draft)
            if self._lock:
                self._lock.mark(newest)
            for file in unneeded(self._files, blobs):
                file.unlink()
        except (OSError, apsw.Error) as problem:
            raise StoreFault(f"cannot rewrite the store {self.path}: {problem}") from problem
        finally:
            remove_draft(draft)
            self.close()

    def close(self) -> None:
        """Finish what is queued, fold the log into the file, free the lock.

        One who only reads does not fold it: what others wrote is left as it is.
        """
        if self._lock and self._lock.is_free:
            return
        with self._reader_lock:  # a read that is under way comes to its end
            if self.readonly and _size(self._log_path) > 0:
                self._reader.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
            self._reader.close()
        if self._copy:
            self._copy.cleanup()
        if self._lock:
            self._writer.close()
            try:
                self._leave()
                self._db.close()
            finally:
                self._lock.free()


class SqliteScheme:
    """Stores by the path of their file."""

    def exists(self, address: str) -> bool:
        return Path(address).exists()

    def owner(self, address: str) -> dict[str, int] | None:
        return owner(Path(f"{address}.lock"))

    def versions(self, address: str) -> tuple[int, int]:
        db = apsw.Connection(address, flags=apsw.SQLITE_OPEN_READONLY)
        try:
            return schema.check(db), len(schema.MIGRATIONS)
        finally:
            db.close()

    def own(self, address: str, wait: float | None, compression: str) -> SqliteStore:
        return SqliteStore(address, wait=wait, compression=compression)

    def read(self, address: str) -> SqliteStore:
        return SqliteStore(address, readonly=True)
