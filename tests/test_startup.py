"""What is opened when: asserted by modules, because times belong to the machine and the moment."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

NAMING = "from peira import study, run\n"
STUDYING = """
@study(cases=[{"input": "a", "expected": "a"}], evaluators=["exact"])
def echo(case):
    return case.input
"""
RUNNING = """
results = run(echo, store="store.db", progress=False)
assert results.ok, results
"""
TELLING = "\nimport json, sys\nprint(json.dumps(sorted(sys.modules)))\n"
SHELVES = ("agents", "data", "design", "evaluators", "models", "runners", "transforms")
SLOW = {"aiohttp", "apsw", "asyncio", "genai_prices", "jinja2", "jsonschema", "matplotlib", "multiprocessing"}
SLOW |= {"numpy", "pandas", "psutil", "regex", "rich", "scipy", "typer", "yaml", "zstandard"}


def opened(folder: Path, code: str) -> set[str]:
    """The modules of a fresh process that did this."""
    (folder / "tried.py").write_text(code + TELLING)
    done = subprocess.run(
        [sys.executable, "tried.py"], cwd=folder, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return set(json.loads(done.stdout.splitlines()[-1]))


def rooms(modules: set[str], *packages: str) -> set[str]:
    """The modules inside these packages of peira."""
    inside = tuple(f"peira.{package}." for package in packages)
    return {name for name in modules if name.startswith(inside)}


def test_naming_what_a_study_file_needs_opens_what_is_asked_and_nothing_that_does_it(tmp_path: Path) -> None:
    modules = opened(tmp_path, NAMING)
    packages = {name.split(".")[1] for name in modules if name.startswith("peira.")}
    assert packages == {"api", "core", "errors", "spec"}
    assert rooms(modules, "api") == {"peira.api.verbs"}
    assert not rooms(modules, "core") & {"peira.core.asking", "peira.core.fingerprint", "peira.core.steps"}
    assert not modules & (SLOW | {"peira.spec.benchmark"})


def test_a_study_opens_the_plug_ins_that_it_names(tmp_path: Path) -> None:
    modules = opened(tmp_path, NAMING + STUDYING)
    assert rooms(modules, *SHELVES) == {
        "peira.evaluators.comparison",
        "peira.evaluators.libraries",
        "peira.evaluators.text",
        "peira.models.names",
    }
    assert rooms(modules, "api", "report") == {"peira.api.verbs", "peira.report.exports"}
    assert not rooms(modules, "analysis", "engine", "plan", "stores")
    assert not modules & SLOW


def test_a_run_that_asks_no_model_opens_nothing_of_models_reports_and_means(tmp_path: Path) -> None:
    modules = opened(tmp_path, NAMING + STUDYING + RUNNING)
    assert rooms(modules, "models") == {"peira.models.names"}
    assert rooms(modules, "runners") == {"peira.runners.threads"}
    assert not rooms(modules, "data", "transforms", "stats", "sandbox", "report.telemetry")
    apart = {"answers", "batching", "bundles", "calls", "control", "deciding", "earlier", "importing"}
    apart |= {"planning", "recordings", "rescoring", "resolving", "tables", "trial", "working"}
    assert not rooms(modules, "api") & {f"peira.api.{name}" for name in apart}
    assert rooms(modules, "analysis") == {
        f"peira.analysis.{name}" for name in ("aims", "background", "results", "stopping", "trials")
    }
    assert not modules & (SLOW - {"apsw", "asyncio", "zstandard"})


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    opened(tmp_path, NAMING + STUDYING + RUNNING)
    return tmp_path


def commanded(folder: Path, *words: str) -> set[str]:
    return opened(folder, f"from peira.cli import main\nassert main({list(words)!r}) == 0\n")


def test_help_opens_no_command_and_nothing_that_encodes(tmp_path: Path) -> None:
    modules = commanded(tmp_path, "--help")
    assert not rooms(modules, "analysis", "api", "engine", "plan", "spec", "stores")
    assert not modules & ((SLOW - {"typer"}) | {"msgspec", "pydantic"})


@pytest.mark.parametrize("word", ["runs", "status"])
def test_looking_at_runs_opens_nothing_that_runs_them(ran: Path, word: str) -> None:
    modules = commanded(ran, word, "--store", "store.db")
    read = {"kinds", "log", "progress", "recovery"}
    assert rooms(modules, "engine") == {f"peira.engine.{name}" for name in read}
    assert not rooms(modules, "api") & {"peira.api.running", "peira.api.estimating", "peira.api.calls"}
    assert not modules & (SLOW - {"apsw", "typer", "zstandard"})
