"""The data set folder: a card that is read as metadata, and tables that are where it says."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import yaml
from hypothesis import given, settings

from peira.analysis.results import Results
from peira.results.trials import TrialResult

from .conftest import gathered, some

LOADER = """
import sys
from datasets import load_dataset
print(load_dataset(sys.argv[1])["train"].num_rows, load_dataset(sys.argv[1], "scores")["train"].num_rows)
"""


def metadata(folder: Path) -> dict[str, Any]:
    card = (folder / "README.md").read_text(encoding="utf-8")
    start, head, _ = card.split("---\n", 2)
    assert start == ""
    found: dict[str, Any] = yaml.safe_load(head)
    return found


@given(some())
@settings(deadline=None, max_examples=10)
def test_the_card_names_the_tables_whatever_is_in_them(found: list[TrialResult]) -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = gathered(found).export(Path(place) / "out", "hf")
        configs = {one["config_name"]: one["data_files"][0]["path"] for one in metadata(folder)["configs"]}
        assert pq.read_table(folder / configs["trials"]).num_rows == len(found)
        assert pq.read_table(folder / configs["scores"]).num_rows >= 0
        names = sorted(str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file())
        assert names == sorted(["README.md", *configs.values()])


def test_datasets_loads_it(stored: Results, tmp_path: Path) -> None:
    folder = stored.export(tmp_path / "out", "hf")
    python = os.environ.get("PEIRA_DATASETS_PYTHON")
    if not python:
        pytest.skip("PEIRA_DATASETS_PYTHON names no Python that has datasets")
    given = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    offline = {"HF_HUB_OFFLINE": "1", "HF_DATASETS_CACHE": str(tmp_path / "cache"), "HF_HOME": str(tmp_path)}
    done = subprocess.run(
        [python, "-c", LOADER, str(folder)], env=given | offline, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    scores = sum(
        len(score.value) if isinstance(score.value, dict) else 1
        for t in stored
        for score in t.scores.values()
    )
    assert done.stdout.split() == [str(len(stored)), str(scores)]
