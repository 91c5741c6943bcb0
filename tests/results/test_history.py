"""Seeds, times, observations and cost are on trials and in every export of them."""

from __future__ import annotations

import csv
import json
import sqlite3
import time
from pathlib import Path

import pytest

from peira import Study, current_trial, exact, run
from peira.analysis.results import Results
from peira.core.clock import stamp
from peira.errors import Invalid
from peira.report.exports.attachments import file_name


def agent(case: object, style: str) -> str:
    trial = current_trial()
    trial.log("thought", text=f"thinking {style}", tool="search")
    trial.log("seed", value=trial.seed)
    trial.describe(kind="workflow", pattern="plan", model="small")
    trial.report(cost=0.25)
    trial.attach("notes/a.txt", style)
    trial.attach("notes_a.txt", "other")
    return style


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Results:
    study = Study(
        name="s", cases=["a", "b"], factors={"style": ["x", "y"]}, agent=agent, evaluators=[exact()]
    )
    return run(study, store=tmp_path_factory.mktemp("history") / "s.db", progress=False)


def test_a_trial_knows_its_seed_times_observations_and_cost(results: Results) -> None:
    for trial in results:
        assert trial.started is not None
        assert trial.ended is not None
        assert trial.started <= trial.ended <= time.time()
        assert [one.name for one in trial.observations] == ["thought", "seed"]
        assert trial.observations[1].data == {"value": trial.seed}
        assert trial.observations[0].attempt == 1
        assert trial.cost == trial.spent == 0.25
    assert results.cost.money == 1.0
    assert "reported" in str(results.cost)


def test_reused_trials_have_the_times_of_the_run_that_made_them(results: Results, tmp_path: Path) -> None:
    study = Study(name="s", cases=["a", "b"], factors={"style": ["x", "y"]}, agent=agent)
    again = run(study, store=results.store, progress=False)
    assert {t.id: (t.started, t.ended) for t in again} == {t.id: (t.started, t.ended) for t in results}
    assert all(trial.reused and trial.spent == 0 and trial.executed_by == results.run_id for trial in again)


def test_every_table_of_trials_has_them(results: Results, tmp_path: Path) -> None:
    first = results.trials[0]
    assert first.started is not None
    assert first.ended is not None
    wanted = {"started": stamp(first.started), "ended": stamp(first.ended)}
    results.export(tmp_path / "r.jsonl")
    line = json.loads((tmp_path / "r.jsonl").read_text().splitlines()[0])
    assert (line["seed"], line["cost"]) == (first.seed, 0.25)
    assert {name: line[name] for name in wanted} == wanted
    assert line["observations"][0]["data"] == {"text": f"thinking {first.output}", "tool": "search"}
    results.export(tmp_path / "r.csv")
    with (tmp_path / "r.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    assert (row["seed"], row["cost"], row["started"]) == (str(first.seed), "0.25", wanted["started"])
    assert json.loads(row["observations"])[0]["name"] == "thought"
    results.export(tmp_path / "r.sqlite")
    db = sqlite3.connect(tmp_path / "r.sqlite")
    assert db.execute(
        "SELECT seed, cost_usd, started FROM trials WHERE trial = ?", [first.id]
    ).fetchall() == [(first.seed, 0.25, wanted["started"])]
    assert db.execute("SELECT count(*) FROM observations WHERE name = 'thought'").fetchone() == (4,)
    db.close()
    assert results.frame()["seed"].tolist() == [trial.seed for trial in results]


def test_the_artifact_folder_has_observations_descriptions_and_provenance(
    results: Results, tmp_path: Path
) -> None:
    folder = results.export(tmp_path / "folder", "artifact")
    with (folder / "events.csv").open(newline="") as file:
        events = list(csv.DictReader(file))
    assert [one["event_type"] for one in events[:4]] == ["input", "thought", "seed", "assistant_output"]
    assert (events[1]["tool_name"], events[1]["text"]) == ("search", "thinking x")
    assert len({one["record_id"] for one in events}) == len(events) == 16
    with (folder / "runs.csv").open(newline="") as file:
        row = next(csv.DictReader(file))
    named = (row["agent_kind"], row["pattern_name"], row["model_name"], row["cost_usd"])
    assert named == ("workflow", "plan", "small", "0.25")
    manifest = json.loads((folder / "manifest.json").read_text())
    assert manifest["model_ids"] == ["small"]
    assert {"python", "platform", "packages", "peira"} <= manifest["provenance"].keys()
    assert "who" not in manifest["provenance"]


def test_attached_files_are_exported_with_an_index(results: Results, tmp_path: Path) -> None:
    folder = results.export(tmp_path / "files", "attachments")
    with (folder / "index.csv").open(newline="") as file:
        index = list(csv.DictReader(file))
    assert len(index) == 8
    assert {row["name"] for row in index} == {"notes/a.txt", "notes_a.txt"}
    for row in index:
        wanted = json.loads(row["condition"])["style"] if "/" in row["name"] else "other"
        assert (folder / row["file"]).read_text() == wanted
    results.export(tmp_path / "files", "attachments")
    (folder / "mine.txt").write_text("")
    with pytest.raises(Invalid, match="no such export"):
        results.export(tmp_path / "files", "attachments")


def test_names_of_attachments_are_safe_and_differ() -> None:
    taken: set[str] = set()
    names = [file_name(name, taken) for name in ("a/b.txt", "A_b.TXT", "../..", "", "x" * 999, "...")]
    assert names[:4] == ["a_b.txt", "A_b-2.TXT", "_", "file"]
    assert len(names[4]) <= 150
    assert len({name.lower() for name in names}) == 6
