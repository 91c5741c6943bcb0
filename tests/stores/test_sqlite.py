from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import apsw
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.contracts import Op, RunQuery, StreamsBlobs
from peira.core.ids import digest, digest_bytes
from peira.core.log.events import RunFinished, RunNoted, Status
from peira.errors import Invalid, StoreDamaged, StoreFault, Unknown
from peira.stores.blobs import LARGE
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteScheme, SqliteStore, reads
from peira.stores.sqlite.lock import OwnerLock
from peira.stores.sqlite.schema import MIGRATIONS, check, migrate
from peira.stores.verify import verify
from peira.testing import StoreSuite
from peira.testing.stores.actions import accept, claimed, everything, finished, plan_run, recorded
from peira.testing.stores.calls import intended

from .former_schemas import turn_back

COMPRESSIBLE = b"the same words again and again " * 10_000


class TestSqliteStore(StoreSuite):
    durable = True
    scheme = SqliteScheme()

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "store.db")
        yield store
        store.close()

    def reopen(self, store: SqliteStore) -> SqliteStore:
        store.close()
        return SqliteStore(store.path)


class TestSqliteStoreWithWriterProcess(StoreSuite):
    """The same, where a process of its own commits from the beginning."""

    durable = True
    scheme = SqliteScheme()

    @pytest.fixture
    def store(self, tmp_path: Path) -> Iterator[SqliteStore]:
        store = SqliteStore(tmp_path / "store.db", busy=0)
        yield store
        store.close()

    def reopen(self, store: SqliteStore) -> SqliteStore:
        store.close()
        return SqliteStore(store.path, busy=0)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    store = SqliteStore(path)
    yield store
    store.close()


def filled(path: Path, tasks: int = 3) -> str:
    """A closed store with one run in it; returns the run."""
    store = SqliteStore(path)
    run = plan_run(store)
    for i in range(tasks):
        accept(store, run, claimed(f"t{i}"), finished(f"t{i}"))
    store.close()
    return run


class TestOpening:
    def test_every_owner_raises_the_incarnation(self, path: Path) -> None:
        incarnations = []
        for _ in range(3):
            store = SqliteStore(path)
            incarnations.append(store.incarnation)
            store.close()
        assert incarnations == [1, 2, 3]

    def test_folders_are_made(self, tmp_path: Path) -> None:
        store = SqliteStore(tmp_path / "some" / "where" / "store.db")
        assert store.path.exists()
        store.close()

    def test_commits_are_synced(self, store: SqliteStore) -> None:
        assert store._db.execute("PRAGMA synchronous").get == 2
        assert store._db.execute("PRAGMA journal_mode").get == "wal"
        assert store._db.execute("PRAGMA wal_autocheckpoint").get == 4000

    def test_a_new_owner_first_folds_in_the_log_of_a_dead_one(self, path: Path) -> None:
        store = SqliteStore(path)
        run = plan_run(store)
        accept(store, run, claimed("a"), finished("a"))
        crashed = path.with_name("crashed.db")
        for end in ("", "-wal"):
            shutil.copy(f"{path}{end}", f"{crashed}{end}")
        store.close()
        again = SqliteStore(crashed)
        alone = path.with_name("alone.db")
        shutil.copy(crashed, alone)
        again.close()
        reader = SqliteStore(alone, readonly=True)
        assert len(reader.events(run)) == 4
        reader.close()

    def test_a_place_that_cannot_be_written_is_a_fault(self, tmp_path: Path) -> None:
        (tmp_path / "file").write_text("in the way")
        with pytest.raises(StoreFault, match="cannot open the store"):
            SqliteStore(tmp_path / "file" / "store.db")

    def test_closing_twice_and_using_it_afterwards(self, path: Path) -> None:
        store = SqliteStore(path)
        store.close()
        store.close()
        with pytest.raises(StoreFault, match="closed"):
            store.put(b"late")

    def test_read_only_there_must_be_a_store(self, path: Path) -> None:
        with pytest.raises(Unknown, match="no store at"):
            SqliteStore(path, readonly=True)
        assert not path.exists()

    def test_read_only_changes_nothing(self, path: Path) -> None:
        run = filled(path)
        before = path.read_bytes()
        reader = SqliteStore(path, readonly=True)
        assert len(reader.events(run)) == 8
        assert verify(reader) == []
        reader.close()
        assert path.read_bytes() == before

    def test_an_unknown_compression_is_refused(self, path: Path) -> None:
        with pytest.raises(Invalid, match=r"'lzma'.*none or zstd"):
            SqliteStore(path, compression="lzma")
        assert not path.exists()


class TestSchemas:
    @pytest.mark.parametrize("version", range(1, len(MIGRATIONS) + 1))
    @pytest.mark.parametrize("readonly", [False, True])
    def test_a_store_of_every_earlier_schema_opens(self, path: Path, version: int, readonly: bool) -> None:
        run = filled(path)
        store = SqliteStore(path)
        accept(store, run, claimed("u"), recorded("u", "step"), intended("u", "call"), finished("u"))
        before = everything(store), store.about([digest("u")])
        store.close()
        turn_back(path, version)
        store = SqliteStore(path, readonly=readonly)
        assert (everything(store), store.about([digest("u")])) == before
        assert verify(store) == []
        store.close()

    def test_a_store_of_a_newer_peira_is_refused_and_let_alone(self, path: Path) -> None:
        filled(path)
        db = apsw.Connection(str(path))
        db.execute("PRAGMA user_version = 99")
        db.close()
        before = path.read_bytes()
        for readonly in (False, True):
            with pytest.raises(StoreDamaged, match=r"schema 99.*upgrade"):
                SqliteStore(path, readonly=readonly)
        assert path.read_bytes() == before

    def test_a_refused_store_is_not_kept_locked(self, path: Path) -> None:
        self.test_a_store_of_a_newer_peira_is_refused_and_let_alone(path)
        path.unlink()
        SqliteStore(path).close()


class TestWhatIsNoStore:
    @pytest.mark.parametrize("readonly", [False, True])
    @pytest.mark.parametrize(
        "content", [b"not a database, but a text\n" * 100, b"SQLite format 3\0" + b"\1" * 5000]
    )
    def test_a_file_that_is_no_database(self, path: Path, content: bytes, readonly: bool) -> None:
        path.write_bytes(content)
        with pytest.raises(StoreDamaged, match=r"store\.db"):
            SqliteStore(path, readonly=readonly)
        assert path.read_bytes() == content

    def test_a_store_whose_tables_are_created_between_two_statements_of_a_reader(self, path: Path) -> None:
        reader, owner = apsw.Connection(str(path)), apsw.Connection(str(path))
        owner.execute("PRAGMA journal_mode = WAL")
        statements: list[str] = []

        def meanwhile(_cursor: object, statement: str, _bound: object) -> bool:
            statements.append(statement)
            if len(statements) == 2:
                migrate(owner)
            return True

        reader.exec_trace = meanwhile
        assert check(reader) == 0
        reader.execute("SELECT 1").fetchall()
        assert check(reader) == len(MIGRATIONS)

    @pytest.mark.parametrize("readonly", [False, True])
    def test_the_database_of_another_program(self, path: Path, readonly: bool) -> None:
        db = apsw.Connection(str(path))
        db.execute("CREATE TABLE theirs(x); INSERT INTO theirs VALUES (1)")
        db.close()
        before = path.read_bytes()
        with pytest.raises(StoreDamaged, match="not a peira store"):
            SqliteStore(path, readonly=readonly)
        assert path.read_bytes() == before

    @pytest.mark.parametrize("readonly", [False, True])
    @pytest.mark.parametrize("share", [0.1, 0.5, 0.95])
    def test_a_store_that_was_cut_short(self, path: Path, share: float, readonly: bool) -> None:
        filled(path, tasks=400)
        whole = path.read_bytes()
        cut = whole[: int(len(whole) * share)]
        path.write_bytes(cut)
        with pytest.raises(StoreDamaged, match="damaged"):
            SqliteStore(path, readonly=readonly)
        assert path.read_bytes() == cut

    def test_a_store_with_a_torn_page(self, path: Path) -> None:
        run = filled(path, tasks=400)
        size = path.stat().st_size
        with path.open("r+b") as file:
            file.seek(size // 8192 * 4096)
            file.write(b"\xff" * (size // 2))
        store = SqliteStore(path, readonly=True)
        assert any("database" in problem for problem in verify(store))
        with pytest.raises(StoreDamaged, match="damaged"):
            store.events(run)
        store.close()

    def test_a_folder(self, tmp_path: Path) -> None:
        with pytest.raises(StoreFault, match="cannot open"):
            SqliteStore(tmp_path)


class TestBlobs:
    def stored(self, store: SqliteStore, data: bytes) -> int:
        return next(size for kept, size, _ in store.blobs() if kept == digest_bytes(data))

    @pytest.mark.parametrize(
        "data", [COMPRESSIBLE[: LARGE // 2], COMPRESSIBLE], ids=["in the table", "in a file"]
    )
    def test_compression_acts_and_either_is_read(self, path: Path, data: bytes) -> None:
        sizes = {}
        for compression in ("zstd", "none"):
            store = SqliteStore(path.with_name(compression), compression=compression)
            store.put(data)
            sizes[compression] = self.stored(store, data)
            store.close()
        assert sizes["none"] == len(data)
        assert sizes["zstd"] < len(data) / 10
        for compression in ("zstd", "none"):
            store = SqliteStore(path.with_name("zstd"), compression=compression)
            assert store.get(digest_bytes(data)) == data
            assert store.put(data) == digest_bytes(data)
            assert [wrong for _, _, wrong in store.blobs()] == [""]
            store.close()

    def test_large_ones_go_to_files(self, store: SqliteStore) -> None:
        small, large = store.put(bytes(LARGE)), store.put(bytes(LARGE + 1))
        files = [name for name, _ in store._files.files()]
        assert files == [large]
        assert small not in files

    def test_a_file_that_was_changed_is_not_handed_out(self, store: SqliteStore) -> None:
        for compression, data in (("zstd", COMPRESSIBLE), ("none", os.urandom(2 * LARGE))):
            digest = store.put(data)
            [file] = [file for name, file in store._files.files() if name == digest]
            content = bytearray(file.read_bytes())
            content[len(content) // 2] ^= 1
            file.write_bytes(content)
            with pytest.raises(StoreDamaged, match=digest):
                store.get(digest)
            assert any(digest in problem for problem in verify(store)), compression

    def test_a_draft_left_by_a_killed_owner_is_found_and_then_removed(self, path: Path) -> None:
        script = "from peira.stores.sqlite import *; import sys; SqliteStore(sys.argv[1]).put(bytes(99_999))"
        env = {**os.environ, "PEIRA_FAILPOINT": "blob.before_rename"}
        assert subprocess.run([sys.executable, "-c", script, str(path)], env=env).returncode == -9
        reader = SqliteStore(path, readonly=True)
        [problem] = verify(reader)
        assert "never finished" in problem
        reader.close()
        store = SqliteStore(path)
        assert verify(store) == []
        store.close()

    def test_a_disk_that_refuses_a_file_is_a_fault(self, store: SqliteStore) -> None:
        store._files.folder.write_text("in the way")
        with pytest.raises(StoreFault, match="cannot be written"):
            store.put(bytes(LARGE + 1))
        assert store.get(store.put(b"small")) == b"small"


class TestWriter:
    def test_what_it_cannot_write_leaves_nobody_waiting(self, path: Path) -> None:
        store = SqliteStore(path)
        run = plan_run(store)
        bad = claimed("x").__class__("work", "work", "owner", ("not hexadecimal",))
        with pytest.raises(StoreFault):
            accept(store, run, bad)
        with pytest.raises(StoreFault):
            store.put(b"after that")
        store.close()
        again = SqliteStore(path)
        assert verify(again) == []
        again.close()

    def test_records_are_told_after_they_are_durable_and_before_anybody_waiting(self, path: Path) -> None:
        told: list[str] = []

        def seen(records: list) -> None:
            other = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
            count = other.execute("SELECT count(*) FROM event").get
            other.close()
            told.extend(f"{type(record.event).__name__} {count}" for record in records)

        store = SqliteStore(path, on_commit=seen)
        run = plan_run(store)
        accept(store, run, RunFinished(Status.cancelled))
        assert told == ["RunPlanned 1", "RunStarted 2", "RunFinished 3"]
        store.close()

    def test_closing_finishes_what_is_queued(self, path: Path) -> None:
        store = SqliteStore(path)
        run = plan_run(store)
        pending = [store.commit([Op(run, (claimed(f"t{i}"),))]) for i in range(300)]
        store.close()
        assert all(future.result() == [None] for future in pending)
        again = SqliteStore(path)
        assert len(again.find("task", [digest(f"t{i}") for i in range(300)])) == 300
        again.close()


def test_a_copy_of_a_closed_store_is_a_store(path: Path) -> None:
    run = filled(path)
    copy = path.with_name("copy.db")
    shutil.copy(path, copy)
    store = SqliteStore(copy, readonly=True)
    assert len(store.events(run)) == 8
    store.close()


@settings(max_examples=20)
@given(st.lists(st.integers(0, 3), max_size=12))
def test_the_newest_event_is_found_without_reading_all(order: list[int]) -> None:
    with TemporaryDirectory() as folder:
        store = SqliteStore(Path(folder, "s.db"))
        runs: dict[int, str] = {}
        for number in order:
            if number not in runs:
                runs[number] = plan_run(store)
            accept(store, runs[number], RunNoted("more"))
        store.close()
        db = apsw.Connection(str(Path(folder, "s.db")))
        assert reads.newest_event(db) == db.execute("SELECT coalesce(max(n), 0) FROM event").get
        steps = [row[3] for row in db.execute(f"EXPLAIN QUERY PLAN {reads.NEWEST_EVENT}")]
        assert any(step.startswith("SEARCH event") for step in steps)
        assert not any(step.startswith("SCAN event") for step in steps)
        db.close()


def test_a_reader_waits_for_an_owner_that_is_creating_the_tables(tmp_path: Path) -> None:
    """Whoever looks in the moment in which a store comes into being was told that it is in use."""
    db = apsw.Connection(str(tmp_path / "s.db"))
    db.execute("PRAGMA journal_mode = WAL")
    migrate(db, 2)
    lock = OwnerLock(tmp_path / "s.db.lock")

    def go_on() -> None:
        time.sleep(0.3)
        migrate(db)
        db.close()

    owner = threading.Thread(target=go_on)
    owner.start()
    reader = SqliteStore(tmp_path / "s.db", readonly=True)
    assert reader.runs(RunQuery()) == []
    reader.close()
    owner.join()
    lock.free()


# Blobs in pieces


SIZES = [0, 10, 70_000, 3_000_000]


def pieces_of(data: bytes) -> list[bytes]:
    return [data[at : at + 50_000] for at in range(0, len(data), 50_000)]


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("compression", ["zstd", "none"])
def test_a_blob_in_pieces_is_the_blob(tmp_path: Path, size: int, compression: str) -> None:
    data = b"".join(b"%d," % n for n in range(size))[:size]
    store = SqliteStore(tmp_path / "s.db", compression=compression)
    assert isinstance(store, StreamsBlobs)
    digest = store.put_pieces(lambda: pieces_of(data))
    assert digest == store.put(data) == digest_bytes(data)
    assert b"".join(store.get_pieces(digest)) == store.get(digest) == data
    store.close()
    store = SqliteStore(tmp_path / "whole.db", compression=compression)
    assert store.put(data) == digest
    assert b"".join(store.get_pieces(digest)) == data
    store.close()


def test_pieces_of_a_damaged_blob_end_with_the_damage(tmp_path: Path) -> None:
    data = b"".join(b"%d," % n for n in range(500_000))
    store = SqliteStore(tmp_path / "s.db", compression="none")
    digest = store.put(data)
    [file] = [path for path in tmp_path.rglob("*") if path.name == digest[2:]]
    file.write_bytes(data.replace(b"77,", b"78,", 1))
    found = store.get_pieces(digest)
    assert next(found)
    with pytest.raises(StoreDamaged, match="do not match it"):
        list(found)
    with pytest.raises(Unknown):
        list(store.get_pieces("ab" * 32))
    store.close()


def test_not_every_store_has_pieces() -> None:
    assert not isinstance(MemoryStore(), StreamsBlobs)
