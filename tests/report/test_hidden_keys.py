"""A key that an agent returned is in no export, report or printed value, whatever the environment holds."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KEY = "abcd-EFGH/1234567890-not-a-real-one"
STUDY = """
import os
from peira import Case, exact, study

@study(cases=[Case("a", expected="a", id="one"), Case("bad", expected="x", id="two")], evaluators=[exact()])
def leaky(case):
    if case.input == "bad":
        raise ValueError("sent " + os.environ["SERVICE_KEY"])
    return {"said": ["my key is " + os.environ["SERVICE_KEY"]]}
"""


Command = Callable[..., str]


@pytest.fixture(scope="module")
def peira(warm: Any) -> Command:
    """`peira ...` in a process that holds this key, or none: what it says."""

    def call(folder: Path, *words: str, key: str = "") -> str:
        held = {name: value for name, value in os.environ.items() if name != "SERVICE_KEY"}
        environment = {**held, **({"SERVICE_KEY": key} if key else {})}
        done = warm.run(["peira", *words, "--store", "store.db"], cwd=folder, env=environment)
        assert done.returncode in (0, 1), done.stderr
        return str(done.stdout + done.stderr)

    return call


@pytest.fixture(scope="module")
def folder(peira: Command, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("leaky")
    (folder / "leaky.py").write_text(STUDY)
    assert KEY not in peira(folder, "run", "leaky.py", key=KEY)
    return folder


@pytest.mark.parametrize(
    "words",
    [["show", "--trials"], ["show", "--trials", "--json"], ["show", "--failures"], ["events", "--json"]],
    ids=" ".join,
)
def test_commands_do_not_show_it(peira: Command, folder: Path, words: list[str]) -> None:
    for key in (KEY, ""):
        assert KEY not in peira(folder, *words, key=key)


@pytest.mark.parametrize("name", ["r.csv", "r.long.csv", "r.jsonl", "r.sqlite", "r.html", "r.md", "study"])
def test_files_do_not_hold_it(peira: Command, folder: Path, name: str) -> None:
    if name.endswith((".html", ".md")):
        peira(folder, "report", "-o", name)
    else:
        chosen = {"study": ["--format", "artifact"], "r.long.csv": ["--format", "csv-long"]}
        peira(folder, "export", "-o", name, *chosen.get(name, []))
    target = folder / name
    for file in target.rglob("*") if target.is_dir() else [target]:
        assert KEY.encode() not in file.read_bytes(), file


def test_it_is_kept_where_that_is_asked_for_and_marked(peira: Command, folder: Path) -> None:
    peira(folder, "export", "-o", "hidden.jsonl")
    peira(folder, "export", "-o", "raw.jsonl", "--raw")
    hidden, raw = (
        {row["case"]: row for row in map(json.loads, (folder / name).read_text().splitlines())}
        for name in ("hidden.jsonl", "raw.jsonl")
    )
    assert raw["one"]["output"] == {"said": [f"my key is {KEY}"]}
    assert hidden["one"]["output"] == {"said": ["my key is [hidden]"]}
    assert raw["two"]["failure"]["message"] == "sent [hidden]"


SHOWN = """
import peira
results = peira.open("store.db").results()
trial = next(one for one in results if one.case_id == "one")
print(trial.exposed, trial.output["said"][0][-3:])
table = results.table()
print(results, table, table._repr_html_(), table.markdown(), table.to_json())
print(results.shown().trials)
results.to_csv("a.csv")
results.to_jsonl("a.jsonl")
print(open("a.csv").read(), open("a.jsonl").read())
"""


def test_the_answer_is_whole_and_what_is_printed_of_it_is_not(folder: Path) -> None:
    held = {name: value for name, value in os.environ.items() if name != "SERVICE_KEY"}
    done = subprocess.run(
        [sys.executable, "-c", SHOWN], cwd=folder, env=held, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("True one\n")
    assert KEY not in done.stdout


def test_a_short_key_is_no_secret(peira: Command, tmp_path: Path) -> None:
    (tmp_path / "leaky.py").write_text(STUDY)
    peira(tmp_path, "run", "leaky.py", key="EMPTY")
    assert "my key is EMPTY" in peira(tmp_path, "show", "--trials", "--json", key="EMPTY")
