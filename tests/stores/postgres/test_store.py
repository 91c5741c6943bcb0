"""What is special of Postgres stores: owners, stale rows, snapshots, lost connections, copies, addresses."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import msgspec
import psycopg
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peira.core.contracts import Op, Retained, RunQuery
from peira.core.ids import digest, digest_bytes
from peira.core.log import events as ev
from peira.core.log.events import RunNoted, State
from peira.errors import Fenced, Invalid, StoreDamaged, StoreFault, StoreInUse, Unknown
from peira.stores.blobs import LARGE
from peira.stores.postgres.address import Address, public_address
from peira.stores.postgres.connection import connect
from peira.stores.postgres.scheme import PostgresScheme
from peira.stores.postgres.store import PostgresStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing.stores.actions import (
    accept,
    claimed,
    commit,
    everything,
    find_task,
    finished,
    plan_run,
    queued,
    recorded,
    spec,
)


@pytest.fixture
def store(postgres_url: str) -> Iterator[PostgresStore]:
    with closing(PostgresStore(postgres_url)) as store:
        yield store


@pytest.fixture
def two(postgres_url: str) -> Iterator[tuple[PostgresStore, PostgresStore]]:
    """Two stores on the same tables, written together."""
    with (
        closing(PostgresStore(postgres_url, shared=True)) as one,
        closing(PostgresStore(postgres_url, shared=True)) as other,
    ):
        yield one, other


def backend(store: PostgresStore) -> int:
    return store._writer.db.info.backend_pid


def cut(postgres_server: str, store: PostgresStore) -> None:
    """End the connection of the store's writer, as a network would."""
    with psycopg.connect(postgres_server, autocommit=True) as db:
        db.execute("SELECT pg_terminate_backend(%s)", (backend(store),))


class TestOwners:
    def test_a_killed_owner_owns_nothing(self, postgres_url: str) -> None:
        script = (
            "import sys, time\nfrom peira.stores.postgres.store import PostgresStore\n"
            f"store = PostgresStore({postgres_url!r})\nprint(store.incarnation, flush=True)\ntime.sleep(60)\n"
        )
        process = subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE)
        assert process.stdout is not None
        number = int(process.stdout.readline())
        scheme = PostgresScheme()
        assert scheme.owner(postgres_url) == {"pid": process.pid, "incarnation": number}
        with pytest.raises(StoreInUse, match=f"process {process.pid}"):
            PostgresStore(postgres_url)
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        with closing(PostgresStore(postgres_url, wait=10.0)) as store:
            assert store.incarnation == number + 1

    def test_an_owner_that_was_taken_over_writes_no_more(
        self, postgres_url: str, postgres_server: str
    ) -> None:
        """Its connection was lost, and another process became the owner before it came back."""
        former = PostgresStore(postgres_url)
        run = plan_run(former)
        lock = former._writer.db
        other: list[PostgresStore] = []
        waiting = threading.Thread(target=lambda: other.append(PostgresStore(postgres_url, wait=30.0)))
        waiting.start()
        time.sleep(0.3)
        with psycopg.connect(postgres_server, autocommit=True) as db:
            db.execute("SELECT pg_terminate_backend(%s)", (lock.info.backend_pid,))
        waiting.join()
        with pytest.raises(StoreFault, match="taken the store over"):
            former.commit([Op(run, (RunNoted("late"),))]).result()
        former.close()
        [owner] = other
        accept(owner, run, RunNoted("in time"))
        assert verify(owner) == []
        owner.close()

    def test_a_member_that_was_declared_dead_writes_no_more(
        self, store: PostgresStore, postgres_server: str
    ) -> None:
        """Also if its connection is as good as ever."""
        run = plan_run(store)
        with psycopg.connect(postgres_server, autocommit=True) as db:
            schema = Address.parse(store.address).schema
            db.execute(f"UPDATE {schema}.member SET state = 'dead' WHERE n = %s", (store.incarnation,))
        with pytest.raises(StoreFault, match="taken the store over"):
            store.commit([Op(run, (RunNoted("late"),))]).result()
        assert len(store.events(run)) == 2

    def test_who_shares_a_store_keeps_out_who_wants_it_alone(self, two, postgres_url: str) -> None:
        with pytest.raises(StoreInUse):
            PostgresStore(postgres_url)

    def test_who_reads_writes_nothing(self, store: PostgresStore) -> None:
        run = plan_run(store)
        with closing(PostgresStore(store.address, readonly=True)) as reader:
            with pytest.raises(StoreFault, match="reading"):
                reader.commit([Op(run, (RunNoted("no"),))])
            with pytest.raises(StoreFault, match="reading"):
                reader.put(b"no")

    def test_after_closing_nothing_is_taken(self, store: PostgresStore) -> None:
        store.close()
        with pytest.raises(StoreFault, match="closed"):
            store.put(b"late")


class TestLostConnections:
    def test_a_lost_connection_is_opened_again(self, store: PostgresStore, postgres_server: str) -> None:
        run = plan_run(store)
        for n in range(3):
            accept(store, run, claimed(f"t{n}"))
            cut(postgres_server, store)
            accept(store, run, finished(f"t{n}"))
            assert find_task(store, f"t{n}").state is State.succeeded
        assert verify(store) == []

    def test_readers_come_back_too(self, store: PostgresStore, postgres_server: str) -> None:
        run = plan_run(store)
        with closing(PostgresStore(store.address, readonly=True)) as reader:
            with psycopg.connect(postgres_server, autocommit=True) as db:
                db.execute("SELECT pg_terminate_backend(%s)", (reader._reader._db.info.backend_pid,))
            assert [found.id for found in reader.runs(RunQuery())] == [run]

    @pytest.mark.parametrize("at", range(12))
    def test_what_is_cut_off_anywhere_in_a_commit_is_committed_once(
        self, at: int, postgres_url: str, proxy: Any
    ) -> None:
        """The server's answer number `at` does not arrive, and the connection is gone: was it committed?"""
        with closing(PostgresStore(proxy.address(postgres_url))) as store:
            run = plan_run(store)
            accept(store, run, claimed("a"))
            proxy.cut(at)
            accept(store, run, recorded("a", "s"))  # from rows at hand: one statement
            assert store.commit([Op(run, (finished("a"),), (b"blob",))]).result() == [None]
            assert isinstance(commit(store, run, finished("a")), Fenced)  # refused under locks: several
            accept(store, run, ev.RunFinished(ev.Status.completed))
            assert proxy.cuts == 1
            kinds = [type(record.event).__name__ for record in store.events(run)]
            assert kinds == [
                "RunPlanned",
                "RunStarted",
                "TasksClaimed",
                "StepRecorded",
                "TaskFinished",
                "RunFinished",
            ]
            assert store.get(digest_bytes(b"blob")) == b"blob"
            assert verify(store) == []

    def test_a_machine_that_is_gone_is_noticed_within_half_a_minute(self, postgres_url: str) -> None:
        """Unless the address says otherwise."""
        with closing(connect(Address.parse(postgres_url))) as db:
            assert db.info.get_parameters() | {"keepalives_idle": "10", "tcp_user_timeout": "25000"} == (
                db.info.get_parameters()
            )
        with closing(connect(Address.parse(f"{postgres_url}&keepalives_idle=99"))) as db:
            assert db.info.get_parameters()["keepalives_idle"] == "99"


class TestTwoWriters:
    def test_a_refusal_is_never_folded_from_old_rows(self, two) -> None:
        """One has the row at hand as running; the other interrupts it; a claim must be accepted then."""
        one, other = two
        run = plan_run(one)
        accept(one, run, claimed("a"))
        accept(other, run, ev.TasksInterrupted((digest("a"),)))
        accept(one, run, claimed("a", epoch=2))
        assert isinstance(commit(other, run, finished("a", epoch=1)), Fenced)
        accept(other, run, finished("a", epoch=2))
        assert verify(one) == []

    def test_an_acceptance_is_never_folded_from_old_rows(self, two) -> None:
        one, other = two
        run = plan_run(one)
        accept(one, run, claimed("a"))
        accept(other, run, ev.TasksInterrupted((digest("a"),)), claimed("a", epoch=2))
        assert isinstance(commit(one, run, finished("a", epoch=1)), Fenced)
        assert isinstance(commit(one, run, recorded("a", "s", epoch=1)), Fenced)
        accept(one, run, recorded("a", "s", epoch=2), finished("a", epoch=2))
        assert verify(other) == []

    def test_a_row_that_is_only_read_is_never_an_old_one(self, two) -> None:
        """A step of an attempt that was interrupted elsewhere, with its row still at hand as running."""
        one, other = two
        run = plan_run(one)
        accept(one, run, claimed("a"))
        accept(other, run, ev.TasksInterrupted((digest("a"),)))
        assert isinstance(commit(one, run, recorded("a", "s")), Fenced)
        assert verify(other) == []

    def test_a_run_that_ended_elsewhere_is_charged(self, two) -> None:
        """An answer to a run that is over adds to what it spent; the run's row at hand is an old one."""
        one, other = two
        run = plan_run(one)
        request = one.put(b"request")
        intent = ev.CallIntended(digest("a"), 1, digest("call"), "m", request, "0")
        accept(one, run, claimed("a"), intent)
        accept(other, run, ev.RunFinished(ev.Status.interrupted, {"planned": 0}))
        answer = ev.CallAnswered(digest("a"), digest("call"), msgspec.Raw(b"1"), input=3, output=4, cost=0.5)
        accept(one, run, answer)
        [spent] = other.find("run", [run])[run].spent
        assert (spent.input, spent.output, spent.money) == (3, 4, 0.5)
        assert verify(other) == []

    def test_a_call_that_was_answered_elsewhere_keeps_its_answer(self, two) -> None:
        """Its sender has the row at hand as on its way; both answers come, and the first one stays."""
        one, other = two
        run, key = plan_run(one), digest("call")
        intent = ev.CallIntended(digest("a"), 1, key, "m", one.put(b"request"), "0")
        accept(one, run, claimed("a"), intent)
        accept(other, run, ev.CallAnswered(digest("a"), key, msgspec.Raw(b"1"), input=3, output=4))
        late = ev.CallAnswered(digest("a"), key, msgspec.Raw(b"2"), input=3, output=4)
        assert isinstance(commit(one, run, late), Fenced)
        assert bytes(one.find("call", [key])[key].value) == b"1"
        assert verify(other) == []

    def test_the_status_of_a_run_is_never_folded_from_old_rows(self, two) -> None:
        one, other = two
        run = plan_run(one)
        accept(one, run, RunNoted("going on"))
        accept(other, run, ev.RunFinished(ev.Status.completed, {"planned": 0}))
        assert isinstance(commit(one, run, ev.RunFinished(ev.Status.cancelled)), Fenced)
        accept(one, run, ev.RunReopened("key"))
        assert verify(other) == []

    @settings(max_examples=15, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
    @given(data=st.data())
    def test_two_writers_have_one_history(self, two, data: st.DataObject) -> None:
        """Threads on two stores commit what they drew: dense numbers, rows as replayed, each task one end."""
        runs = [plan_run(two[0]), plan_run(two[1])]
        names = [f"{runs[0]}-{n}" for n in range(3)]
        acts = st.lists(
            st.tuples(st.sampled_from(names), st.sampled_from(("claim", "end", "cut")), st.integers(1, 3)),
            max_size=12,
        )
        drawn = [data.draw(acts), data.draw(acts)]
        ended: list[str] = []

        def work(me: int) -> None:
            for name, act, epoch in drawn[me]:
                event = {
                    "claim": claimed(name, epoch=epoch),
                    "end": finished(name, epoch=epoch),
                    "cut": ev.TasksInterrupted((digest(name),)),
                }[act]
                if commit(two[me], runs[epoch % 2], event) is None and act == "end":
                    ended.append(name)

        threads = [threading.Thread(target=work, args=(me,)) for me in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(ended) == len(set(ended))
        for run in runs:
            records = two[0].events(run)
            assert [record.seq for record in records] == list(range(1, len(records) + 1))
        assert verify(two[1]) == []

    def test_a_store_is_verified_while_it_is_written(self, two) -> None:
        one, other = two
        run = plan_run(one)
        stop = threading.Event()

        def write() -> None:
            n = 0
            while not stop.is_set():
                accept(one, run, claimed(f"t{n}"), finished(f"t{n}"))
                n += 1

        writing = threading.Thread(target=write)
        writing.start()
        try:
            for _ in range(5):
                assert verify(other) == []
        finally:
            stop.set()
            writing.join()

    def test_a_task_that_events_of_others_separate_keeps_its_record(self, two) -> None:
        """Also if it is only read in between: a step far behind the claim."""
        one, other = two
        run = plan_run(one)
        accept(one, run, claimed("a"))
        other.commit([Op(run, (RunNoted("x"),)) for _ in range(1500)]).result()
        accept(other, run, recorded("a", "s"))
        other.commit([Op(run, (RunNoted("x"),)) for _ in range(1500)]).result()
        accept(one, run, finished("a"))
        kinds = [type(record.event).__name__ for record in other.about([digest("a")])]
        assert kinds == ["TasksClaimed", "StepRecorded", "TaskFinished"]
        assert verify(one) == []


class TestBlobs:
    def test_large_blobs_are_in_a_folder_that_the_store_names(
        self, postgres_url: str, tmp_path: Path
    ) -> None:
        folder = tmp_path / "blobs"
        data = bytes(range(256)) * 1000
        with closing(PostgresStore(f"{postgres_url}&blobs={folder}")) as store:
            run = plan_run(store)
            large = store.put(data)
            accept(store, run, RunNoted("x"), blobs=(data + b"more",))
            small = store.put(b"small")
            assert verify(store) == []
        assert len([file for file in folder.glob("*/*") if file.is_file()]) == 2
        with closing(PostgresStore(postgres_url, readonly=True)) as reader:
            assert reader.get(large) == data
            assert reader.get(small) == b"small"
            assert reader.get(digest_bytes(data + b"more")) == data + b"more"
            assert reader.size() > len(data)
        with pytest.raises(Invalid, match=r"large blobs are in .*blobs, not in"):
            PostgresStore(f"{postgres_url}&blobs={tmp_path}")
        shutil.rmtree(folder)
        with closing(PostgresStore(postgres_url, readonly=True)) as reader:
            with pytest.raises(StoreDamaged, match="is not in"):
                reader.get(large)
            assert len(verify(reader)) == 2

    def test_without_a_folder_they_are_in_the_database(self, store: PostgresStore) -> None:
        data = os.urandom(10 * LARGE)
        assert store.get(store.put(data)) == data
        assert verify(store) == []


class TestCopies:
    def test_a_backup_is_a_sqlite_store_with_all_that_was_recorded(
        self, store: PostgresStore, tmp_path: Path
    ) -> None:
        run = plan_run(store, tags=("nightly",))
        large = store.put(b"large" * 50_000)
        accept(store, run, claimed("a", "b"), recorded("a", "s"), finished("a"))
        artifact = ev.Artifact("big", large, 250_000)
        accept(store, run, ev.Attached(digest("b"), 1, artifact))
        store.backup(tmp_path / "copy.db")
        with closing(SqliteStore(tmp_path / "copy.db", readonly=True)) as copy:
            assert everything(copy) == everything(store)
            assert copy.get(large) == b"large" * 50_000
            assert verify(copy) == []
        with pytest.raises(Invalid, match="exists already"):
            store.backup(tmp_path / "copy.db")

    @pytest.mark.parametrize("place", ["backup.before_blobs", "backup.before_rename"])
    def test_a_backup_that_is_cut_off_is_no_store_and_is_completed(
        self, place: str, store: PostgresStore, tmp_path: Path
    ) -> None:
        accept(store, plan_run(store), claimed("a"), finished("a"))
        store.put(b"large" * 50_000)
        script = (
            "import sys\nfrom pathlib import Path\nfrom peira.stores.postgres.store import PostgresStore\n"
            "PostgresStore(sys.argv[1], readonly=True).backup(Path(sys.argv[2]))\n"
        )
        command = [sys.executable, "-c", script, store.address, str(tmp_path / "copy.db")]
        assert subprocess.run(command, env={**os.environ, "PEIRA_FAILPOINT": place}).returncode == -9
        assert not (tmp_path / "copy.db").exists()
        store.backup(tmp_path / "copy.db")
        assert not (tmp_path / "copy.db.copy").exists()
        with closing(SqliteStore(tmp_path / "copy.db", readonly=True)) as copy:
            assert everything(copy) == everything(store)

    def test_the_runs_of_a_file_are_added(self, store: PostgresStore, tmp_path: Path) -> None:
        """What both have made is there once, and adding it again changes nothing."""
        ours = plan_run(store)
        accept(store, ours, claimed("a", "b"), finished("a"))
        with closing(SqliteStore(tmp_path / "other.db")) as other:
            theirs = plan_run(other, tags=("laptop",))
            big = ev.Artifact("big", other.put(b"x" * LARGE * 2), 2 * LARGE)
            attached = ev.Attached(digest("c"), 1, big)
            accept(other, theirs, claimed("a", "c"), finished("a"), attached, finished("c"))
            accept(other, theirs, ev.RunFinished(ev.Status.completed))
            assert store.merge(other).shared == 1
            with closing(PostgresStore(store.address)) as again:
                assert [run.id for run in again.runs(RunQuery(tag="laptop"))] == [theirs]
                assert find_task(again, "a").run == ours
                assert find_task(again, "c") == find_task(other, "c")
                assert again.events(theirs) == other.events(theirs)
                assert again.get(digest_bytes(b"x" * LARGE * 2)) == b"x" * LARGE * 2
                assert verify(again) == []
                assert again.merge(other).records == 0

    def test_results_that_differ_are_told_and_nothing_is_added(
        self, store: PostgresStore, tmp_path: Path
    ) -> None:
        accept(store, plan_run(store), claimed("a"), finished("a"))
        with closing(SqliteStore(tmp_path / "other.db")) as other:
            accept(other, plan_run(other), claimed("a"), finished("a", value="2"))
            with pytest.raises(Invalid, match="has another result there"):
                store.merge(other)
        with closing(PostgresStore(store.address, readonly=True)) as again:
            assert len(again.runs(RunQuery())) == 1

    def test_runs_are_deleted_all_or_nothing(self, store: PostgresStore) -> None:
        kept, gone = plan_run(store), plan_run(store)
        accept(store, kept, claimed("a"), finished("a"))
        accept(store, gone, claimed("b"), finished("b"), blobs=(b"nobody needs this",))
        accept(store, gone, ev.RunFinished(ev.Status.completed))
        row, number = find_task(store, "a"), store.incarnation
        store.retain(Retained(store.find("run", [gone]), {digest("a")}, set()))
        with closing(PostgresStore(store.address)) as again:
            assert again.incarnation == number + 1
            assert [run.id for run in again.runs(RunQuery())] == [kept]
            assert find_task(again, "a") == row
            assert again.find("task", [digest("b")]) == {}
            with pytest.raises(Unknown):
                again.get(digest_bytes(b"nobody needs this"))
            accept(again, kept, claimed("c"), finished("c"))
            assert verify(again) == []

    def test_what_cannot_be_kept_soundly_is_not_deleted(self, store: PostgresStore) -> None:
        kept = plan_run(store)
        gone = plan_run(store)
        accept(store, gone, claimed("a"))
        accept(store, kept, finished("a"))  # needs what the other began
        accept(store, gone, ev.RunFinished(ev.Status.completed))
        with pytest.raises((StoreDamaged, Fenced)):
            store.retain(Retained(store.find("run", [gone]), set(), set()))
        with closing(PostgresStore(store.address)) as again:
            assert {run.id for run in again.runs(RunQuery())} == {kept, gone}
            assert verify(again) == []


class TestTables:
    def test_tables_of_others_are_left_alone(self, postgres_url: str, postgres_server: str) -> None:
        schema = Address.parse(postgres_url).schema
        with psycopg.connect(postgres_server, autocommit=True) as db:
            db.execute(f"CREATE SCHEMA {schema}; CREATE TABLE {schema}.theirs (x int)")
        with pytest.raises(StoreDamaged, match="not a peira store"):
            PostgresStore(postgres_url)
        with pytest.raises(StoreDamaged, match="not a peira store"):
            PostgresScheme().exists(postgres_url)

    def test_an_empty_schema_becomes_a_store(self, postgres_url: str, postgres_server: str) -> None:
        schema = Address.parse(postgres_url).schema
        with psycopg.connect(postgres_server, autocommit=True) as db:
            db.execute(f"CREATE SCHEMA {schema}")
        assert not PostgresScheme().exists(postgres_url)
        with closing(PostgresStore(postgres_url)) as store:
            plan_run(store)
            assert verify(store) == []

    def test_tables_of_a_newer_peira_are_refused(self, store: PostgresStore, postgres_server: str) -> None:
        address = store.address
        store.close()
        with psycopg.connect(postgres_server, autocommit=True) as db:
            db.execute(f"UPDATE {Address.parse(address).schema}.store SET version = 99")
        for how in ({}, {"readonly": True}):
            with pytest.raises(StoreDamaged, match="schema 99"):
                PostgresStore(address, **how)

    def test_many_make_the_tables_at_once(self, postgres_url: str) -> None:
        made: list[PostgresStore] = []
        threads = [
            threading.Thread(target=lambda: made.append(PostgresStore(postgres_url, shared=True)))
            for _ in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert sorted(store.incarnation for store in made) == [1, 2, 3, 4, 5, 6]
        for store in made:
            store.close()

    def test_damage_is_found(self, store: PostgresStore, postgres_server: str) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a", "b"), finished("a"), queued(spec("c")))
        assert verify(store) == []
        schema = Address.parse(store.address).schema
        with psycopg.connect(postgres_server, autocommit=True) as db:
            db.execute(f"SET search_path = {schema}")
            db.execute("UPDATE task SET attempts = 7 WHERE id = %s", (bytes.fromhex(digest("b")),))
            assert verify(store) == [f"task {digest('b')[:12]}: attempts is 7 but by its events 1"]
            db.execute("UPDATE task SET events = '{1,90,90}' WHERE id = %s", (bytes.fromhex(digest("a")),))
            assert any("does not say that" in problem for problem in verify(store))
            db.execute("UPDATE event SET body = '\\xff' WHERE seq = 3")
            assert any("cannot be read" in problem for problem in verify(store))


class TestAddresses:
    def test_a_password_is_kept_apart(self) -> None:
        for text, password in {
            "postgresql://me:s3cr%40t@db.example:5433/d?schema=a": "s3cr@t",
            "postgresql://me@db.example:5434/d?sslmode=require&password=s3cr%40t": "s3cr@t",
        }.items():
            public = public_address(text)
            address = Address.parse(public)
            assert "s3cr" not in public + str(address) + repr(address)
            assert address.password == password
        assert Address.parse("postgresql://me@elsewhere/d").password is None

    def test_one_store_has_one_address(self) -> None:
        one = Address.parse("postgresql://me@h/d?schema=peira&sslmode=require")
        assert str(one) == str(Address.parse("postgresql://me@h/d?sslmode=require"))
        assert str(one).endswith("schema=peira")
        assert Address.parse(str(one)) == one
        assert one.lock_key != Address.parse("postgresql://me@h/d?schema=other").lock_key

    @pytest.mark.parametrize(
        "text",
        [
            "postgresql://h:port/d",
            "postgresql://h/d?schema=",
            "postgresql://h/d?schema=pg_toast",
            f"postgresql://h/d?schema={'x' * 64}",
            "postgresql://h/d?blobs=here",
            "postgresql://h/d#f",
            "mysql://h/d",
        ],
    )
    def test_what_is_no_address_is_refused(self, text: str) -> None:
        with pytest.raises(Invalid, match="store"):
            Address.parse(text)

    @given(
        st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20).filter(
            lambda name: len(name.encode()) <= 63 and not name.startswith("pg_")
        )
    )
    def test_any_name_of_a_schema_is_kept(self, name: str) -> None:
        address = Address("postgresql://me@h/d", name)
        assert Address.parse(str(address)) == address
