"""Other programs read a store: Debian's sqlite3, Python's own sqlite3, pandas; peira says the same."""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from peira import Case, run, study
from peira import open as opened
from peira.app.store.listing import list_calls, trials_begun
from peira.app.store.migration import migrate
from peira.app.store.results import manifest_of
from peira.app.store.retention import delete
from peira.app.store.trial import run_of_trial, trial
from peira.core.contracts import PlanEntry, RunQuery
from peira.core.log.events import State
from peira.errors import Unknown
from peira.plan.conditions import LevelLabels
from peira.plan.listing import PlanListing
from peira.plan.manifest import layout_of
from peira.results.trials import TrialResult
from peira.stores.sqlite import SqliteStore, views
from peira.stores.sqlite.schema import MIGRATIONS
from peira.stores.verify import verify
from tests.stores.former_schemas import turn_back

STUDY = """
from peira import Case, ask, exact, study

def words(output):
    return {"count": len(output.split()), "tone": "curt"}

@study(
    cases=[Case(f"say {n}", expected=f"say {n}", id=f"c{n}", slice="even" if n % 2 == 0 else "odd",
                metadata={"n": n}) for n in range(6)],
    factors={"style": ["plain", "loud"]}, repeats=2, evaluators=[exact(), words], policy={"retries": 0})
def speak(case, style):
    if case.input == "say 4" and style == "loud":
        raise ValueError("no voice")
    said = ask("scripted:", case.input).text
    return said if style == "plain" else said.upper() + "!" * 5_000
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("speak.py").write_text(STUDY)
    return tmp_path


def rows(sql: str, path: str = "s.db") -> list[dict[str, Any]]:
    db = sqlite3.connect(f"file:{path}?mode=ro", uri=True)
    db.row_factory = sqlite3.Row
    try:
        return [dict(row) for row in db.execute(sql)]
    finally:
        db.close()


def agrees(run_id: str, path: str = "s.db") -> None:
    """The views say of a run what `results --latest` says."""
    trials = {t.id: t for t in opened(path).results(run_id, latest=True).trials if t.state != State.queued}
    found = {
        row["trial"]: row
        for row in rows(f"SELECT * FROM trials WHERE run = '{run_id}' AND state <> 'queued'", path)
    }
    assert found.keys() == trials.keys()
    for id, one in trials.items():
        same(found[id], one)
    scores = {
        (t.id, s.name): s for t in trials.values() for s in t.scores.values() if s.state != State.queued
    }
    listed = {(r["trial"], r["score"]): r for r in rows(f"SELECT * FROM scores WHERE run = '{run_id}'", path)}
    assert listed.keys() == scores.keys()
    for key, score in scores.items():
        value = listed[key]["value"]
        plain = value if isinstance(value, (int, float)) or value is None else json.loads(value)
        assert (listed[key]["state"], plain) == (score.state, score.value)


def same(row: dict[str, Any], one: TrialResult) -> None:
    assert (row["agent"], json.loads(row["condition"])) == (one.agent, dict(one.condition))
    assert (row["case_id"], row["slice"], row["repeat"]) == (one.case_id, one.slice, one.repeat)
    assert (row["state"], row["input"], row["expected"]) == (one.state, one.input, one.expected)
    assert json.loads(row["metadata"]) == dict(one.metadata)
    assert (row["took"], row["attempts"], bool(row["reused"])) == (one.took, one.attempts, one.reused)
    why = f"{one.failure.type}: {one.failure.message}" if one.failure else None
    assert row["failure"] == why
    text = one.output
    assert row["output"] == (
        f"{text[:2000]}… ({len(text):,} characters)" if text and len(text) > 2000 else text
    )


def test_the_views_say_what_peira_says(folder):
    first = run("speak.py", store="s.db", progress=False, name="first", where="style == 'plain'").run_id
    second = run("speak.py", store="s.db", progress=False).run_id
    agrees(first)
    agrees(second)
    assert len(rows("SELECT * FROM trials WHERE run_name = 'first'")) == 12
    assert [row["reused"] for row in rows("SELECT sum(reused) AS reused FROM trials")] == [12]
    listed = {row["run"]: row for row in rows("SELECT * FROM runs")}
    assert list(listed) == [second, first]
    assert (listed[first]["name"], listed[first]["status"], listed[first]["trials"]) == (
        "first",
        "completed",
        12,
    )
    assert (listed[second]["succeeded"], listed[second]["failed"]) == (10, 2)
    assert listed[first]["started"] <= listed[first]["finished"]


def test_calls_have_their_words(folder):
    run("speak.py", store="s.db", progress=False)
    calls = {call.key: call for call in opened("s.db").calls(limit=100)}
    found = {row["call"]: row for row in rows("SELECT * FROM calls")}
    assert found.keys() == calls.keys()
    for key, call in calls.items():
        row = found[key]
        assert (row["model"], row["state"], row["run"]) == ("scripted:", "answered", call.run)
        assert (row["input_tokens"], row["output_tokens"], row["cost"]) == (
            call.input,
            call.output,
            call.cost,
        )
        assert row["prompt"] == row["reply"]
        assert row["prompt"].startswith("say ")
    times = rows("SELECT min(asked) AS first, max(ended) AS last FROM calls, trials")
    assert times[0]["first"] < times[0]["last"]


def test_words_are_told_as_calls_are_answered_and_else_when_a_run_ends(folder):
    run("speak.py", store="s.db", progress=False)
    told = rows("SELECT call, reply FROM calls ORDER BY call")
    store = SqliteStore(Path("s.db"))
    assert store.unlisted_calls() == []
    store._db.execute("DELETE FROM listed_call WHERE n % 2 = 0")
    assert len(store.unlisted_calls()) == len(told) // 2
    list_calls(store)
    store.close()
    assert rows("SELECT call, reply FROM calls ORDER BY call") == told


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT condition ->> 'style' AS style, avg(value) FROM scores WHERE score = 'exact' GROUP BY 1",
        "SELECT value ->> 'count' AS words, count(*) AS n FROM scores WHERE score = 'words' GROUP BY 1",
        "SELECT state, count(*) AS n, round(sum(cost), 4) AS cost FROM trials GROUP BY 1 ORDER BY 1",
        "SELECT study, status, trials FROM runs",
        "SELECT model, state, count(*) AS n FROM calls GROUP BY 1, 2",
    ],
)
def test_debians_sqlite3_reads_it(folder, sql):
    program = shutil.which("sqlite3")
    if program is None:
        pytest.skip("the command sqlite3 is not installed")
    run("speak.py", store="s.db", progress=False)
    said = subprocess.run([program, "-json", "s.db", sql], capture_output=True, text=True, check=True)
    found = json.loads(said.stdout)
    assert found == [dict(row) for row in rows(sql)]
    assert found


def test_pandas_reads_it(folder):
    pandas = pytest.importorskip("pandas")
    run("speak.py", store="s.db", progress=False)
    db = sqlite3.connect("s.db")
    frame = pandas.read_sql("SELECT * FROM trials", db)
    db.close()
    assert len(frame) == 24
    assert set(frame["state"]) == {"succeeded", "failed"}


def test_whatever_is_deleted_they_say_what_is_left(folder):
    first = run("speak.py", store="s.db", progress=False, where="style == 'plain'").run_id
    second = run("speak.py", store="s.db", progress=False).run_id
    delete([first], "s.db")
    agrees(second)
    assert {row["run"] for row in rows("SELECT run FROM trials UNION SELECT run FROM runs")} == {second}
    assert len(rows("SELECT * FROM calls WHERE prompt IS NOT NULL")) == 22


def test_a_killed_run_is_listed_by_migrate_or_when_it_is_gone_on_with(folder):
    command = [sys.executable, "-m", "peira.cli", "run", "speak.py", "--store", "s.db", "--parallel", "1"]
    env = {**os.environ, "PEIRA_FAILPOINT": "engine.before_end:9"}
    assert subprocess.run(command, env=env, capture_output=True).returncode == -9
    shutil.copytree(".", "copy", ignore=shutil.ignore_patterns("copy"))
    assert rows("SELECT * FROM trials") == []
    assert migrate("s.db").listed == 1
    [killed] = opened("s.db").runs()
    agrees(killed.id)
    ended = run("speak.py", store="copy/s.db", progress=False).run_id
    agrees(ended, "copy/s.db")


def list_late(*emptied: str) -> None:
    """Empty tables of what is listed, and list the only run as a large one is listed when it is over."""
    with closing(sqlite3.connect("s.db")) as db, db:
        for table in emptied:
            db.execute(f"DELETE FROM {table}")
    store = SqliteStore("s.db")
    try:
        [row] = store.runs(RunQuery())
        manifest = manifest_of(store, row)
        layout = layout_of(manifest, store.get)
        listing = PlanListing(
            row.manifest, store, LevelLabels.kept(manifest.snapshot), store.get, manifest.case_sets, layout
        )
        noted = list(trials_begun(store, row, manifest))
        for one in (*reversed(noted), noted[3]):  # in another order than that of places, and one again
            listing.note(*one)
        assert store.listed_tasks(row.manifest, "") == []
        listing.close(complete=True)
    finally:
        store.close()


def test_a_large_run_is_listed_by_place_when_it_is_over(folder):
    ended = run("speak.py", store="s.db", progress=False).run_id
    list_late("listed_plan", "listed_trial", "listed_score", "listed_case", "listed_condition")
    agrees(ended)
    numbers = [row["n"] for row in rows("SELECT case_n AS n FROM listed_trial ORDER BY place LIMIT 12")]
    assert numbers == sorted(numbers)
    assert set(numbers) == {row["n"] for row in rows("SELECT n FROM listed_case")}


def test_cases_that_are_listed_are_told_again_only_if_one_is_missing(folder):
    ended = run("speak.py", store="s.db", progress=False).run_id
    of_plans = "listed_plan", "listed_trial", "listed_score"
    list_late(*of_plans, "listed_case")
    cases = rows("SELECT * FROM listed_case ORDER BY n")
    list_late(*of_plans)
    agrees(ended)
    with closing(sqlite3.connect("s.db")) as db, db:
        db.execute("DELETE FROM listed_case WHERE n = ?", (cases[1]["n"],))
    list_late(*of_plans)
    agrees(ended)
    assert rows("SELECT * FROM listed_case ORDER BY n") == cases


@pytest.mark.torture
def test_a_run_of_60_000_trials_is_listed_when_it_is_over(folder):
    cases = [Case(f"{n}", expected=f"{n}") for n in range(60_000)]
    ended = run(study(lambda case: case.input, cases=cases, evaluators=["exact"]), store="s.db")
    agrees(ended.run_id)


@pytest.mark.parametrize("version", range(2, len(MIGRATIONS)))
def test_a_store_of_before_is_read_after_migrate(folder, version):
    first = run("speak.py", store="s.db", progress=False).run_id
    turn_back(Path("s.db"), version)
    assert migrate("s.db").listed == 1
    agrees(first)
    assert migrate("s.db").listed == 1  # it failed in part: what comes of it may change


def test_a_key_in_an_output_is_not_shown(folder, monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-canary-0123456789abcdef")
    Path("leak.py").write_text(
        "import os\nfrom peira import study\n"
        "@study(cases=['a', 'b'])\n"
        "def leak(case):\n"
        "    return os.environ['OPENAI_API_KEY'] * (1 if case.input == 'a' else 500)\n"
    )
    run("leak.py", store="s.db", progress=False)
    assert [row["output"] for row in rows("SELECT output FROM trials")] == [views.HIDDEN] * 2


def test_a_trial_is_found_by_its_id_without_making_all_others(folder):
    """At 200,000 trials that took a second."""
    ended = run("speak.py", store="s.db", progress=False).run_id
    store = SqliteStore("s.db", readonly=True)
    found = store.find("run", [ended])[ended]
    one = opened("s.db").results(ended).trials[5]
    [(id, place)] = store.listed_tasks(found.manifest, one.id[:8])
    assert (id, place) == (one.id, 5)
    store.close()
    assert trial(ended, one.id[:12], "s.db").result.output == one.output
    assert run_of_trial(one.id[:12], "s.db") == ended
    with pytest.raises(Unknown):
        trial(ended, "ffffffffffff", "s.db")


def test_what_is_listed_is_no_part_of_what_verify_checks(folder):
    run("speak.py", store="s.db", progress=False)
    store = SqliteStore("s.db")
    store.list_plan("f" * 64, [PlanEntry(0, "0" * 64, (1, "a", "{}"), (1, "c", *[None] * 5), 0)]).result()
    assert verify(store) == []
    store.close()
    assert rows("SELECT * FROM trials WHERE case_id = 'c'") == []
