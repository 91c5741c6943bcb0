from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from peira.cli.commands.init import starter


def test_the_demonstration_shows_what_it_says(peira, folder):
    done = peira("demo", "--store", "shown/demo.db", "--model", "scripted:")
    assert done.code == 0, done.err
    assert "96 trials: 96 new, 0 reused" in done.out
    assert "(96 calls" in done.out
    assert peira("verify", "--store", "shown/demo.db").code == 0


def test_every_command_it_tells_to_try_works(peira, folder):
    told = peira("demo", "--store", "shown/demo.db", "--model", "scripted:").out.partition("Try next:")[2]
    commands = [line.partition("#")[0].split()[1:] for line in told.strip().splitlines()]
    assert len(commands) == 6
    assert commands.pop()[0] == "view"  # which goes on until Ctrl-C; tests/web looks at it
    for words in commands:
        done = peira(*words)
        assert done.code == 0, done.err
    assert "0 new, 96 reused" in peira(*commands[0]).out


def test_it_leaves_the_project_alone_that_lies_beside_its_store(peira, folder):
    (folder / "peira.toml").write_text('store = "mine.db"\n')
    told = peira("demo", "--store", "mine.db", "--model", "scripted:")
    assert told.code == 0, told.err
    assert (folder / "peira.toml").read_text() == 'store = "mine.db"\n'
    assert (folder / "mine-demo" / "small_model.py").exists()
    assert "0 new, 96 reused" in peira("run", "mine-demo/small_model.py").out
    assert [run["study"] for run in peira("runs", "--json").document["runs"]] == ["small_model"] * 2


def test_a_model_that_cannot_be_asked_is_named(peira, folder, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    done = peira("demo", "--store", "demo.db", "--model", "openai:gpt-5-mini")
    assert done.code == 2
    assert "OPENAI_API_KEY" in done.err
    assert not (folder / "demo.db").exists()


def test_it_writes_over_nothing(peira, folder):
    (folder / "demo.db").write_text("mine")
    assert peira("demo", "--store", "demo.db").code == 2
    assert (folder / "demo.db").read_text() == "mine"


def test_without_the_model_its_recorded_answers_are_replayed(peira, folder):
    (folder / "peira.toml").write_text("")
    (folder / "shown").mkdir()
    (folder / "shown" / "small_model.py").write_text(starter("small_model.py"))
    (folder / "shown" / "small_model.jsonl").write_text(starter("small_model.jsonl"))
    (folder / "shown" / "peira.toml").write_text('[models]\ndemo = "replay:shown/small_model.jsonl"\n')
    done = peira("run", "shown/small_model.py", "--json").document
    assert done["counts"]["succeeded"] == 96
    means = [row["mean"] for row in done["table"]["rows"]]
    assert len(set(means)) > 1
    assert all(0.2 < mean < 0.9 for mean in means)


def test_what_it_prints_can_be_typed_where_peira_is_not_on_the_path(folder: Path) -> None:
    program = Path(sys.executable).with_name("peira")
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    command = [str(program), "demo", "--store", "shown/demo.db", "--model", "scripted:"]
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=True)
    told = done.stdout.partition("Try next:")[2].strip().splitlines()
    for line in told[:2]:
        again = re.sub(r"      #.*", "", line).strip()
        subprocess.run(again, shell=True, cwd=folder, env=environment, capture_output=True, check=True)
