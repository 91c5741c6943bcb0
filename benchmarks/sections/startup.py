"""Start-up CPU time above a bare interpreter: imports, a first study and run, read-only commands."""

from __future__ import annotations

import os
import resource
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from sections.figures import Section, times
from sections.processes import FORMER, PYTHON, Bench, Failed, finish

STARTS = 5
"""Number of starts of each command."""
BARE = "bare interpreter"
NAMING = "from peira import study, run"
STUDYING = f"""{NAMING}
@study(cases=[{{"input": "a", "expected": "a"}}, {{"input": "b", "expected": "b"}}], evaluators=["exact"])
def echo(case):
    return case.input
"""
RUNNING = f"""{STUDYING}
import os
run(echo, store=f"{{os.getpid()}}.db", progress=False)
"""
FINISHED = """
from peira import study

CASES = [{"input": n, "expected": n} for n in range(4)]

@study(cases=CASES, factors={"a": [1, 2], "b": [1, 2]}, evaluators=["exact"])
def echo(case, a, b):
    return case.input
"""
PEIRA = str(PYTHON.with_name("peira"))
COMMANDS: Mapping[str, list[str]] = {
    BARE: [str(PYTHON), "-c", "pass"],
    "import peira": [str(PYTHON), "-c", "import peira"],
    NAMING: [str(PYTHON), "-c", NAMING],
    "a first study": [str(PYTHON), "study.py"],
    "a first study, run": [str(PYTHON), "run.py"],
    "peira --help": [PEIRA, "--help"],
    "peira runs": [PEIRA, "runs", "--store", "looked-at.db"],
    "peira show": [PEIRA, "show", "--store", "looked-at.db"],
    "peira run, 16 finished trials": [PEIRA, "run", "finished.py", "--store", "finished.db"],
}


def startup(bench: Bench) -> Section:
    """Fresh processes, alternating; the best of each, because noise only adds time."""
    places = {"": _prepared(bench.scratch / "present", None)}
    if bench.former is not None:
        places[FORMER] = _prepared(bench.scratch / "former", bench.former)
    spent: dict[str, list[float]] = {}
    failed: dict[str, str] = {}
    for _turn in range(STARTS):
        for command in COMMANDS:
            for ending, place in places.items():
                label = f"{command}{ending}"
                if label in failed or (ending and command == BARE):
                    continue
                try:
                    spent.setdefault(label, []).append(place.cpu_of(command))
                except (Failed, FileNotFoundError) as failure:
                    failed[label] = str(failure)
    best = {label: min(seconds) for label, seconds in spent.items() if seconds}
    return Section(
        f"start-up: CPU seconds of a fresh process, best of {STARTS} in turns",
        ("", "CPU s", "above bare", "/ bare"),
        [
            (label, f"{cpu:.3f}", f"{cpu - best[BARE]:.3f}", times(cpu / best[BARE]))
            for label, cpu in best.items()
        ],
        {"cpu_seconds": spent},
        ["PYTHONDONTWRITEBYTECODE is set: sources that were never compiled are compiled by each process"]
        if os.environ.get("PYTHONDONTWRITEBYTECODE")
        else [],
        list(failed.values()),
    )


@dataclass(frozen=True)
class _Place:
    """A folder with studies and stores, and the environment that chooses the sources."""

    folder: Path
    environment: dict[str, str]

    def run(self, label: str, command: list[str]) -> None:
        finish(label, command, cwd=self.folder, env=self.environment)

    def cpu_of(self, command: str) -> float:
        """CPU time of one process."""
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        self.run(command, COMMANDS[command])
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _prepared(folder: Path, sources: Path | None) -> _Place:
    """Write the study and its run as files, where agents' code can be found, and create stores."""
    folder.mkdir()
    place = _Place(folder, os.environ | ({} if sources is None else {"PYTHONPATH": str(sources)}))
    (folder / "study.py").write_text(STUDYING)
    (folder / "run.py").write_text(RUNNING)
    looked_at = RUNNING.replace('f"{os.getpid()}.db"', '"looked-at.db"')
    (folder / "looked_at.py").write_text(looked_at)
    (folder / "finished.py").write_text(FINISHED)
    place.run("a finished run", COMMANDS["peira run, 16 finished trials"])
    place.run("a store to look at", [str(PYTHON), "looked_at.py"])
    return place
