"""What is opened when: asserted by modules, because times belong to the machine and the moment."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
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
PLUG_INS = ("agents", "data", "design", "evaluators", "models", "runners", "transforms")
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


def inside(modules: set[str], *packages: str) -> set[str]:
    """The modules inside these packages of peira."""
    prefixes = tuple(f"peira.{package}." for package in packages)
    return {name for name in modules if name.startswith(prefixes)}


def existing(package: str, *names: str) -> set[str]:
    """Modules of a package, by their names; each can be imported, so that its absence says something."""
    modules = {f"peira.{package}.{name}" for name in names}
    assert {name for name in modules if find_spec(name) is None} == set()
    return modules


def test_naming_what_a_study_file_needs_opens_what_is_asked_and_nothing_that_does_it(tmp_path: Path) -> None:
    modules = opened(tmp_path, NAMING)
    packages = {name.split(".")[1] for name in modules if name.startswith("peira.")}
    assert packages == {"app", "core", "errors", "spec"}
    assert inside(modules, "app") == {"peira.app.functions"}
    assert not modules & existing("core", "ask", "code.fingerprint", "steps", "chat.templates")
    assert not modules & existing("spec", "benchmark", "data_files", "query")
    assert not modules & SLOW


def test_a_study_opens_the_plug_ins_that_it_names(tmp_path: Path) -> None:
    modules = opened(tmp_path, NAMING + STUDYING)
    assert inside(modules, *PLUG_INS) == {
        "peira.evaluators.comparison",
        "peira.evaluators.text",
    }
    assert inside(modules, "app", "report") == {"peira.app.functions"}
    assert not inside(modules, "analysis", "engine", "plan", "stores")
    assert not modules & existing("spec", "data_files", "query")
    assert not modules & SLOW


def test_a_run_that_asks_no_model_opens_nothing_of_models_reports_and_means(tmp_path: Path) -> None:
    modules = opened(tmp_path, NAMING + STUDYING + RUNNING)
    assert inside(modules, "models") == {"peira.models.names"}
    assert inside(modules, "runners") == {"peira.runners.threads"}
    assert not inside(modules, "data", "transforms", "stats", "sandbox", "report.telemetry")
    assert not inside(modules, "engine.calls", "engine.batch", "stopping")
    assert not modules & existing("engine", "sources.adaptive", "run_log")
    assert not modules & existing("plan", "diff.changes")
    apart = ("batches", "bundles", "control", "imports", "plan", "prior_results", "recordings")
    assert not modules & existing("app", *apart, "store.calls", "store.table_files", "store.trial")
    assert inside(modules, "analysis") == {"peira.analysis.results"}
    assert inside(modules, "results") == {f"peira.results.{name}" for name in ("aims", "trials")}
    assert not modules & (SLOW - {"apsw", "zstandard"})


def test_a_hello_world_executes_few_functions_in_few_files(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "work" / "hello.py"), "peira"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    counted = json.loads(done.stdout)
    assert counted["functions"] < 800
    assert counted["function_files"] < 120


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    opened(tmp_path, NAMING + STUDYING + RUNNING)
    return tmp_path


def commanded(folder: Path, *words: str) -> set[str]:
    return opened(folder, f"from peira.cli import main\nassert main({list(words)!r}) == 0\n")


def test_help_opens_no_command_and_nothing_that_encodes(tmp_path: Path) -> None:
    modules = commanded(tmp_path, "--help")
    assert not inside(modules, "analysis", "app", "engine", "plan", "spec", "stores")
    assert not modules & ((SLOW - {"typer"}) | {"msgspec", "pydantic"})


@pytest.mark.parametrize("word", ["runs", "status"])
def test_looking_at_runs_opens_nothing_that_runs_them(ran: Path, word: str) -> None:
    modules = commanded(ran, word, "--store", "store.db")
    read = {"kinds", "run_log", "progress", "recovery"}
    assert inside(modules, "engine") == {f"peira.engine.{name}" for name in read}
    assert not modules & existing("app", "run", "preflight", "store.calls")
    assert not modules & (SLOW - {"apsw", "typer", "zstandard"})


@pytest.mark.parametrize("words", [("show",), ("run", "tried.py")])
def test_a_small_table_that_was_shown_before_needs_no_statistics(
    tmp_path: Path, words: tuple[str, ...]
) -> None:
    (tmp_path / "tried.py").write_text(NAMING + STUDYING)
    peira = [sys.executable, "-m", "peira", "run", "tried.py", "--store", "store.db"]
    subprocess.run(peira, cwd=tmp_path, check=True, capture_output=True)
    code = f"from peira.cli import main\nassert main({[*words, '--store', 'store.db']!r}) == 0\n"
    (tmp_path / "command.py").write_text(code + TELLING)
    done = subprocess.run(
        [sys.executable, "command.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    modules = set(json.loads(done.stdout.splitlines()[-1]))
    assert "1.00 [" in done.stdout
    assert not modules & {"asyncio", "numpy", "scipy"}
    assert not inside(modules, "engine.batch", "engine.calls", "engine.workers")
