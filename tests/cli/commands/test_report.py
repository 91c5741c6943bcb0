"""`peira report`, as people use it."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

Peira = Callable[..., Any]


def test_a_report_says_its_answer_and_where_it_is(peira: Peira, folder: Path) -> None:
    peira("run", "capitals.py", "--quiet")
    done = peira("report")
    assert done.code == 0
    answer, path = done.out.splitlines()
    assert answer.startswith(
        "match does not clearly change with model, size or the interaction model x size."
    )
    assert path.startswith("capitals-")
    page = (folder / path).read_text()
    assert "What do model and size do to match?" in page
    assert "the agent prints this" not in done.out
    made = peira("report", "-o", "report.json", "--trials", "3", "--json").document
    assert made["answer"] == answer
    document = json.loads((folder / "report.json").read_text())
    assert len(document["trials"]) == 3
    assert document["run"] == made["run"]
    assert "peira" in dict(document["versions"])


def test_what_was_said_to_models_and_how_the_run_came_about_is_in_it(peira: Peira, folder: Path) -> None:
    (folder / "asks.py").write_text(
        "from peira import ask, exact, study\n"
        "@study(cases=[('Hello?', 'Hello?'), ('<b>?', 'x')], factors={'style': ['a', 'b']}, order='given',\n"
        "       evaluators=[exact()], title='Echoes', rationale='Does it echo?')\n"
        "def asks(case, style):\n"
        "    return ask('scripted:echo', case.input, system=style)\n"
    )
    peira("plan", "asks.py", "--freeze")
    peira("run", "asks.py", "--quiet")
    assert peira("report", "-o", "r.json").code == 0
    document = json.loads((folder / "r.json").read_text())
    assert (document["title"], document["question"]) == ("Echoes", "Does it echo?")
    [call] = document["trials"][0]["calls"]
    assert (call["model"], call["said"]) == ("scripted:echo", "Hello?")
    assert call["asked"].startswith("system: a\n\nuser: Hello?")
    titles = {threat["title"] for threat in document["threats"]}
    assert {"Not randomised", "Few cases", "No repeats", "Served models"} <= titles
    assert "Not pre-registered" not in titles
    assert document["deviations"][0].startswith("as in the plan frozen")
    assert "in the order given" in document["methods"][0]
    assert document["spending"]["rows"][0][0] == "scripted:echo"
    assert "answered" in call["about"]


def test_plots_go_to_a_folder(peira: Peira, folder: Path) -> None:
    peira("run", "failing.py", "--quiet")
    done = peira("report", "-o", "report.md", "--plots", "figures")
    assert done.out.splitlines() == [
        "exact is 1.00 [0.00, 1.00] on 1 case.",
        "report.md",
    ]
    assert done.err.splitlines()[-1] == "2 plots in figures"
    assert sorted(path.name for path in (folder / "figures").iterdir()) == ["forest.png", "forest.svg"]
    assert "no luck with this one" in (folder / "report.md").read_text()


def test_wrong_use_is_one_line(peira: Peira, folder: Path) -> None:
    assert peira("report").code == 2
    peira("run", "failing.py", "--quiet")
    done = peira("report", "-o", "report.doc")
    assert (done.code, done.problems) == (
        2,
        ["peira: -o: 'report.doc' must end in one of .html, .json, .md, .pdf, .tex"],
    )
    assert peira("report", "-o", "none/report.md").problems == [
        "peira: there is no folder 'none' to write 'report.md' in"
    ]
    done = peira("report", "-o", "report.md", "--level", "95")
    assert done.problems == [
        "peira: invalid value for '--level': 95 is not between 1e-12 and 0.999999999999 "
        "(see `peira report --help`)"
    ]
    assert not (folder / "report.md").exists()
