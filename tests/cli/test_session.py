"""One command finds its project once and opens its store once: counted in real processes, while they work."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

pytestmark = pytest.mark.timeout(120)

COUNTING = '''
import json, sys, threading
from collections import Counter

counts = Counter()

def seen(frame, event, argument):
    """Called for every call of a Python function; nothing within them is traced."""
    name = frame.f_code.co_name
    if name == "__init__" and frame.f_code.co_qualname == "SqliteStore.__init__":
        counts["looked at" if frame.f_locals["readonly"] else "written"] += 1
    elif name == "find" and frame.f_code.co_qualname == "Project.find":
        counts["project looked for"] += 1
    elif name == "tabulate":
        counts["table"] += 1

def opened(event, arguments):
    if event == "open" and str(arguments[0]).endswith("peira.toml"):
        counts["project read"] += 1

sys.addaudithook(opened)
threading.settrace(seen)
sys.settrace(seen)
from peira.cli import main

for command in sys.argv[2:]:
    counts.clear()
    code = main(command.split())
    if code:
        sys.exit(f"{command}: exit code {code}")
    with open(sys.argv[1], "a") as file:
        print(json.dumps(counts), file=file)
'''


LOOKED = {"project looked for": 1, "project read": 1, "looked at": 1}
SHOWN = {**LOOKED, "table": 1}
RAN = {**SHOWN, "written": 1}


@pytest.fixture
def counted(folder: Path, warm: Any, tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Executes commands in a process of their own; what each opened and computed, and how often."""
    outside = tmp_path_factory.mktemp("counted")
    (outside / "counting.py").write_text(COUNTING)
    (folder / "peira.toml").write_text('store = "kept.db"\n')

    def execute(*commands: str) -> dict[str, dict[str, int]]:
        told = outside / "counts.jsonl"
        told.unlink(missing_ok=True)
        words = [sys.executable, str(outside / "counting.py"), str(told), *commands]
        nowhere = os.environ | {"XDG_CACHE_HOME": str(outside / "counting.py")}  # no table is cached there
        done = warm.run(words, cwd=folder, env=nowhere)
        assert done.returncode == 0, done.stderr
        return dict(zip(commands, map(json.loads, told.read_text().splitlines()), strict=True))

    return execute


@pytest.fixture
def run_id(counted: Any, peira: Any) -> str:
    """A run that is there to be looked at."""
    return str(peira("run", "capitals.py", "--json").document["run"])


def test_a_run_writes_one_store_looks_at_it_once_and_tabulates_once(counted: Any, folder: Path) -> None:
    commands = ("run capitals.py", "run capitals.py --json", "score capitals.py")
    assert counted(*commands) == dict.fromkeys(commands, RAN)
    assert (folder / "kept.db").exists()


def test_a_run_by_its_id_looks_no_more_often(counted: Any, run_id: str) -> None:
    commands = (f"run {run_id}", f"score {run_id} --evaluator includes --as lenient")
    assert counted(*commands) == dict.fromkeys(commands, RAN)


def test_what_only_looks_opens_the_store_once(counted: Any, peira: Any, run_id: str) -> None:
    trial = peira("show", "--trials", "--json").document["trials"][0]["trial"]
    commands = (
        "runs",
        "status",
        "watch",
        "events",
        "calls",
        "verify",
        "resolve",
        "batch status",
        f"show {run_id} {trial}",
        "compare --by model",
        "effects",
        "slices",
        "leaderboard --by model",
        "hypotheses",
        "export -o results.csv",
        "gate --min match=0.0",
        "plan capitals.py",
        f"plan {run_id}",
        "estimate capitals.py",
        f"diff {run_id} capitals.py",
        f"design {run_id}",
        f"data show {run_id}",
    )
    assert counted(*commands) == dict.fromkeys(commands, LOOKED)


def test_what_is_shown_is_tabulated_once(counted: Any, run_id: str) -> None:
    commands = ("show", f"show {run_id} --by model", "show --failures --trials --json")
    assert counted(*commands) == dict.fromkeys(commands, SHOWN)


def test_a_report_opens_the_store_once(counted: Any, run_id: str) -> None:
    command = f"report {run_id} -o report.md"
    assert counted(command)[command].items() >= LOOKED.items()


def test_a_plan_makes_no_store(counted: Any, folder: Path) -> None:
    command = "plan capitals.py"
    assert counted(command)[command] == {"project looked for": 1, "project read": 1}
    assert not (folder / "kept.db").exists()
