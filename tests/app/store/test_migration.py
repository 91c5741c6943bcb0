"""Two stores become one: each run shows what it showed, nothing is there twice; and stores of before open."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from itertools import permutations
from pathlib import Path

import pytest

from peira import open as opened
from peira import run
from peira.app.store.migration import merge, migrate
from peira.app.store.retention import delete
from peira.cli import main
from peira.core.contracts import CallQuery
from peira.errors import Invalid, StoreInUse, Unknown
from peira.stores.memory import MemoryStore
from peira.stores.sqlite.schema import MIGRATIONS
from peira.stores.sqlite.store import SqliteStore
from peira.stores.verify import verify
from tests.stores.former_schemas import turn_back

STUDY = """
from pathlib import Path
from peira import ask, current_trial, exact, step, study

@study(cases=[(f"q{n}", f"q{n}") for n in range(4)], evaluators=[exact()], policy={"retries": 0})
def flaky(case):
    step("look", len, case.input)
    current_trial().log("seen", text=case.input)
    current_trial().attach("note.txt", f"note {case.input}" * 10_000)
    ask("scripted:", case.input)
    if case.input in Path("bad").read_text().split():
        raise ValueError("not today")
    return case.input * 60_000 + Path("word").read_text()
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("flaky.py").write_text(STUDY)
    Path("other.py").write_text(STUDY.replace("flaky", "other").replace("q{n}", "r{n}"))
    Path("word").write_text("")
    return tmp_path


def ran(store: str, bad: str = "", study: str = "flaky.py", word: str = "", **options: object) -> str:
    Path("bad").write_text(bad)
    Path("word").write_text(word)
    return run(study, store=store, progress=False, **options).run_id


def problems(path: str) -> list[str]:
    store = SqliteStore(path, readonly=True)
    try:
        return verify(store)
    finally:
        store.close()


def shown(run_id: str, path: str) -> list[tuple[object, ...]]:
    return [
        (t.id, t.state, t.output, t.attempts, t.failure, t.artifacts, t.calls, dict(t.scores), t.took)
        for t in opened(path).results(run_id).trials
    ]


def spent(path: str) -> dict[str, float]:
    return {one.id: sum(s.sends for s in one.spent) for one in opened(path).runs()}


@pytest.mark.parametrize("bad", list(permutations(["q0 q1", "q1 q2", ""], 2)))
def test_each_run_shows_what_it_showed_and_counts_once(folder, bad):
    """Trials fail in one store and succeed in the other, or in both."""
    a = [ran("a.db", bad[0]), ran("a.db", "q3", "other.py")]
    b = [ran("b.db", bad[1]), ran("b.db", "q2"), ran("b.db", "", "other.py")]
    before = {one: shown(one, "a.db") for one in a} | {one: shown(one, "b.db") for one in b}
    paid = spent("a.db") | spent("b.db")
    found = merge("b.db", "a.db")
    assert [one.id for one in found.runs if one.manifest] == b
    assert problems("a.db") == []
    assert {one: shown(one, "a.db") for one in before} == before
    assert spent("a.db") == paid
    assert {one.id for one in opened("a.db").runs()} == set(before)
    again = ran("a.db")
    assert {t.state for t in opened("a.db").results(again).trials} == {"succeeded"}
    assert opened("a.db").results(again).spent.calls == 0
    assert problems("a.db") == []


def test_merging_again_or_back_adds_what_is_new_and_no_more(folder):
    a, b = ran("a.db", "q0"), ran("b.db", "q1")
    merge("b.db", "a.db")
    before = Path("a.db").stat().st_size
    assert merge("b.db", "a.db").records == 0
    assert Path("a.db").stat().st_size == before
    c = ran("a.db")
    states = {one: shown(one, "a.db") for one in (a, b, c)}
    merge("a.db", "b.db")
    assert {one: shown(one, "b.db") for one in (a, b, c)} == states
    assert merge("a.db", "b.db").records == 0
    d = ran("b.db", fresh=True)
    assert [one.id for one in merge("b.db", "a.db").runs if one.manifest] == [d]
    assert problems("a.db") == problems("b.db") == []


def test_a_copy_that_went_on_is_merged_back(folder):
    a = ran("a.db", "q0")
    opened("a.db").backup("b.db")
    b = ran("b.db")
    found = merge("b.db", "a.db")
    assert ([one.id for one in found.runs], found.shared) == ([b], 0)
    assert len(opened("a.db").runs(limit=10, status="deleted")) == 0  # nothing had to be set back
    assert shown(b, "a.db") == shown(b, "b.db")
    assert [t.state for t in opened("a.db").results(a).trials].count("failed") == 1
    assert problems("a.db") == []


def test_what_contradicts_is_refused_a_line_each(folder):
    a = ran("a.db", name="mine", word="a")
    ran("b.db", name="mine", word="b")
    before = shown(a, "a.db")
    with pytest.raises(Invalid) as refused:
        merge("b.db", "a.db")
    lines = refused.value.problems
    assert "is named 'mine', as run" in lines[0]
    assert sum("generate" in line and "has another result there" in line for line in lines) == 4
    assert [one.id for one in opened("a.db").runs()] == [a]
    assert (shown(a, "a.db"), problems("a.db")) == (before, [])
    assert main(["merge", "b.db", "--store", "a.db"]) == 2


def test_with_ours_each_run_still_shows_its_own(folder):
    a, b = ran("a.db", word="a"), ran("b.db", word="b")
    own = shown(a, "a.db"), shown(b, "b.db")
    found = merge("b.db", "a.db", ours=True)
    assert found.shared == 4
    assert (shown(a, "a.db"), shown(b, "a.db")) == own
    latest = opened("a.db").results(b, latest=True)
    assert {t.output[-1] for t in latest.trials} == {"a"}
    assert problems("a.db") == []


def test_a_run_that_went_on_differently_is_refused(folder):
    a = ran("a.db", "q0")
    opened("a.db").backup("b.db")
    delete([a], "a.db")
    with pytest.raises(Invalid, match=r"was deleted here"):
        merge("b.db", "a.db")
    found = merge("a.db", "b.db")  # what is left of it there is here as well
    assert found.records == 0


def test_a_killed_run_of_the_other_is_interrupted_here(folder):
    ran("a.db", study="other.py")
    Path("bad").write_text("")
    command = [sys.executable, "-m", "peira.cli", "run", "flaky.py", "--store", "b.db", "--parallel", "1"]
    env = {**os.environ, "PEIRA_FAILPOINT": "engine.before_end:3"}
    assert subprocess.run(command, env=env, capture_output=True).returncode == -9
    [killed] = merge("b.db", "a.db").runs
    assert opened("a.db").run(killed.id).status == "interrupted"
    ended = ran("a.db")
    assert {t.state for t in opened("a.db").results(ended).trials} == {"succeeded"}
    assert problems("a.db") == []


def test_a_merged_call_is_bought_once(folder):
    ran("a.db")
    ran("b.db")
    merge("b.db", "a.db")
    calls = opened("a.db").calls(CallQuery(limit=100))
    assert len(calls) == len({one.key for one in calls}) == 4
    assert {one.state for one in calls} == {"answered"}


@pytest.mark.parametrize(
    "place",
    [
        "store.before_fold:1",
        "store.before_commit:2",
        "store.after_commit:3",
        "blob.before_rename:1",
        "blob.after_rename:2",
        "merge.before_blobs",
        "retention.before_replace",
        "retention.after_replace",
    ],
)
def test_killed_anywhere_it_is_all_or_nothing(folder, place):
    a, b = ran("a.db", "q0"), ran("b.db", "q1")
    before = shown(a, "a.db")
    command = [sys.executable, "-m", "peira.cli", "merge", "b.db", "--store", "a.db"]
    killed = subprocess.run(command, env={**os.environ, "PEIRA_FAILPOINT": place}, capture_output=True)
    assert killed.returncode == -9
    assert problems("a.db") == []
    assert shown(a, "a.db") == before
    there = {one.id for one in opened("a.db").runs()}
    assert there == ({a, b} if place == "retention.after_replace" else {a})
    merge("b.db", "a.db")
    assert shown(b, "a.db") == shown(b, "b.db")
    assert problems("a.db") == problems("b.db") == []
    assert not list(folder.glob("a.db.draft*"))


def test_stores_in_use_or_missing_are_refused(folder):
    ran("a.db")
    ran("b.db")
    for used in ("a.db", "b.db"):
        owner = SqliteStore(used)
        with pytest.raises(StoreInUse):
            merge("b.db", "a.db")
        owner.close()
    with pytest.raises(Unknown, match=r"no store at c\.db"):
        merge("c.db", "a.db")
    with pytest.raises(Unknown, match=r"no store at c\.db"):
        merge("a.db", "c.db")
    with pytest.raises(Invalid, match="the store itself"):
        merge("a.db", "a.db")
    with pytest.raises(Invalid, match="nothing can be added"):
        merge("a.db", MemoryStore())


def test_from_the_command_line(folder, capfd):
    ran("a.db", "q0")
    b = ran("b.db", "q1")
    capfd.readouterr()
    assert main(["merge", "b.db", "--store", "a.db", "--dry-run"]) == 0
    assert "1 run would be added" in capfd.readouterr().out
    assert len(opened("a.db").runs()) == 1
    assert main(["merge", "b.db", "--store", "a.db", "--json"]) == 0
    assert f'"run": "{b}"' in capfd.readouterr().out
    assert main(["merge", "b.db", "--store", "a.db"]) == 0
    assert capfd.readouterr().out == "nothing to add: everything is here already\n"


@pytest.mark.parametrize("version", range(2, len(MIGRATIONS) + 1))
def test_a_store_of_every_version_opens_resumes_and_verifies(folder, version, capsys):
    first = ran("a.db", "q0 q1")
    before = shown(first, "a.db")
    turn_back(Path("a.db"), version)
    assert main(["migrate", "--store", "a.db"]) == 0
    said = capsys.readouterr().out
    now = len(MIGRATIONS)
    assert (f"version {now}, up to date" if version == now else f"from version {version} to {now}") in said
    assert problems("a.db") == []
    assert shown(first, "a.db") == before
    second = ran("a.db")
    assert dict(opened("a.db").results(second).counts)["reused"] == 2
    assert shown(first, "a.db") == before
    assert problems("a.db") == []


def test_migrating_is_done_by_opening_too(folder):
    first = ran("a.db")
    shutil.copy("a.db", "b.db")
    shutil.copytree("a.db.blobs", "b.db.blobs")
    turn_back(Path("b.db"), 3)
    assert shown(first, "b.db") == shown(first, "a.db")
    assert migrate("b.db").before == migrate("a.db").after
    with pytest.raises(Unknown, match="no store"):
        migrate("c.db")
