from __future__ import annotations

import json
import tomllib

import pytest

from peira.cli.commands.init import RECIPES, SCHEMA, STUDY


def test_what_it_writes_runs(peira, folder):
    done = peira("init", "first")
    assert done.code == 0
    assert "peira run" in done.out
    json.loads((folder / "first" / SCHEMA).read_text())
    tomllib.loads((folder / "first" / "peira.toml").read_text())
    ran = peira("run", f"first/{STUDY}", "--json")
    assert ran.code == 0
    assert len(ran.document["table"]["rows"]) == 4


def test_its_project_file_acts(peira, folder, monkeypatch):
    peira("init", "first", "--store", "work/here.db")
    monkeypatch.chdir(folder / "first")
    assert peira("run", STUDY).code == 0
    assert (folder / "first" / "work" / "here.db").exists()


def test_it_writes_over_nothing_unless_told_to(peira, folder):
    (folder / STUDY).write_text("mine")
    done = peira("init")
    assert (done.code, len(done.problems)) == (2, 1)
    assert (folder / STUDY).read_text() == "mine"
    assert not (folder / "peira.toml").exists()
    assert peira("init", "--force").code == 0
    assert "@study" in (folder / STUDY).read_text()


@pytest.mark.parametrize("recipe", RECIPES)
def test_every_recipe_runs_as_it_is_written(peira, folder, recipe):
    done = peira("init", "here", "--recipe", recipe.replace("_", "-"))
    assert done.code == 0
    assert f"peira run {recipe}.py" in done.out
    assert not (folder / "here" / STUDY).exists()
    assert peira("plan", f"here/{recipe}.py").code == 0
    ran = peira("run", f"here/{recipe}.py", "--limit", "12", "--json")
    assert ran.code == 0
    assert ran.document["counts"]["succeeded"] == 12


def test_a_recipe_that_there_is_not_is_said(peira, folder):
    done = peira("init", "--recipe", "abaltion")
    assert done.code == 2
    assert "did you mean 'ablation'?" in done.err
    assert not (folder / "peira.toml").exists()
