"""The studies of a project: which files hold one, what they would do, and starting them.

Studies are code. They are planned and run by `peira` in processes of their own, so that a server neither
imports them nor ends with them: a run that was started goes on when the server ends.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from peira.app.store.access import environment_of
from peira.core.registry import nearest
from peira.core.text.secrets import without_keys
from peira.engine.control import BY, requester
from peira.errors import Invalid, PeiraError

KINDS = (".py", ".toml", ".yaml", ".yml", ".json")
DEPTH, MOST_FILES, MOST_BYTES = 3, 500, 200_000
"""How deep folders are looked through, for how many files of which size at most."""
LEFT_OUT = {"node_modules", "__pycache__", "venv", "env", "build", "dist", "site-packages"}
DECLARES = re.compile(r"(?m)^@(?:peira\.)?study\b|^\w+\s*=\s*(?:peira\.)?[Ss]tudy\(")
TABLE = re.compile(r"""(?m)^\s*["']?(?:agent|agents)["']?\s*[=:]|^\s*\[agent""")
CASES = re.compile(r"""(?m)^\s*["']?cases["']?\s*[=:]|^\s*\[\[?cases""")
UNUSABLE = 2
"""The exit code of commands that were given something wrong."""
BEGINS = 4.0
"""Seconds after which units that are executed once more are on their way."""
PATIENCE = 120.0
"""Seconds that planning a study, or starting it, may take."""


class StudyFile(msgspec.Struct, frozen=True):
    """A file that holds a study, by its path in the project."""

    path: str
    kind: str


class StudyPreview(msgspec.Struct, frozen=True):
    """What a study would do, as text: its plan, what it would take, and what its design can tell."""

    study: str
    plan: str
    estimate: str
    design: str
    ok: bool


class StartedRun(msgspec.Struct, frozen=True):
    """A run that was started in a process of its own; `said` tells it in a sentence."""

    run: str
    pid: int
    log: str
    said: str


def study_files(folder: Path) -> list[StudyFile]:
    """The files of a project that hold a study, by their contents; nothing of them is executed."""
    found = []
    for path in _files(folder)[:MOST_FILES]:
        try:
            text = path.read_text("utf-8") if path.stat().st_size <= MOST_BYTES else ""
        except (OSError, UnicodeDecodeError):
            continue
        declares = (
            DECLARES.search(text) if path.suffix == ".py" else TABLE.search(text) and CASES.search(text)
        )
        if declares and path.name != "peira.toml":
            found.append(StudyFile(path.relative_to(folder).as_posix(), path.suffix[1:]))
    return found


def _files(folder: Path) -> list[Path]:
    """The files in a folder and those below it that could hold a study."""
    found: list[Path] = []
    for here, folders, names in os.walk(folder):
        depth = len(Path(here).relative_to(folder).parts)
        folders[:] = sorted(
            name for name in folders if not name.startswith(".") and name not in LEFT_OUT and depth < DEPTH
        )
        found += [Path(here, name) for name in sorted(names) if name.endswith(KINDS)]
    return found


def chosen_study(folder: Path, name: str) -> str:
    """The path of a study of the project; Invalid if there is none of that name."""
    known = [one.path for one in study_files(folder)]
    file = name.rpartition(":")[0] if ".py:" in name else name
    if file not in known:
        raise Invalid(f"study: {name!r} is no study of this project{nearest(file, known)}")
    return name


def preview(folder: Path, study: str, store: str) -> StudyPreview:
    """What a study would do."""
    chosen = chosen_study(folder, study)
    plan = _peira(folder, store, "plan", chosen)
    estimate = _peira(folder, store, "estimate", chosen)
    design = _peira(folder, store, "design", chosen)
    return StudyPreview(study, plan[1], estimate[1], design[1], plan[0] == 0)


def start(folder: Path, what: str, store: str, options: Sequence[str] = ()) -> StartedRun:
    """Run a study, or go on with a run, detached; returns once the run is durable."""
    code, said = _peira(folder, store, "run", what, "--detach", "--json", *options)
    if code:
        raise _refusal(code, said or "the run could not be started")
    begun: dict[str, Any] = json.loads(said)
    return StartedRun(begun["run"], begun["pid"], begun["log"], f"run {begun['run'][:12]} has begun")


def score(folder: Path, run: str, store: str, evaluators: Sequence[str], name: str) -> str:
    """Score the outputs of a run with these evaluators; returns what the command says."""
    words = [word for one in evaluators for word in ("--evaluator", one)]
    named = ["--as", name] if name else []
    code, said = _peira(folder, store, "score", run, "--quiet", *words, *named)
    if code not in (0, 1):
        raise _refusal(code, said)
    return said


def retry_units(folder: Path, run: str, store: str, units: Sequence[str]) -> None:
    """Execute units of a work plan once more, in a process that goes on by itself."""
    words = [sys.executable, "-P", "-m", "peira.cli", "work", "retry", *units, "--run", run, "--store", store]
    started = subprocess.Popen(
        [*words, "--quiet"],
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env=_environment(store),
    )
    try:
        _, said = started.communicate(timeout=BEGINS)
    except subprocess.TimeoutExpired:
        threading.Thread(target=started.communicate, name="peira-web-retry", daemon=True).start()
        return
    if started.returncode not in (0, 1):
        raise _refusal(started.returncode, without_keys(said) or "the units could not be executed")


def who() -> str:
    """Who acts from a page, as events name them."""
    return f"{requester()} (web)"


def _environment(store: str) -> dict[str, str]:
    """The environment of commands: what they record says that it was asked for on a page."""
    return {**environment_of(store), BY: who()}


def _refusal(code: int, said: str) -> PeiraError:
    """The problem of a command that failed: one with the request if it says so."""
    text = said.strip().removeprefix("peira: ")
    return Invalid(text) if code == UNUSABLE else PeiraError(text)


def _peira(folder: Path, store: str, *words: str) -> tuple[int, str]:
    """The exit code of a command on the store, and what it printed; the problem if it failed."""
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", "peira.cli", *words, "--store", store],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=_environment(store),
        )
    except subprocess.TimeoutExpired:
        raise PeiraError(f"peira {words[0]} took longer than {PATIENCE:.0f} s") from None
    failed = done.returncode not in (0, 1) or not done.stdout.strip()
    return done.returncode, without_keys(done.stderr if failed else done.stdout)
