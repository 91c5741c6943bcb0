"""Deleting runs: what is kept stays exactly as it was, and the store stays sound and gets smaller."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import chain, combinations
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import open as opened
from peira import run
from peira.app.store.retention import delete, expired
from peira.cli import main
from peira.core.contracts import RunQuery
from peira.core.log.events import Status
from peira.core.log.state import Run
from peira.errors import Invalid, StoreInUse, Unknown
from peira.spec.limits import Keep
from peira.stores.memory import MemoryStore
from peira.stores.sqlite.store import SqliteStore
from peira.stores.verify import verify

STUDY = """
from pathlib import Path
from peira import ask, current_trial, exact, step, study

@study(cases=[(f"q{n}", f"q{n}") for n in range(5)], evaluators=[exact()], policy={"retries": 0})
def flaky(case):
    step("look", len, case.input)
    current_trial().log("seen", text=case.input)
    current_trial().attach("note.txt", f"note {case.input}" * 10_000)
    ask("scripted:", case.input)
    if case.input in Path("bad").read_text().split():
        raise ValueError("not today")
    return case.input * 60_000
"""
OTHER = STUDY.replace("flaky", "other").replace("q{n}", "r{n}")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("flaky.py").write_text(STUDY)
    Path("other.py").write_text(OTHER)
    Path("bad").write_text("q2 q3")
    return tmp_path


def ran(study: str = "flaky.py", bad: str = "", **options: object) -> str:
    Path("bad").write_text(bad)
    return run(study, store="s.db", progress=False, **options).run_id


def problems(path: str = "s.db") -> list[str]:
    store = SqliteStore(path, readonly=True)
    try:
        return verify(store)
    finally:
        store.close()


def shown(run_id: str, path: str = "s.db") -> list[tuple[object, ...]]:
    return [
        (t.id, t.state, t.output, t.attempts, t.failure, t.artifacts, t.calls, dict(t.scores))
        for t in opened(path).results(run_id).trials
    ]


def test_whichever_runs_are_deleted_the_others_are_as_they_were(folder):
    """Trials fail in one run and succeed in the next: each needs something of the one before."""
    runs = [ran(bad="q2 q3"), ran(bad="q3"), ran(), ran("other.py", bad="r1"), ran("other.py")]
    before = {one: shown(one) for one in runs}
    choices = chain.from_iterable(combinations(runs, n) for n in (1, 2, 3, 5))
    for chosen in choices:
        opened("s.db").backup("t.db")
        found = delete(chosen, "t.db")
        assert problems("t.db") == []
        assert {one.id for one in found.runs} == set(chosen)
        assert found.after is not None
        assert found.after < found.before
        left = [one.id for one in opened("t.db").runs()]
        assert left == [one for one in reversed(runs) if one not in chosen]
        assert all(shown(one, "t.db") == before[one] for one in left)
        for path in folder.glob("t.db*"):
            shutil.rmtree(path) if path.is_dir() else path.unlink()


def test_what_was_paid_is_not_paid_again_and_still_counts(folder):
    first = ran(bad="q3")
    second = ran()
    delete([first], "s.db")
    again = run("flaky.py", store="s.db", progress=False)
    assert dict(again.counts)["reused"] == 5
    assert again.spent.calls == 0
    delete([second, again.run_id], "s.db")
    assert opened("s.db").runs() == []
    limited = Path("flaky.py").read_text().replace('policy={"retries": 0}', 'budget={"calls": 4}')
    Path("flaky.py").write_text(limited)
    stopped = run("flaky.py", store="s.db", progress=False)
    assert stopped.status == "stopped by a limit"
    assert stopped.spent.calls == 0


def test_a_deleted_run_is_unknown_and_its_name_is_free(folder):
    first = ran(bad="q3", name="mine")
    ran()
    delete(["mine"], "s.db")
    with pytest.raises(Unknown, match="was deleted"):
        opened("s.db").results(first)
    assert ran(name="mine")
    assert problems() == []


def test_runs_that_are_open_are_not_deleted(folder):
    first = ran()
    with pytest.raises(Unknown):
        delete(["3f2a91"], "s.db")
    owner = SqliteStore("s.db")
    with pytest.raises(StoreInUse):
        delete([first], "s.db")
    owner.close()
    assert opened("s.db").run(first).id == first


def test_a_dry_run_changes_nothing(folder):
    first = ran()
    before = Path("s.db").read_bytes()
    found = delete([first], "s.db", dry_run=True)
    assert ([one.id for one in found.runs], found.after) == ([first], None)
    assert Path("s.db").read_bytes() == before


def test_files_of_payloads_go_with_the_last_run_that_needs_them(folder):
    runs = [ran(), ran(fresh=True)]
    files = len(list(folder.glob("s.db.blobs/??/*")))
    delete([runs[0]], "s.db")
    assert len(list(folder.glob("s.db.blobs/??/*"))) == files  # the same outputs were made again
    delete([runs[1]], "s.db")
    assert list(folder.glob("s.db.blobs/??/*")) == []
    assert problems() == []
    assert sorted(file.name for file in folder.glob("s.db*")) == ["s.db", "s.db.blobs", "s.db.lock"]


@pytest.mark.parametrize(
    "place",
    [
        "store.before_fold:1",
        "store.before_commit:3",
        "store.after_commit:9",
        "store.after_acknowledge:5",
        "retention.before_replace",
        "retention.after_replace",
    ],
)
def test_killed_anywhere_it_is_all_or_nothing(folder, place):
    runs = [ran(bad="q3"), ran()]
    kept = shown(runs[1])
    command = [sys.executable, "-m", "peira.cli", "delete", runs[0], "--store", "s.db"]
    killed = subprocess.run(command, env={**os.environ, "PEIRA_FAILPOINT": place}, capture_output=True)
    assert killed.returncode == -9
    assert problems() == []
    left = [one.id for one in opened("s.db").runs()]
    if place.startswith("retention."):
        assert left == ([runs[1]] if place == "retention.after_replace" else [runs[1], runs[0]])
    assert left in ([runs[1]], [runs[1], runs[0]])
    assert shown(runs[1]) == kept
    if runs[0] in left:
        delete([runs[0]], "s.db")
    ran()
    assert problems() == []
    assert not list(folder.glob("s.db.draft*"))


def test_others_may_read_meanwhile(folder):
    first = ran(bad="q3")
    second = ran()
    reader = SqliteStore("s.db", readonly=True)
    delete([first], "s.db")
    assert [one.id for one in reader.runs(RunQuery())] == [second]
    reader.close()
    assert problems() == []


def test_a_store_that_cannot_delete_says_so(folder):
    store = MemoryStore()
    first = run("flaky.py", store=store, progress=False).run_id
    with pytest.raises(Invalid, match="cannot be deleted here"):
        delete([first], store)


def test_after_runs_when_asked(folder):
    Path("peira.toml").write_text("[keep]\ncount = 2\nafter_runs = true\n")
    for _ in range(4):
        ran(fresh=True)
    assert len(opened("s.db").runs()) == 2
    assert problems() == []


def test_from_the_command_line(folder, capsys):
    runs = [ran(fresh=True) for _ in range(3)]
    ran("other.py")

    def said(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        return main([*arguments, "--store", "s.db"]), capsys.readouterr().out

    code, text = said("gc", "--count", "1", "--dry-run")
    assert (code, "2 runs would be deleted" in text) == (0, True)
    assert len(opened("s.db").runs()) == 4
    code, text = said("gc", "--count", "1", "--study", "flaky")
    assert "2 runs deleted: " in text
    assert [one.study for one in opened("s.db").runs()] == ["other", "flaky"]
    assert "the whole store" in said("runs", "--size")[1]
    assert said("delete", runs[2])[0] == 0
    assert said("gc", "--count", "5")[1] == "nothing to delete\n"
    assert said("gc")[0] == 2
    assert said("gc", "--size", "lots")[0] == 2
    assert said("delete", runs[0])[0] == 2
    assert problems() == []


MANY = """
from peira import exact, study

@study(cases=[(str(n), str(n)) for n in range({half})], factors={{"style": ["a", "b"]}}, evaluators=[exact()])
def many(case, style):
    return case.input
"""


def one_of_many_runs_is_kept(trials: int) -> None:
    """Of several generations of a large study only the newest is kept: it is whole, and not done again."""
    Path("many.py").write_text(MANY.format(half=trials // 2))
    for _ in range(2):
        ran("many.py", fresh=True)
    newest = ran("many.py", fresh=True)
    table, before = str(opened("s.db").results(newest).table("style")), Path("s.db").stat().st_size
    assert main(["gc", "--count", "1", "--store", "s.db"]) == 0
    assert [one.id for one in opened("s.db").runs()] == [newest]
    assert Path("s.db").stat().st_size < 0.6 * before
    assert problems() == []
    assert str(opened("s.db").results(newest).table("style")) == table
    again = run("many.py", store="s.db", progress=False)
    assert (again.status, again.counts["reused"]) == ("completed", trials)
    assert again.counts.get("succeeded", 0) == 0


def test_one_of_many_runs_is_kept(folder):
    one_of_many_runs_is_kept(trials=600)


@pytest.mark.torture
def test_one_of_many_large_runs_is_kept(folder):
    one_of_many_runs_is_kept(trials=200_000)


def made(n: int, study: str, age: float, name: str) -> Run:
    return Run(f"{n:064x}", "m", study, 1, Status.completed, 1e9 - age, finished=1e9 - age, name=name)


@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.floats(0, 100), st.sampled_from(["", "", "named"])), max_size=12
    ),
    st.none() | st.integers(0, 4),
    st.none() | st.floats(0, 100),
    st.none() | st.integers(0, 1000),
    st.sampled_from(["", "a"]),
)
def test_a_policy_keeps_what_it_says(given_runs, count, age, size, study):
    runs = [made(n, of, old, name and f"{name}{n}") for n, (of, old, name) in enumerate(given_runs)]
    sizes = {one.id: 100 for one in runs}
    total = 100 * len(runs)
    gone = expired(runs, Keep(age=age, count=count, size=size, study=study), 1e9, sizes, total)
    left = [one for one in runs if one not in gone]
    assert len(gone) == len({one.id for one in gone})
    assert not [one for one in gone if one.name or (study and one.study != study)]
    loose = [one for one in left if not one.name and study in ("", one.study)]
    if count is not None:
        assert all(sum(one.study == of for one in loose) <= count for of in "ab")
    if age is not None:
        assert all(1e9 - one.finished <= age for one in loose)
    if size is not None:
        assert 100 * len(left) <= size or not loose
    if size is None and count is None and age is None:
        assert not gone
