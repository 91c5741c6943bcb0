"""Starts the scripts of `work/` in fresh processes, alternating, and collects the rows that they print.

This process stays small on purpose: a child's peak memory, as the system counts it, starts from its parent's.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
"""The folder of the repository."""
SCRIPTS = ROOT / "benchmarks" / "work"
PYTHON = Path(sys.executable)
FORMER = " (former)"
"""The end of the labels of what is measured with the sources of a former commit."""
NOT_OURS = ("trials_apsw.py",)
"""Works that use nothing of this project."""


class Failed(Exception):
    """Something could not be measured; the message says what, with the last line of its output."""


@dataclass(frozen=True)
class Bench:
    """The options of a benchmark; `scratch` is an empty folder on the disk that is measured."""

    trials: int
    rounds: int
    cache: Path
    scratch: Path
    former: Path | None = None
    """The sources of a former commit of this project, to be measured beside the present ones."""
    large: int = 0
    """The number of trials of a very large run."""

    @property
    def sizes(self) -> tuple[int, int, int]:
        """The numbers of trials of a small, a medium and a large run."""
        return self.trials // 20, self.trials, self.trials * 10


@dataclass(frozen=True)
class Row:
    """The measurements that a script printed.

    `new` is the number of agent calls, `build_seconds` the time to build the study.
    """

    name: str
    version: str
    n: int
    seconds: float
    cpu_seconds: float
    bytes: int
    rss_mb: float
    build_seconds: float = 0.0
    new: int | None = None


@dataclass(frozen=True)
class Work:
    """One thing to measure: a label, and the command that does it once."""

    label: str
    script: str
    n: int
    options: tuple[str, ...] = ()
    python: Path = PYTHON
    sources: Path | None = None
    """Sources of this project to use in place of the present ones."""

    @property
    def is_neighbour(self) -> bool:
        """Whether it measures another package."""
        return self.python != PYTHON

    def once(self, folder: Path) -> Row:
        """Do the work in a fresh interpreter with `folder` as working directory."""
        folder.mkdir(parents=True, exist_ok=True)
        command = [
            str(self.python),
            str(SCRIPTS / self.script),
            str(self.n),
            "--folder",
            str(folder),
            *self.options,
        ]
        # Other packages write to the user's data folder: give them a temporary one.
        environment = os.environ | {"XDG_DATA_HOME": str(folder.with_name("data"))}
        if self.sources is not None:
            environment |= {"PYTHONPATH": str(self.sources)}
        return Row(**json.loads(last_line(finish(self.label, command, cwd=folder, env=environment))))


def alternate(works: Sequence[Work], bench: Bench) -> tuple[dict[str, list[Row]], dict[Work, str]]:
    """Every work once per round, alternating, each in its own folder; rows by label, and failures.

    A work that fails is skipped from then on, so the rows of a label are its first rounds. With the sources
    of a former commit, each work of this project is followed by the same with those.
    """
    works = [each for work in works for each in with_former(work, bench.former)]
    rows: dict[str, list[Row]] = {}
    failed: dict[Work, str] = {}
    for turn in range(bench.rounds):
        for work in works:
            if work in failed:
                continue
            say(f"round {turn + 1} of {bench.rounds}: {work.label} ({work.n:,})")
            try:
                with tempfile.TemporaryDirectory(dir=bench.scratch) as folder:
                    row = work.once(Path(folder) / "work")
            except Failed as failure:
                failed[work] = str(failure)
            else:
                rows.setdefault(work.label, []).append(row)
    return rows, failed


def with_former(work: Work, sources: Path | None) -> Sequence[Work]:
    """The work, and the same with the sources of a former commit where there are any."""
    if sources is None or work.is_neighbour or work.script in NOT_OURS or "bare" in work.options:
        return [work]
    return [work, replace(work, label=f"{work.label}{FORMER}", sources=sources)]


def finish(
    label: str, command: Sequence[str], cwd: Path | None = None, env: dict[str, str] | None = None
) -> str:
    """Run a command to completion and return its standard output; raises `Failed` with its last line."""
    done = subprocess.run(command, cwd=cwd, env=env, capture_output=True, text=True)
    if done.returncode:
        raise Failed(f"{label}: {last_line(done.stderr)}")
    return done.stdout


def last_line(text: str) -> str:
    return (text.strip().splitlines() or ["it said nothing"])[-1]


def say(text: str) -> None:
    """Print progress to standard error; standard output carries only the result."""
    print(text, file=sys.stderr, flush=True)
