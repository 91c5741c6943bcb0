"""An agent that changes the working folder loses nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

PROGRAM = """
import os, sys
from peira import run, study, current_trial

def size(output):
    return len(output)

@study(cases=[str(i % 10) for i in range(12)], evaluators=[size])
def wanders(case):
    os.chdir(sys.argv[1])
    (current_trial().workdir / "note.txt").write_text("here")
    return case.input * 200_000

results = run(wanders, store="store.db", parallel=4)
assert not results.failures, results.failures
assert [len(trial.output) for trial in results.trials] == [200_000] * 12
"""


def test_large_outputs_of_an_agent_that_changes_folder(tmp_path: Path) -> None:
    here, there = tmp_path / "here", tmp_path / "there"
    here.mkdir()
    there.mkdir()
    (here / "wanders.py").write_text(PROGRAM)
    subprocess.run([sys.executable, "wanders.py", str(there)], cwd=here, check=True)
    assert os.listdir(there) == []
    command = [sys.executable, "-m", "peira.cli", "verify", "--store", "store.db", "--json"]
    checked = subprocess.run(command, cwd=here, check=True, stdout=subprocess.PIPE)
    assert json.loads(checked.stdout)["problems"] == []
