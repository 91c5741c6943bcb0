"""The project of a study is that of its file, or the one that --project names."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peira.errors import Invalid
from peira.spec.project import Project, named_project

STUDY = "from peira import study\n\n@study(cases=['a'])\ndef one(case):\n    return case.input\n"


@pytest.fixture
def nested(folder: Path) -> Path:
    (folder / "peira.toml").write_text("seed = 11\n")
    (folder / "sub").mkdir()
    (folder / "sub" / "peira.json").write_text('{"seed": 22}')
    (folder / "sub" / "st.py").write_text(STUDY)
    (folder / "st.py").write_text(STUDY)
    return folder


def seed(said: Any) -> int:
    return int(said.document["seed"])


def test_the_project_is_that_of_the_study(
    peira: Callable[..., Any], nested: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert seed(peira("plan", "sub/st.py", "--json")) == 22
    assert seed(peira("plan", "st.py", "--json")) == 11
    monkeypatch.chdir(nested / "sub")
    assert seed(peira("plan", "st.py", "--json")) == 22
    assert seed(peira("plan", "../st.py", "--json")) == 11


def test_a_project_can_be_named(peira: Callable[..., Any], nested: Path) -> None:
    for name in ("sub", "sub/peira.json"):
        assert seed(peira("plan", "st.py", "--project", name, "--json")) == 22
    assert seed(peira("plan", "st.py", "--json")) == 11
    refused = peira("plan", "st.py", "--project", "nowhere")
    assert refused.problems == ["peira: project: there is no peira.toml or peira.json at nowhere"]
    with named_project("sub"):
        assert Project.find().seed == 22
    assert Project.find().seed == 11


def test_the_next_command_finds_the_store_of_another_project(peira: Callable[..., Any], nested: Path) -> None:
    (nested / "sub" / "st.py").write_text(STUDY.replace("return case.input", "raise ValueError('no')"))
    said = peira("run", "sub/st.py")
    assert (nested / "sub" / ".peira" / "peira.db").is_file()
    assert "--store sub/.peira/peira.db --failures" in said.err
    assert peira("runs", "--project", "sub", "--json").document["runs"] != []


def test_two_project_files_are_refused(nested: Path) -> None:
    (nested / "peira.json").write_text("{}")
    with pytest.raises(Invalid, match=r"peira.toml and peira.json are both there"):
        Project.find()


def test_scoring_without_outputs_is_said(peira: Callable[..., Any], nested: Path) -> None:
    said = peira("run", "st.py", "--stage", "evaluate")
    assert (said.code, said.out) == (1, "")
    assert "nothing to score: none of 1 trial has an output yet; `peira run` makes them" in said.err
    assert peira("run", "st.py", "--stage", "evaluate", "--json").document["exit_code"] == 1
    assert peira("score", "st.py").code == 1
    assert peira("run", "st.py").code == 0
    assert peira("score", "st.py").code == 0


def test_a_design_is_a_table_without_a_study(peira: Callable[..., Any], nested: Path) -> None:
    said = peira("design", "--factor", "model=a,b", "--factor", "n=1,2", "--csv", "-")
    assert said.out.splitlines() == ["run,model,n", "1,a,1", "2,a,2", "3,b,1", "4,b,2"]
    options = '{"name": "latin_hypercube", "runs": 5}'
    assert peira("design", "--factor", "t=0..1", "--design", options, "--csv", "d.csv").code == 0
    rows = (nested / "d.csv").read_text().splitlines()
    assert len(rows) == 6
    assert all(0 <= float(row.split(",")[1]) <= 1 for row in rows[1:])
    assert peira("design", "capitals.py", "--csv", "-").out.splitlines()[0] == "run,model,size"
    problems = peira("design", "--factor", "x", "--factor", "y=0..z").problems
    assert problems == [
        "peira: --factor x: write NAME=LEVEL,LEVEL or NAME=LOW..HIGH",
        "peira: --factor y=0..z: '0..z' is not a range of numbers",
    ]
    assert "give a study, or factors" in peira("design").err
