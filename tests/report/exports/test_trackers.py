"""What MLflow and Weights & Biases are given: their own clients read it back, where they are installed."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from peira.analysis.results import Results
from peira.report.exports.trackers import _means, _numbers, _unique

MLFLOW = """
import json, sys
from pathlib import Path
import peira, mlflow
store, folder = sys.argv[1:]
results = peira.open(store).results()
results.export(folder, "mlflow")
results.export(folder, "mlflow")
client = mlflow.MlflowClient(f"sqlite:///{folder}/mlflow.db")
runs = client.search_runs([client.get_experiment_by_name("odd").experiment_id])
children = [run for run in runs if "mlflow.parentRunId" in run.data.tags]
parents = [run for run in runs if "mlflow.parentRunId" not in run.data.tags]
print(json.dumps({
    "parents": len(parents),
    "children": [[run.data.params, run.data.metrics["exact/mean"]] for run in children],
    "files": sorted(file.path for file in client.list_artifacts(parents[0].info.run_id)),
}))
"""
WANDB = """
import sys
import peira
peira.open(sys.argv[1]).results().export(sys.argv[2], "wandb")
"""


def tracked(script: str, results: Results, folder: Path) -> str:
    python = os.environ.get("PEIRA_TRACKERS_PYTHON")
    if not python:
        pytest.skip("PEIRA_TRACKERS_PYTHON names no Python that has peira, mlflow and wandb")
    done = subprocess.run(
        [python, "-c", script, str(results.store), str(folder)],
        capture_output=True,
        text=True,
        check=False,
        env={name: value for name, value in os.environ.items() if name != "WANDB_MODE"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_mlflow_has_a_run_for_each_condition(stored: Results, tmp_path: Path) -> None:
    said = json.loads(tracked(MLFLOW, stored, tmp_path / "ml").splitlines()[-1])
    assert said["parents"] == 1  # the second export took the place of the first
    assert said["files"] == ["means.json", "trials.jsonl"]
    means = {
        (str(row["order"]), row["model"]): row["mean"]
        for row in stored.table("order", "model", score="exact").rows
    }
    assert {(p["order"], p["model"]): mean for p, mean in said["children"]} == pytest.approx(means)


def test_weights_and_biases_is_written_offline(stored: Results, tmp_path: Path) -> None:
    tracked(WANDB, stored, tmp_path / "wb")
    [run] = (tmp_path / "wb" / "wandb").glob("offline-run-*")
    [table] = run.glob("files/media/table/means_*.table.json")
    found = json.loads(table.read_text())
    assert len(found["data"]) == 9
    assert "mean" in found["columns"]
    kept = [path for path in (tmp_path / "wb" / "data").rglob("*") if path.is_file()]
    assert any(b'"state":"succeeded"' in path.read_bytes() for path in kept)  # the trials, in this folder


def test_names_that_become_equal_stay_apart(stored: Results) -> None:
    assert _unique({"a=b": 1, "a:b": 2, "a_b_2": 3, "=": 4, "": 5}) == {
        "a_b": 1,
        "a_b_2": 2,
        "a_b_2_2": 3,
        "_": 4,
        "__2": 5,
    }
    numbers = _numbers(list(_means(stored).body))
    assert len(numbers) == 9 * 7
