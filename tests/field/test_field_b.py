"""Breaks found in an evaluation platform. Each is impossible here, and a test shows it.

Tested elsewhere: two processes on one store crash it (tests/faults/test_processes.py).

Not in scope yet, or not measured in tests:

    cache key ignores the provider                models come later; a model is a factor level or agent code
    milliseconds of CPU per case                  benchmarks/ (ratios); here the work is counted instead
    max_storage                                   retention comes later; the key is refused until it acts
"""

from __future__ import annotations

import threading
from collections import Counter
from pathlib import Path

import apsw
import pytest

import peira
from peira import Case, current_trial, evaluate, exact, generate, plan, run, study
from peira.core.ids import digest_bytes
from peira.errors import Invalid, StoreDamaged, Unknown
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

CASES = [Case(i, expected=i) for i in range(6)]


def test_storage_deadlocks_on_its_own_lock_at_the_first_append(folder) -> None:
    """The shipped storage took its lock twice, and hung at the first record it appended."""
    looked: list[int] = []

    @study(cases=CASES)
    def agent(case):
        looked.append(len(peira.open("s.db").runs()))  # also while it is being written
        return case.input

    for _ in range(3):
        assert run(agent, store="s.db", parallel=2, progress=False).status == "completed"
    assert looked == [1] * 6


@pytest.fixture
def big(folder) -> str:
    """A store with a large output of every trial; the digest of one of them."""

    @study(cases=[Case(i) for i in range(3)])
    def agent(case):
        return list(range(100_000 * (case.input + 1), 100_000 * (case.input + 2)))

    results = run(agent, store="s.db", progress=False)
    assert results.status == "completed"
    store = SqliteStore("s.db", readonly=True)
    digest = next(r.event.result.blob for r in store.history() if getattr(r.event, "result", None))
    store.close()
    return digest


def _files(digest: str) -> list[Path]:
    """The file of a large blob, however it is packed."""
    return list(Path("s.db.blobs", digest[:2]).glob(f"{digest[2:]}*"))


def _flip(digest: str) -> None:
    """Change one byte of a blob, wherever it is kept."""
    if files := _files(digest):
        data = bytearray(files[0].read_bytes())
        data[len(data) // 2] ^= 1
        files[0].write_bytes(data)
        return
    db = apsw.Connection("s.db")
    data = bytearray(db.execute("SELECT data FROM blob WHERE digest = ?", (bytes.fromhex(digest),)).get)
    data[len(data) // 2] ^= 1
    db.execute("UPDATE blob SET data = ? WHERE digest = ?", (bytes(data), bytes.fromhex(digest)))
    db.close()


def test_a_torn_tail_makes_all_unreadable_while_the_check_says_valid(big) -> None:
    """One torn compressed file made every record unreadable, and the integrity check still said "valid"."""
    (file,) = _files(big)
    file.write_bytes(file.read_bytes()[: file.stat().st_size // 2])
    store = SqliteStore("s.db", readonly=True)
    assert any(big[:8] in problem for problem in verify(store)), verify(store)
    assert len(list(store.history())) > 3
    with pytest.raises(StoreDamaged, match=big):
        store.get(big)
    others = [d for d, *_ in store.blobs() if d != big]
    assert all(digest_bytes(store.get(d)) == d for d in others)
    store.close()


def test_checksums_declared_never_computed(big) -> None:
    """Checksums stood in the records, and nobody ever compared them."""
    _flip(big)
    store = SqliteStore("s.db", readonly=True)
    with pytest.raises(StoreDamaged, match=big):
        store.get(big)
    assert verify(store) != []
    store.close()


def test_a_flipped_byte_in_a_small_blob_is_found(folder) -> None:
    @study(cases=CASES)
    def agent(case):
        return [str(case.input)] * 1000

    results = run(agent, store="s.db", progress=False)
    store = SqliteStore("s.db", readonly=True)
    digest = next(r.event.result.blob for r in store.history() if getattr(r.event, "result", None))
    store.close()
    _flip(digest)
    store = SqliteStore("s.db", readonly=True)
    assert any(digest[:8] in problem for problem in verify(store))
    store.close()
    with pytest.raises(StoreDamaged):
        list(results.trials)


def test_an_altered_row_is_found_by_verify(folder) -> None:
    """A projection that no event explains is told, whoever wrote it."""
    run(study(lambda case: case.input, cases=CASES, name="s"), store="s.db", progress=False)
    db = apsw.Connection("s.db")
    db.execute("UPDATE task SET attempts = attempts + 1 WHERE n = 2")
    db.close()
    store = SqliteStore("s.db", readonly=True)
    assert verify(store) != []
    store.close()


def test_max_storage_ignored() -> None:
    """A limit on storage was declared and never read. A key that does not act is refused."""
    with pytest.raises(Invalid, match="max_storage"):
        study(lambda case: 1, cases=CASES, storage={"max_storage": "1 GB"})


def test_storage_options_act(folder) -> None:
    """Every storage option changes what is stored: compression, and what is kept inline."""

    def blobs(**storage):
        @study(cases=[Case(i) for i in range(3)], storage=storage)
        def agent(case):
            return "abc" * 400 + str(case.input)

        path = Path(f"{len(list(Path().glob('*.db')))}.db")
        assert run(agent, store=path, progress=False).ok
        db = apsw.Connection(str(path))
        held = db.execute("SELECT count(*) FROM blob WHERE length(data) > 0").get
        codecs = {row[0] for row in db.execute("SELECT DISTINCT codec FROM blob")}
        db.close()
        return held, codecs

    plain, codecs = blobs()
    assert codecs == {"zstd"}
    assert blobs(compression="none")[1] == {"none"}
    assert blobs(inline=100)[0] == plain + 3, "storage.inline does not act"


@pytest.mark.parametrize("evil", ["../../../../x", "..", "/etc/passwd", "a/../../x", "x\0y", ".", ""])
def test_run_id_writes_outside_the_store(folder, evil) -> None:
    """A run id of ../../../../x wrote, and in a later version deleted, outside the store."""
    (folder / "deep" / "er").mkdir(parents=True)
    (folder / "x").write_text("mine")
    store = folder / "deep" / "er" / "s.db"

    @study(cases=[Case(1, id=evil or None), Case(2)], factors={"level": [evil, "fine"]})
    def agent(case, level):
        trial = current_trial()
        (trial.workdir / "note").write_text("here")
        assert store.parent in trial.workdir.resolve().parents
        trial.attach(evil, b"attached")
        return [level, case.input]

    results = run(agent, store=store, progress=False)
    assert results.ok, results.failures
    for use in (peira.open(store).results, peira.open(store).events, peira.open(store).run):
        if evil:
            with pytest.raises(Unknown):
                use(evil)
    inside = {"s.db", "s.db-wal", "s.db-shm", "s.db.lock", "s.db.control", "s.db.blobs", "s.db.code"}
    assert {f.name for f in store.parent.iterdir()} <= inside
    assert (folder / "x").read_text() == "mine"
    assert {f.name for f in folder.iterdir()} == {"deep", "x"}


@pytest.mark.parametrize("name", ["../../x", "a/b", "a\\b", "a\0b", ""])
def test_a_study_name_that_is_a_path_is_refused(name) -> None:
    with pytest.raises(Invalid, match="name"):
        study(lambda case: 1, cases=CASES, name=name)


def _judged(source: str, expected: str = "case") -> str:
    return f"""
from peira import Case, study

def metric(output, expected):
    return {source}

CASES = [Case(i, id=f"c{{i}}", expected={expected.replace("case", "i")}) for i in range(4)]

@study(cases=CASES, evaluators=[metric])
def agent(case):
    with open("calls", "a") as file:
        file.write("x")
    return case.input
"""


def _scores(results) -> list:
    return [t.scores["metric"].value for t in results.trials]


def test_changed_metric_returns_the_old_score(folder, written) -> None:
    """After the metric's code had changed, the old scores came back."""
    assert _scores(run(written(_judged("output == expected")), store="s.db", progress=False)) == [True] * 4
    again = run(written(_judged("output > expected")), store="s.db", progress=False)
    assert _scores(again) == [False] * 4
    assert again.counts["reused"] == 4
    assert (folder / "calls").read_text() == "xxxx", "a new metric called the agent again"


def test_corrected_reference_returns_the_old_score(folder, written) -> None:
    """After a reference answer had been corrected, the old scores came back."""
    metric = "output == expected"
    run(written(_judged(metric)), store="s.db", progress=False)
    again = run(written(_judged(metric, "case if case != 2 else 99")), store="s.db", progress=False)
    assert _scores(again) == [True, True, False, True]
    assert (folder / "calls").read_text() == "xxxx", "a corrected reference called the agent again"
    back = run(written(_judged(metric)), store="s.db", progress=False)
    assert _scores(back) == [True] * 4


def test_a_stale_score_survives_a_new_output(folder) -> None:
    """A fresh output is judged by itself: no score of an older one is shown beside it."""
    drawn: list[int] = []

    @study(cases=[Case(0, expected=0)], evaluators=[exact()])
    def agent(case):
        drawn.append(1)
        return len(drawn) - 1

    first = run(agent, store="s.db", progress=False)
    second = run(agent, store="s.db", fresh=True, progress=False)
    assert [t.scores["exact"].value for t in first.trials] == [True]
    assert [(t.output, t.scores["exact"].value) for t in second.trials] == [(1, False)]


@pytest.mark.parametrize(
    "change",
    [
        {"seed": 1},
        {"cases": [Case(i, id=f"c{i}") for i in range(1, 3)]},
        {"factors": {"temperature": [0.0004]}},
    ],
    ids=["seed", "input", "level"],
)
def test_cache_key_ignores_seed_and_levels(change) -> None:
    """The cache key left out the seed and more, and rounded a temperature of 0.0004 to 0."""
    fields = {"cases": [Case(i, id=f"c{i}") for i in range(2)], "factors": {"temperature": [0]}, "name": "s"}

    def agent(case, temperature):
        return [case.input, temperature, current_trial().seed]

    store = MemoryStore()
    before = run(study(agent, **fields), store=store, progress=False)
    after = run(study(agent, **(fields | change)), store=store, progress=False)
    shared = {t.id for t in before.trials} & {t.id for t in after.trials}
    changed = [t for t in after.trials if t.id not in shared]
    assert len(changed) == after.counts["succeeded"] > 0
    seeds = {t.output[2] for t in before.trials} & {t.output[2] for t in changed}
    assert not seeds


def test_close_temperatures_are_two_conditions() -> None:
    @study(cases=[Case(1)], factors={"temperature": [0, 0.0004, 1e-300]})
    def agent(case, temperature):
        return temperature

    results = run(agent, store=MemoryStore(), progress=False)
    assert sorted(t.output for t in results.trials) == [0, 1e-300, 0.0004]


def test_failures_cached_for_ever() -> None:
    """A failed score or output was cached like a result, and never tried again."""
    healed = threading.Event()

    def judge(output):
        if not healed.is_set():
            raise OSError("the judge is down")
        return True

    @study(cases=CASES, evaluators=[judge])
    def agent(case):
        if not healed.is_set() and case.input == 1:
            raise OSError("down")
        return case.input

    store = MemoryStore()
    first = run(agent, store=store, progress=False)
    assert Counter(row.stage for row in first.failures) == {"generate": 1, "evaluate": 5}
    healed.set()
    second = run(agent, store=store, progress=False)
    assert second.ok
    assert [t.scores["judge"].value for t in second.trials] == [True] * 6


def test_two_processes_score_everything_twice(folder) -> None:
    """Two processes on one store scored every output twice."""
    judged: list[object] = []

    def judge(output):
        judged.append(output)
        return True

    @study(cases=CASES, evaluators=[judge])
    def agent(case):
        return case.input

    generate(agent, store="s.db", progress=False)
    assert judged == []
    evaluate(agent, store="s.db", progress=False)
    evaluate(agent, store="s.db", progress=False)
    run(agent, store="s.db", progress=False)
    assert sorted(judged) == [0, 1, 2, 3, 4, 5]


def test_equal_outputs_are_judged_once_and_all_are_counted() -> None:
    """The counts of a run add up: every trial has its score, shared or not."""

    @study(cases=[Case(0, expected=0)], repeats=30, evaluators=[exact()])
    def agent(case):
        return 0

    results = run(agent, store=MemoryStore(), parallel=4, progress=False)
    assert all(t.scores["exact"].value is True for t in results.trials)
    assert results.counts["scores"] == 30, results.counts


def test_costs_grow_quadratically() -> None:
    """Work per case doubled from 25 to 100 cases. Counted here in records, which cost what they cost."""

    @study(cases=[Case(0)], evaluators=[exact()], repeats=1)
    def agent(case):
        return case.input

    def records(n: int) -> float:
        store = MemoryStore()
        cases = tuple(Case(i, expected=i) for i in range(n))
        run(agent.model_copy(update={"case_sets": {"": cases}}), store=store, progress=False)
        return len(list(store.history())) / n

    assert records(800) <= records(100) * 1.2


def test_scores_written_only_at_the_end(folder, until) -> None:
    """Scores were written when all was over: a crash before that lost them all."""
    free = threading.Event()

    @study(cases=CASES, evaluators=[exact()])
    def agent(case):
        if case.input == 3:
            free.wait(30)
        return case.input

    handle = peira.submit(agent, store="s.db", parallel=4, progress=False)

    def scored():
        trials = peira.open("s.db").results(handle.run_id).trials
        return sum(t.scores["exact"].state == "succeeded" for t in trials if t.scores) == 5

    until(scored)
    assert handle.wait(timeout=0) is False
    free.set()
    assert handle.result(timeout=20).ok


def test_the_plan_calls_nothing_and_writes_nothing(folder) -> None:
    """Planning is looking: no agent is called, no store is made."""
    called: list[int] = []

    @study(cases=CASES)
    def agent(case):
        called.append(1)

    assert plan(agent, store="s.db").new == 6
    assert called == []
    assert list(folder.iterdir()) == []
