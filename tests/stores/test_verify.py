"""Every way a store can contradict itself is seen, and a sound one is called sound."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import msgspec
import pytest

from peira.core.codec import encode
from peira.core.contracts import Op
from peira.core.ids import digest, digest_bytes
from peira.core.log import events as ev
from peira.core.log.events import Result, State, Status
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify
from peira.testing.stores.actions import AnyStore, accept, claimed, finished, plan_run, recorded

LARGE = b"large" * 50_000
GOOD = {"planned": 2, "work.succeeded": 1, "work.failed": 1}


def tell(store: AnyStore, counts: dict[str, int] | None = None) -> str:
    """A story with a bit of everything; returns its run."""
    part = store.put(b"[]")
    manifest = store.put(encode({"case_sets": {"all": part}, "sources": {"a.py": part}}))
    run = plan_run(store, manifest=manifest, provenance=store.put(b'{"by":"me"}'), trials=2, tags=("t",))
    accept(store, run, claimed("a", "b"), recorded("a", "s"))
    result = Result(1.0, blob=digest_bytes(LARGE), artifacts=(ev.Artifact("f", digest_bytes(b"file"), 4),))
    accept(store, run, ev.TaskFinished(digest("a"), 1, State.succeeded, result), blobs=(LARGE, b"file"))
    accept(store, run, finished("b", state=State.failed))
    accept(store, run, ev.RunFinished(Status.failures, GOOD if counts is None else counts))
    return run


@pytest.fixture(params=[MemoryStore, SqliteStore])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[AnyStore]:
    made = MemoryStore() if request.param is MemoryStore else SqliteStore(tmp_path / "store.db")
    yield made
    made.close()


def test_a_sound_store_has_no_problems(store: AnyStore) -> None:
    assert verify(store) == []
    tell(store)
    assert verify(store) == []


@pytest.mark.parametrize(
    ("counts", "problem"),
    [
        ({**GOOD, "work.succeeded": 2, "planned": 3}, "counts 2 work.succeeded, its events 1"),
        ({"planned": 1, "work.succeeded": 1}, "counts 0 work.failed, its events 1"),
        ({**GOOD, "other.cancelled": 4}, "counts 4 other.cancelled, its events 0"),
        ({**GOOD, "planned": 5}, "planned 5, but no kind of task adds up to that"),
    ],
)
def test_counts_that_do_not_reconcile(store: AnyStore, counts: dict[str, int], problem: str) -> None:
    tell(store, counts)
    [found] = verify(store)
    assert problem in found
    assert "event 7" in found


def test_counts_may_say_what_was_reused_kept_or_left(store: AnyStore) -> None:
    tell(store, {**GOOD, "planned": 9, "work.reused": 3, "work.kept": 3, "work.left": 1})
    assert verify(store) == []


def test_a_task_that_ends_twice_in_a_run(store: AnyStore) -> None:
    run = plan_run(store)
    accept(store, run, claimed("a"), finished("a", state=State.failed))
    accept(store, run, claimed("a", epoch=2), finished("a", epoch=2))
    [found] = verify(store)
    assert "ends a second time" in found


def test_an_end_that_is_none(store: AnyStore) -> None:
    run = plan_run(store)
    accept(store, run, claimed("a"), finished("a", state=State.waiting))
    assert any("said to end as waiting" in problem for problem in verify(store))


GONE = digest("gone")
NAMING = [
    ev.TaskFinished(digest("a"), 1, State.succeeded, Result(blob=GONE)),
    ev.TaskFinished(digest("a"), 1, State.succeeded, Result(trail=GONE)),
    ev.TaskRetried(digest("a"), 1, Result(artifacts=(ev.Artifact("f", GONE, 1),))),
    ev.Attached(digest("a"), 1, ev.Artifact("f", GONE, 1)),
    ev.StepRecorded(digest("a"), 1, digest("s"), "s", blob=GONE),
    ev.SessionWritten(digest("a"), digest("s"), 1, blob=GONE),
    ev.QuestionAsked(digest("a"), 1, digest("s"), 1.0, blob=GONE),
    ev.CallIntended(digest("a"), 1, digest("c"), "scripted:", GONE, "generate"),
    ev.TasksQueued((ev.TaskSpec(digest("b"), "job", "job.s", payload=GONE),)),
]
"""Events that name a blob, beside those of runs and answers."""


@pytest.mark.parametrize("event", NAMING, ids=lambda event: type(event).__name__)
def test_a_blob_that_is_named_and_not_there(store: AnyStore, event: ev.AnyEvent) -> None:
    run = plan_run(store)
    accept(store, run, claimed("a"), event)
    [found] = verify(store)
    assert found.startswith(f"blob {GONE}: is missing")


@pytest.mark.parametrize("field", ["provenance", "stream"])
def test_what_a_run_rests_on_and_is_not_there(store: AnyStore, field: str) -> None:
    plan_run(store, manifest=store.put(b"{}"), **{field: GONE})
    [found] = verify(store)
    assert found.startswith(f"blob {GONE}: is missing")


def test_an_answer_that_is_not_there(store: AnyStore) -> None:
    run, request = plan_run(store), store.put(b"request")
    accept(store, run, claimed("a"), ev.CallIntended(digest("a"), 1, digest("c"), "m", request, "generate"))
    accept(store, run, ev.CallAnswered(digest("a"), digest("c"), blob=GONE))
    [found] = verify(store)
    assert found.startswith(f"blob {GONE}: is missing")


def test_a_manifest_that_is_not_there_or_names_what_is_not(store: AnyStore) -> None:
    plan_run(store, manifest=digest("gone"))
    [found] = verify(store)
    assert "is missing" in found
    plan_run(store, manifest=store.put(encode({"case_sets": {"all": digest("cases")}})))
    assert any(digest("cases") in problem and "manifest" in problem for problem in verify(store))


def test_a_manifest_that_cannot_be_read(store: AnyStore) -> None:
    plan_run(store, manifest=store.put(b"no JSON at all"))
    [found] = verify(store)
    assert "is no manifest" in found


class TestTamperedTables:
    """Rows changed behind the store's back."""

    @pytest.fixture
    def path(self, tmp_path: Path) -> Path:
        store = SqliteStore(tmp_path / "store.db")
        tell(store)
        store.close()
        return store.path

    def problems(self, path: Path, *statements: str) -> list[str]:
        db = apsw.Connection(str(path))
        for statement in statements:
            db.execute(statement)
        db.close()
        store = SqliteStore(path, readonly=True)
        try:
            return verify(store)
        finally:
            store.close()

    @pytest.mark.parametrize(
        ("statement", "problem"),
        [
            ("UPDATE task SET state = 6 WHERE state = 5", "state is"),
            ("UPDATE task SET epoch = 7 WHERE state = 5", "epoch is 7 but by its events 1"),
            ("UPDATE task SET attempts = 3 WHERE state = 5", "attempts is 3"),
            ("UPDATE task SET result = NULL WHERE state = 6", "result is"),
            ("DELETE FROM task WHERE state = 5", "has events and no row"),
            ("UPDATE task SET id = randomblob(32) WHERE state = 5", "that no event accounts for"),
            ("UPDATE run SET status = 'running'", "status is"),
            ("UPDATE run SET next_seq = next_seq + 1", "next_seq is 9 but by its events 8"),
            ("UPDATE call SET value = CAST('[3]' AS BLOB)", "value is"),
            ("DELETE FROM call", "call"),
            ("DELETE FROM event WHERE n = 4", "event 4 should stand here"),
            ("DELETE FROM event WHERE n = (SELECT max(n) FROM event)", "status is"),
            ("UPDATE event SET place = place + 63 WHERE n = 7", "event 7 should stand here"),
            ("DELETE FROM event WHERE n = 3", "could not have been accepted"),
            ("DELETE FROM blob WHERE length(data) < 20", "is missing"),
            ("UPDATE blob SET data = x'28b52ffd', codec = 'zstd'", "cannot be unpacked"),
            ("UPDATE blob SET data = CAST('changed' AS BLOB), codec = 'none'", "do not match"),
        ],
    )
    def test_is_seen(self, path: Path, statement: str, problem: str) -> None:
        found = self.problems(path, statement)
        assert any(problem in line for line in found), found
        assert all("\n" not in line for line in found)

    def test_a_large_blob_that_is_gone_or_wrong(self, path: Path) -> None:
        [file] = (path.parent / "store.db.blobs").glob("??/*")
        content = file.read_bytes()
        file.write_bytes(content[:-1])
        assert [line.split(":")[0] for line in self.problems(path)] == [f"blob {digest_bytes(LARGE)}"]
        file.rename(file.with_name("x"))
        found = self.problems(path)
        assert any("is not the name of a blob" in line for line in found)
        assert any("is missing" in line for line in found)

    def test_a_blob_nobody_names_is_no_problem(self, path: Path) -> None:
        store = SqliteStore(path)
        store.put(b"spare")
        assert verify(store) == []
        store.close()


def test_the_whole_story_is_read_however_long_it_is(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "store.db")
    run = plan_run(store)
    ops = [Op(run, (claimed(f"t{i}"), finished(f"t{i}"))) for i in range(3000)]
    store.commit(ops).result()
    counts = {"planned": 3000, "work.succeeded": 3000}
    accept(store, run, ev.RunFinished(Status.completed, counts))
    assert verify(store) == []
    store.close()
    db = apsw.Connection(str(store.path))
    db.execute("UPDATE event SET body = ? WHERE n = 5000", (msgspec.json.encode(finished("t7")),))
    db.close()
    reader = SqliteStore(store.path, readonly=True)
    assert verify(reader)
    reader.close()
