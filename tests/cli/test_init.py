from __future__ import annotations

import json
import tomllib

from peira.cli.init import SCHEMA, STUDY


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
