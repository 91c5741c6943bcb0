"""The embedded store: SQLite through apsw, in WAL mode, synced at every commit.

One process owns it for writing (a lock file beside it, an incarnation number inside); any number of
others read it meanwhile.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import apsw
import zstandard

from peira.core.clock import Clock, SystemClock
from peira.core.codec import CODECS, unpack
from peira.core.contracts import CallQuery, Op, Outcome, RunQuery, Tally
from peira.core.events import Record
from peira.core.ids import digest_bytes
from peira.core.state import Call, Run, Task
from peira.errors import Invalid, StoreDamaged, StoreFault, Unknown
from peira.stores.sqlite import reads, schema
from peira.stores.sqlite.blobs import LARGE, BlobFolder
from peira.stores.sqlite.lock import OwnerLock, owner
from peira.stores.sqlite.writer import Request, Writer, claim_ops, claimed

CACHE_KIB = 8 * 1024
"""Random ids touch pages all over: the default cache of 2 MB would be read through again and again."""


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
    ) -> None:
        """Open, and create unless `readonly`. StoreInUse if another process owns it for longer than `wait`.

        `on_commit` is told the records of each commit once they are durable, before anybody waiting is.
        """
        self.path = Path(path)
        self.readonly = readonly
        self._clock = clock or SystemClock()
        if compression not in CODECS:
            raise Invalid(f"compression {compression!r}: choose {' or '.join(CODECS)}")
        self._files = BlobFolder(self.path.with_name(self.path.name + ".blobs"), compression)
        self._lock = None if readonly else self._own(wait)
        self._vfs = vfs
        try:
            self._open(compression, on_commit)
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

    def _open(self, compression: str, on_commit: Callable[[list[Record]], None] | None) -> None:
        self._reader_lock = threading.Lock()
        if self._lock:
            db = self._connect(create=True)
            # A log whose last sync failed reads as whole now, and may not be so on the disk: nothing is added
            # to it before all of it was written to the file, and synced there.
            db.execute("PRAGMA wal_checkpoint")
            schema.migrate(db)
            with db:
                db.execute("UPDATE meta SET value = value + 1 WHERE key = 'incarnation'")
            self.incarnation = int(db.execute("SELECT value FROM meta WHERE key = 'incarnation'").get)
            self._lock.note(self.incarnation)
            self._files.sweep()
            self._db = db
            self._writer = Writer(db, self._clock, compression, on_commit)
        self._reader = self._connect(create=False)
        if schema.outdated(self._reader):
            self._reader.close()
            SqliteStore(self.path, vfs=self._vfs).close()  # whoever owns it brings its tables up to date
            self._reader = self._connect(create=False)
        self._reader.execute("PRAGMA query_only = ON")

    def _connect(self, create: bool) -> apsw.Connection:
        flags = apsw.SQLITE_OPEN_READWRITE | (apsw.SQLITE_OPEN_CREATE if create else 0)
        db = apsw.Connection(str(self.path), flags=flags, vfs=self._vfs)
        db.set_busy_timeout(10_000)
        tables = schema.check(db)
        if create:
            # Each on its own: this one answers with a row, and what came after it would not be run.
            db.execute("PRAGMA journal_mode = WAL")
            db.execute("PRAGMA wal_autocheckpoint = 4000")
        db.execute(f"PRAGMA synchronous = FULL; PRAGMA cache_size = -{CACHE_KIB}")
        # One that was cut off before it had tables holds nothing, and reads as that.
        return db if create or tables else schema.empty()

    @property
    def lock_path(self) -> Path:
        return self.path.with_name(self.path.name + ".lock")

    @property
    def control_path(self) -> Path:
        """The folder where other processes leave commands."""
        return self.path.with_name(self.path.name + ".control")

    def owner(self) -> dict[str, int] | None:
        """Who owns the store for writing now, if anybody does."""
        return owner(self.lock_path)

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        return self._writer.submit(Request([self._spill(op) for op in ops]))

    def _spill(self, op: Op) -> Op:
        """Large blobs go to files now, before the row that names them."""
        if not op.blobs or max(map(len, op.blobs)) <= LARGE:
            return op
        small = tuple(data for data in op.blobs if not self._large(data))
        return Op(op.run, op.events, small)

    def _large(self, data: bytes) -> bool:
        if len(data) <= LARGE:
            return False
        try:
            self._files.write(digest_bytes(data), data)
        except OSError as problem:
            raise StoreFault(
                f"a blob cannot be written ({problem}); what was acknowledged is kept"
            ) from problem
        return True

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> list[Task]:
        taken: list[str] = []

        def choose() -> list[Op]:
            ops = claim_ops(self._db, run, owner, classes, n, self._clock.now())
            taken.extend(claimed(ops))
            return ops

        outcomes = self._writer.submit(Request((), choose)).result()
        found = self.find("task", taken)
        return [found[task] for task, refusal in zip(taken, outcomes, strict=True) if not refusal]

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        with self._reading():
            if kind == "task":
                return {task.id: task for _, task in reads.tasks(self._reader, keys)}
            if kind == "run":
                return {run.id: run for _, run in reads.runs(self._reader, keys)}
            return {call.key: call for _, call in reads.calls(self._reader, keys)}

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[Record]:
        with self._reading():
            return reads.records(self._reader, run, after, limit)

    def put(self, data: bytes) -> str:
        if not self._large(data):
            self._writer.submit(Request([Op("", (), (data,))])).result()
        return digest_bytes(data)

    def get(self, digest: str) -> bytes:
        with self._reading():
            row = self._reader.execute(
                "SELECT codec, data FROM blob WHERE digest = ?", (bytes.fromhex(digest),)
            ).fetchone()
        try:
            data = unpack(row[1], row[0]) if row else self._files.read(digest)
        except FileNotFoundError:
            raise Unknown(f"no blob {digest} in this store") from None
        except zstandard.ZstdError as problem:
            raise StoreDamaged(f"the bytes of blob {digest} cannot be unpacked: {problem}") from problem
        if digest_bytes(data) != digest:
            raise StoreDamaged(f"the bytes of blob {digest} do not match it")
        return data

    def runs(self, query: RunQuery) -> list[Run]:
        with self._reading():
            return reads.listing(self._reader, query)

    def calls(self, query: CallQuery) -> list[Call]:
        with self._reading():
            return reads.called(self._reader, query)

    def tally(self, query: CallQuery) -> Tally:
        with self._reading():
            return reads.tally(self._reader, query)

    def active(self) -> list[Task]:
        with self._reading():
            return reads.active(self._reader)

    def queued(self, cls: str) -> list[Task]:
        with self._reading():
            return reads.queued(self._reader, cls)

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
        for draft in self._files.drafts():
            yield draft.name, draft.stat().st_size, "was begun and never finished"

    def damage(self) -> list[str]:
        """What SQLite finds wrong with the file itself."""
        try:
            found = self._reader.execute("PRAGMA integrity_check").fetchall()
        except apsw.CorruptError as problem:
            return [f"database: {problem}"]
        return [f"database: {line}" for (line,) in found if line != "ok"]

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """The reader's turn; a damaged file is an error of ours, not of SQLite's."""
        with self._reader_lock:
            try:
                yield
            except apsw.CorruptError as problem:
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

    def close(self) -> None:
        """Finish what is queued, fold the log into the file, free the lock."""
        self._reader.close()
        if self._lock:
            self._writer.close()
            try:
                self._db.close()
            finally:
                self._lock.free()
