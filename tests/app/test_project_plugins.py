"""Plug-ins that a project file names: files and folders of its own, known in that project only."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira import run
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.spec.project import Project

ADDS = """
def register(registry):
    registry.add("evaluator", "mine", lambda: lambda output: {number})
"""
STUDY = """
from peira import study

@study(cases=["q"], evaluators=["mine"])
def asked(case):
    return "x"
"""


def project(folder: Path, number: int, plugins: str) -> Path:
    """A project with a plug-in of its own, whose evaluator gives this number."""
    (folder / "checks").mkdir(parents=True)
    (folder / "checks" / "first.py").write_text(ADDS.format(number=number))
    (folder / "own_checks.py").write_text(ADDS.format(number=number))
    (folder / "peira.toml").write_text(f"plugins = [{plugins!r}]\n")
    (folder / "asked.py").write_text(STUDY)
    return folder


@pytest.mark.parametrize("plugins", ["checks", "checks/first.py", "own_checks:register"])
def test_plug_ins_are_of_their_project_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plugins: str
) -> None:
    """Two projects with files and evaluators of the same names, in one process."""
    for number, name in ((1, "one"), (2, "two"), (1, "one")):
        folder = tmp_path / name
        if not folder.exists():
            project(folder, number, plugins)
        monkeypatch.chdir(folder)
        results = run("asked.py", store=folder / "s.db", progress=False)
        assert [score.score.value for score in results.scores] == [number]
    empty = tmp_path / "three"
    empty.mkdir()
    (empty / "asked.py").write_text(STUDY)
    monkeypatch.chdir(empty)
    with pytest.raises(Invalid, match="no evaluator 'mine'"):
        run("asked.py", store=empty / "s.db", progress=False)


def test_children_find_the_plug_ins_of_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(project(tmp_path / "four", 4, "checks"))
    results = run("asked.py", store=tmp_path / "s.db", runner="process", progress=False)
    assert [score.score.value for score in results.scores] == [4]


def test_folders_of_plug_ins_that_are_wrong(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken.py").write_text("def register(:\n")
    with pytest.raises(Invalid) as caught:
        Project(folder=tmp_path, plugins=["empty", "broken.py", "gone.py"]).load_plugins(Registry())
    said = caught.value.problems
    assert said[0] == "peira.toml: plugins[0]: there is no .py file in the folder 'empty'"
    assert "invalid syntax" in said[1]
    assert "No such file" in said[2]
