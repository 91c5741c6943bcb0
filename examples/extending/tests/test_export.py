"""`outputs` is an export format, `sample` a section of the report: tried in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import peira_extras
import pytest

PROGRAM = """
import peira
from peira.core.registry import registry
from peira.errors import Invalid
from peira_extras import register

registry.load_module(register)
study = peira.Study(name="s", agent=lambda case: case.input, cases=["a", "b"], evaluators=["at_most"])
results = peira.run(study, progress=False)
for _ in range(2):
    results.export("again.outputs.tsv")
try:
    results.export("mine.outputs.tsv")
except Invalid as problem:
    print(problem)
for form in ("html", "md", "tex", "json"):
    results.report(f"s.{form}")
"""


class Ran:
    """What the program wrote and said."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "mine.outputs.tsv").write_text("mine\n")
        environment = {**os.environ, "PYTHONPATH": str(Path(peira_extras.__file__).parents[1])}
        self.said = subprocess.run(
            [sys.executable, "-c", PROGRAM],
            cwd=folder,
            env=environment,
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        ).stdout


@pytest.fixture(scope="module")
def ran(tmp_path_factory: pytest.TempPathFactory) -> Ran:
    return Ran(tmp_path_factory.mktemp("ran"))


def test_a_file_has_a_line_for_each_trial_and_replaces_an_earlier_one(ran: Ran) -> None:
    header, *lines = (ran.folder / "again.outputs.tsv").read_text().splitlines()
    assert (header, sorted(line.split("\t")[1] for line in lines)) == ("case\toutput", ['"a"', '"b"'])


def test_another_file_is_not_overwritten(ran: Ran) -> None:
    assert "mine.outputs.tsv is there and is no such export" in ran.said
    assert (ran.folder / "mine.outputs.tsv").read_text() == "mine\n"


@pytest.mark.parametrize("form", ["html", "md", "tex", "json"])
def test_every_form_of_the_report_has_the_section(ran: Ran, form: str) -> None:
    said = (ran.folder / f"s.{form}").read_text()
    assert said.count("The smallest condition has 2 trials that succeeded.") == 1
