"""The package of docs/extending.md, installed as pip would: found by its entry point, in real processes."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "examples" / "extending"
SPEC = importlib.util.spec_from_file_location("docs_examples_installing", ROOT / "docs" / "examples.py")
examples = sys.modules["docs_examples_installing"] = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(examples)

STUDY = """
name = "greetings"
cases = ["Ada", "Grace", "Yes, Joan"]
agent = {kind = "template", text = "{greeting}, {input}"}
design = "corners"
transform = "yes_no"
evaluators = [{name = "at_most", words = 2}]
stop = {rule = "enough", cases = 3}
[factors]
greeting = ["Hi", "Hello", "Good day"]
"""
OFFERED = """
import json
from peira.core.registry import registry
from peira_extras import MODULES
made = {kind: callable(registry.look(kind, name)) for kind, name in MODULES.values()}
print(json.dumps([sorted(MODULES), made]))
"""


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """Where the package is installed, for all tests here."""
    site = tmp_path_factory.mktemp("installed") / "site"
    examples.install(PACKAGE, site)
    return site


@pytest.fixture
def done(site, tmp_path):
    """Runs Python there, with the package installed."""
    (tmp_path / "greetings.toml").write_text(STUDY)

    def run(*words):
        environment = {**os.environ, "PYTHONPATH": str(site), "PEIRA_STORES": str(tmp_path)}
        command = [sys.executable, *words]
        return subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
        )

    return run


def test_every_plug_in_is_found_by_the_entry_point(done):
    modules, made = json.loads(done("-c", OFFERED).stdout)
    assert set(made.values()) == {True}
    files = {file.stem for file in (PACKAGE / "src" / "peira_extras").glob("*.py")}
    assert {*modules} == files - {"__init__", "tasks"}


@pytest.mark.parametrize("runner", ["local", "process", "one_thread_each"])
def test_all_of_them_work_in_one_study(done, runner):
    run = ("-m", "peira.cli", "run", "greetings.toml", "--json", "--store", "named://one")
    ended = done(*run, "--runner", runner)
    assert ended.returncode == 0, ended.stderr
    assert (
        json.loads(ended.stdout)["counts"]["succeeded"] == 6
    )  # of 9: `corners` takes the first and last level
    again = json.loads(done(*run, "--runner", runner).stdout)
    assert again["counts"]["reused"] == 6
    shown = json.loads(done("-m", "peira.cli", "show", "--json", "--store", "named://one").stdout)
    assert [row["no_answer"] for row in shown["table"]["rows"]] == [2, 2]


def test_every_module_and_every_test_stands_on_the_page_or_behind_it():
    page = (ROOT / "docs" / "extending.md").read_text()
    for file in sorted((PACKAGE / "src" / "peira_extras").glob("*.py")):
        assert f"# examples/extending/src/peira_extras/{file.name}\n" in page
    tested = {file.stem.removeprefix("test_") for file in (PACKAGE / "tests").glob("test_*.py")}
    assert {file.stem for file in (PACKAGE / "src" / "peira_extras").glob("*.py")} - tested == {
        "__init__",
        "section",
    }
