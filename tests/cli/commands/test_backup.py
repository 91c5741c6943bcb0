"""backup: a copy of a store that may be in use, complete or not a store."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from peira import open as opened
from peira.cli import main
from peira.errors import Invalid
from peira.stores.memory import MemoryStore
from peira.stores.sqlite.store import SqliteStore
from peira.stores.verify import verify

LARGE = """
from peira import study

@study(cases=[(n, None) for n in range(6)], evaluators=["includes"])
def large(case):
    return f"{case.input} " * 60_000
"""


@pytest.fixture
def large(peira, folder):
    (folder / "large.py").write_text(LARGE)
    assert peira("run", "large.py", "--store", "s.db").code in (0, 1)
    return folder


def problems(path: str | Path) -> list[str]:
    store = SqliteStore(path, readonly=True)
    try:
        return verify(store)
    finally:
        store.close()


def test_a_copy_is_a_store_with_everything(peira, large):
    made = peira("backup", "copy/b.db", "--store", "s.db", "--json")
    assert made.code == 0, made.err
    assert (made.document["store"], made.document["runs"]) == (str(large / "copy/b.db"), 1)
    assert problems("copy/b.db") == []
    one, other = opened("s.db"), opened("copy/b.db")
    assert [trial.output for trial in one.results()] == [trial.output for trial in other.results()]
    (large / "s.db").unlink()
    for file in large.glob("s.db.blobs/??/*"):
        file.unlink()
    assert peira("run", "large.py", "--store", "copy/b.db").out.startswith("large")
    assert problems("copy/b.db") == []


def test_nothing_is_replaced(peira, large):
    (large / "b.db").write_text("mine")
    refused = peira("backup", "b.db", "--store", "s.db")
    assert (refused.code, (large / "b.db").read_text()) == (2, "mine")
    assert refused.problems == [f"peira: {large / 'b.db'} exists already; a backup replaces nothing"]
    assert peira("backup", "s.db", "--store", "s.db").code == 2
    assert problems("s.db") == []


def test_while_a_run_is_writing(peira, spawn, under_way, folder):
    """Each copy is sound, has no owner and goes on where it is, whatever the original does."""
    running = spawn("run", "slow.py", "--parallel", "16")
    done = 0
    for number in range(3):
        under_way(done + 30)
        assert peira("backup", f"b{number}.db").code == 0
        assert problems(f"b{number}.db") == []
        copied = peira("status", "--store", f"b{number}.db", "--json").document
        assert copied["status"] == "interrupted"
        assert copied["progress"]["done"] >= done
        done = copied["progress"]["done"]
    assert running.poll() is None
    gone_on = peira("run", "slow.py", "--store", "b2.db", "--limit", "40", "--parallel", "16", "--json")
    assert gone_on.code == 0, gone_on.err
    assert problems("b2.db") == []


@pytest.mark.parametrize("place", ["backup.before_blobs", "backup.before_rename"])
def test_a_copy_that_is_cut_off_is_no_store_and_is_completed(peira, large, place):
    command = [sys.executable, "-m", "peira.cli", "backup", "b.db", "--store", "s.db"]
    killed = subprocess.run(command, env={**os.environ, "PEIRA_FAILPOINT": place}, capture_output=True)
    assert killed.returncode == -9
    assert not (large / "b.db").exists()
    assert peira("backup", "b.db", "--store", "s.db").code == 0
    assert problems("b.db") == []
    assert sorted(file.name for file in large.glob("b.db*")) == ["b.db", "b.db.blobs"]


def test_a_store_that_cannot_be_copied_says_so(tmp_path):
    with pytest.raises(Invalid, match="cannot be copied to a file"):
        opened(MemoryStore()).backup(tmp_path / "b.db")


def test_there_must_be_a_store(folder, capsys):
    assert main(["backup", "b.db", "--store", "none.db"]) == 2
    assert "there is no store at none.db" in capsys.readouterr().err
