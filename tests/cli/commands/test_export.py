"""`peira export`: files for other tools, and clear words where there will be none."""

from __future__ import annotations

import csv
import json
import sqlite3
from pathlib import Path

import pytest


@pytest.fixture
def ran(peira, folder):
    return peira("run", "capitals.py", "--json").document["run"]


def test_the_newest_run_is_written_in_the_format_that_the_name_means(peira, ran, folder: Path) -> None:
    done = peira("export", "-o", "results.csv")
    assert (done.code, done.out) == (0, "")
    assert done.err == f"capitals, run {ran[:12]}: written to results.csv\n"
    with (folder / "results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 16
    assert {row["run"] for row in rows} == {ran}
    peira("export", ran[:8], "-o", "results.jsonl")
    lines = [json.loads(line) for line in (folder / "results.jsonl").read_text().splitlines()]
    assert [line["trial"] for line in lines] == [row["trial"] for row in rows]
    peira("export", "-o", "results.sqlite")
    db = sqlite3.connect(folder / "results.sqlite")
    assert db.execute("SELECT count(*) FROM trials").fetchone() == (16,)
    db.close()


def test_a_document_says_where_it_is(peira, ran) -> None:
    document = peira("export", "-o", "all", "--format", "artifact", "--json").document
    assert document == {"run": ran, "study": "capitals", "format": "artifact", "path": "all"}


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "-o: say where to write"),
        (
            ("-o", "results"),
            "results: the format is not clear from the name; say which: archive, artifact",
        ),
        (("-o", "x.csv", "--format", "cvs"), "no export 'cvs'; did you mean 'csv'?"),
        (("-o", "capitals.py", "--format", "csv"), "capitals.py is there and is no such export"),
        (("-o", "no/x.csv"), "no/x.csv: there is no folder no"),
    ],
)
def test_what_cannot_be_written_is_said_in_a_line(peira, ran, folder: Path, words, problem: str) -> None:
    before = (folder / "capitals.py").read_text()
    done = peira("export", *words)
    assert done.code == 2
    assert done.err.startswith(f"peira: {problem}")
    assert done.err.count("\n") == 1
    assert (folder / "capitals.py").read_text() == before


def test_force_overwrites(peira, ran, folder: Path) -> None:
    (folder / "x.csv").write_text("mine")
    assert peira("export", "-o", "x.csv").code == 2
    assert peira("export", "-o", "x.csv", "--force").code == 0
    assert (folder / "x.csv").read_text().startswith("run,trial,")
