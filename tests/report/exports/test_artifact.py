"""The artifact folder has the names and columns that its readers ask for, and they do read it."""

from __future__ import annotations

import csv
import json
import os
import sqlite3
import subprocess
from datetime import datetime
from pathlib import Path

import pytest
import yaml

from peira import AnalysisPlan, Block, Case, Factor, Hypothesis, Level, Outcome, Study, ask, run
from peira.analysis.results import Results
from peira.errors import Invalid

from .conftest import gathered

COLUMNS = {
    "conditions.csv": "study_id condition_id admissible constraint_messages assignment_meta_json",
    "runs.csv": (
        "study_id condition_id run_id problem_id problem_family agent_id agent_kind pattern_name model_name "
        "seed replicate status start_time end_time latency_s input_tokens output_tokens cost_usd "
        "primary_outcome trace_path manifest_path error_info"
    ),
    "events.csv": (
        "timestamp record_id text session_id actor_id event_type meta_json level study_id run_id "
        "condition_id trial_id step_id tool_name evaluation_id"
    ),
    "evaluations.csv": (
        "run_id evaluator_id metric_name metric_value metric_unit aggregation_level notes_json"
    ),
}
OTHERS = ["study.yaml", "study.md", "manifest.json", "hypotheses.json", "analysis_plan.json"]
READER = """
import json, sys
from design_research_analysis import integration as read
folder = sys.argv[1]
checked = read.validate_experiment_events(folder)
tables = read.load_experiment_artifacts(folder)
metric = read.build_condition_metric_table_from_artifacts(folder, metric="loss", condition_column="order")
pairs = read.compare_condition_pairs_from_artifacts(folder, metric="loss", condition_column="order")
fitted = read.fit_regression_from_artifacts(
    folder, outcome="loss", predictors=["order", "model"], categorical_predictors=["model"]
)
chains = read.fit_markov_chains_from_artifacts(folder, condition_column="order")
print(json.dumps({
    "valid": checked.is_valid,
    "warnings": checked.warnings,
    "rows": {name: len(rows) for name, rows in tables.items()},
    "joined": len(read.build_event_table_from_artifacts(folder)),
    "metric": [row["value"] for row in metric],
    "chains": sorted(chains),
}))
"""


@pytest.fixture(scope="module")
def folder(stored: Results, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return stored.export(tmp_path_factory.mktemp("artifact") / "odd", "artifact")


def rows(folder: Path, name: str) -> list[dict[str, str]]:
    with (folder / name).open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


def test_the_files_and_columns_are_exactly_those(folder: Path) -> None:
    assert sorted(file.name for file in folder.iterdir()) == sorted([*COLUMNS, *OTHERS])
    for name, columns in COLUMNS.items():
        with (folder / name).open(newline="", encoding="utf-8") as file:
            header = next(csv.reader(file))
        factors = ["order", "model", "factor_timestamp", "factor_admissible"]
        assert header == columns.split() + (factors if name == "conditions.csv" else [])


def test_the_manifest_counts_the_runs_and_names_the_study(folder: Path, stored: Results) -> None:
    manifest = json.loads((folder / "manifest.json").read_text())
    study = yaml.safe_load((folder / "study.yaml").read_text())
    assert manifest["schema_version"] == study["schema_version"] == "0.2.0"
    assert manifest["study_id"] == study["study_id"] == "odd"
    assert manifest["run_count"] == len(stored) == len(rows(folder, "runs.csv"))
    assert manifest["status_counts"] == {"failed": 6, "success": 30}
    assert json.loads((folder / "hypotheses.json").read_text())[0]["id"] == "h"
    assert json.loads((folder / "analysis_plan.json").read_text())[0]["name"] == "p"


def test_conditions_say_which_were_refused_and_why(folder: Path) -> None:
    found = rows(folder, "conditions.csv")
    assert [row["admissible"] for row in found] == ["True", "True", "True", "False"]
    assert json.loads(found[-1]["constraint_messages"]) == ["violates order == 1 or model != '=SUM(1)'"]
    assert json.loads(found[0]["assignment_meta_json"])["factors"]["admissible"] == "no"
    known = {row["condition_id"] for row in found if row["admissible"] == "True"}
    assert {row["condition_id"] for row in rows(folder, "runs.csv")} == known


def test_runs_say_when_they_were_and_what_came_of_them(folder: Path, stored: Results) -> None:
    for trial, row in zip(stored, rows(folder, "runs.csv"), strict=True):
        assert (row["run_id"], row["problem_id"]) == (trial.id, trial.case_id)
        began, ended = (datetime.fromisoformat(row[name]) for name in ("start_time", "end_time"))
        assert began <= ended
        assert float(row["latency_s"]) == trial.took
        if "exact" in trial.scores:
            assert float(row["primary_outcome"]) == trial.scores["exact"].value
        else:
            assert row["error_info"] == "OSError: gone"


def test_evaluations_have_every_number_once(folder: Path, stored: Results) -> None:
    found = rows(folder, "evaluations.csv")
    assert len({(row["run_id"], row["metric_name"]) for row in found}) == len(found)
    loss = {row["run_id"]: float(row["metric_value"]) for row in found if row["metric_name"] == "loss"}
    assert loss == {trial.id: trial.metrics["loss"] for trial in stored}
    [kind, *_] = [row for row in found if row["metric_name"] == "length.kind"]
    assert (kind["metric_value"], json.loads(kind["notes_json"])) == ("", {"text": '=1+1, "short"'})
    assert {row["metric_unit"] for row in found if row["metric_name"] == "exact"} == {"share"}


def test_the_times_of_reused_trials_are_those_of_the_run_that_did_them(tmp_path: Path) -> None:
    asked = Study(name="again", agent=lambda case: case.input, cases=[Case(1), Case(2)])
    first = run(asked, store=tmp_path / "s.db", progress=False)
    again = run(asked, store=tmp_path / "s.db", progress=False)
    assert all(trial.reused for trial in again)
    one, two = first.export(tmp_path / "1", "artifact"), again.export(tmp_path / "2", "artifact")
    assert (one / "runs.csv").read_bytes() == (two / "runs.csv").read_bytes()
    assert all(row["end_time"] for row in rows(two, "runs.csv"))


def test_the_same_run_gives_the_same_bytes(folder: Path, stored: Results, tmp_path: Path) -> None:
    again = stored.export(tmp_path / "again", "artifact")
    for file in folder.iterdir():
        assert file.read_bytes() == (again / file.name).read_bytes()


def test_results_that_are_of_no_stored_run_have_no_times(tmp_path: Path) -> None:
    with pytest.raises(Invalid, match="needs the results of a stored run"):
        gathered([]).export(tmp_path / "out", "artifact")
    assert list(tmp_path.iterdir()) == []


def test_design_research_analysis_validates_and_reads_it(folder: Path, stored: Results) -> None:
    python = os.environ.get("PEIRA_DESIGN_RESEARCH_PYTHON")
    if not python:
        pytest.skip("PEIRA_DESIGN_RESEARCH_PYTHON names no Python that has design-research-analysis")
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [python, "-c", READER, str(folder)], env=plain, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    said = json.loads(done.stdout)
    assert said["valid"]
    assert said["warnings"] == []
    assert said["rows"]["runs.csv"] == len(stored)
    assert said["rows"]["events.csv"] == said["joined"] == 2 * len(stored)
    assert said["metric"] == [trial.metrics["loss"] for trial in stored]
    assert said["chains"] == ["1", "2"]


LOADER = """
import json, os, sys
from design_research_experiments.designs import build_design
from design_research_experiments.study import load_study, validate_study
os.chdir(sys.argv[1])
study = load_study("study.yaml")
made = build_design(study)
print(json.dumps({
    "problems": validate_study(study),
    "factors": {one.name: [level.value for level in one.levels] for one in study.factors},
    "blocks": [one.name for one in study.blocks],
    "outcomes": {one.name: one.primary for one in study.outcomes},
    "hypotheses": {one.hypothesis_id: [*one.independent_vars, one.direction] for one in study.hypotheses},
    "plans": [one.analysis_plan_id for one in study.analysis_plans],
    "agents": study.agent_specs,
    "cases": study.problem_ids,
    "replicates": study.run_budget.replicates,
    "conditions": [len(made), sum(one.admissible for one in made)],
}))
"""


def planned(case, style, n, status, day):  # type: ignore[no-untyped-def]
    return "1"


def declared(tmp_path: Path) -> Path:
    asked = Study(
        name="declared",
        agent=planned,
        cases=[Case("a", expected="1", id="a"), Case("b", expected="1", id="b")],
        factors=[
            Factor("style", [Level("plain text", label="plain"), "b"], baseline="b"),
            Factor("n", [1, 2, 4], scale="integer"),
            Factor("status", ["u", "v"]),
        ],
        blocks=[Block("day", ["mon", "tue"])],
        constraints=["style != 'b' or n < 4"],
        evaluators=["match"],
        repeats=2,
        outcomes=[Outcome(name="match", primary=True, unit="share")],
        hypotheses=[
            Hypothesis(id="h", factor="style", levels=("plain text", "b"), direction="greater"),
            Hypothesis(id="i", factor="status", direction="not_less", levels=("u", "v"), margin=0.1),
        ],
        analysis_plans=[AnalysisPlan(name="main", correction="holm")],
    )
    return run(asked, store=tmp_path / "s.db", progress=False).export(tmp_path / "declared", "artifact")


def test_the_study_file_is_in_the_terms_of_the_format(tmp_path: Path) -> None:
    study = yaml.safe_load((declared(tmp_path) / "study.yaml").read_text())
    assert [one["name"] for one in study["factors"]] == ["style", "n", "factor_status"]
    assert study["factors"][2]["metadata"] == {"name": "status"}
    assert study["factors"][0]["levels"][0]["name"] == "plain"
    assert [one["column"] for one in study["outcomes"]] == ["match"]
    assert study["agent_specs"] == ["planned"]
    assert study["problem_ids"] == ["a", "b"]
    claims = {one["hypothesis_id"]: (one["direction"], one["claimed"]) for one in study["hypotheses"]}
    assert claims == {"h": ("greater", "greater"), "i": ("greater", "not_less")}
    assert study["analysis_plans"][0]["hypothesis_ids"] == ["h", "i"]
    assert study["design_spec"]["kind"] == "constrained_factorial"


def test_design_research_experiments_loads_the_study(tmp_path: Path) -> None:
    python = os.environ.get("PEIRA_DESIGN_RESEARCH_PYTHON")
    if not python:
        pytest.skip("PEIRA_DESIGN_RESEARCH_PYTHON names no Python that has design-research-experiments")
    plain = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    command = [python, "-c", LOADER, str(declared(tmp_path))]
    done = subprocess.run(command, env=plain, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "problems": [],
        "factors": {"style": ["plain text", "b"], "n": [1, 2, 4], "factor_status": ["u", "v"]},
        "blocks": ["day"],
        "outcomes": {"match": True},
        "hypotheses": {"h": ["style", "greater"], "i": ["factor_status", "greater"]},
        "plans": ["main"],
        "agents": ["planned"],
        "cases": ["a", "b"],
        "replicates": 2,
        "conditions": [24, 20],
    }


def asked_of(case, site, style):  # type: ignore[no-untyped-def]
    return ask("scripted:", f"{case.input} {style}").text


def plain(case, site):  # type: ignore[no-untyped-def]
    return case.input


def test_blocks_agents_and_calls_are_told(tmp_path: Path) -> None:
    asked = Study(
        name="blocked",
        agents={"asked": asked_of, "plain": plain},
        cases=[Case("a"), Case("b")],
        factors={"style": ["x", "y"]},
        blocks={"site": ["north", "south"]},
    )
    results = run(asked, store=tmp_path / "s.db", progress=False)
    assert results.failures == []
    assert [len(trial.calls) for trial in results] == [1] * 8 + [0] * 4
    folder = results.export(tmp_path / "out", "artifact")
    found = rows(folder, "conditions.csv")
    assert list(found[0])[5:] == ["agent", "style", "block_site"]
    assert {(row["agent"], row["style"], row["block_site"]) for row in found} == {
        *(("asked", style, site) for style in "xy" for site in ("north", "south")),
        *(("plain", "", site) for site in ("north", "south")),
    }
    assert {row["agent_id"] for row in rows(folder, "runs.csv")} == {"asked", "plain"}
    results.export(tmp_path / "out.db", "sqlite")
    db = sqlite3.connect(tmp_path / "out.db")
    sql = "SELECT count(*), count(DISTINCT trial) FROM calls JOIN trials USING (trial) WHERE agent = 'asked'"
    assert db.execute(sql).fetchone() == (8, 8)
    assert db.execute("SELECT DISTINCT model, state FROM calls").fetchall() == [("scripted:", "answered")]
    db.close()
