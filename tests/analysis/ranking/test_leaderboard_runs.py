"""Any number of runs is ranked or compared: on the cases that two share, by one estimator, as one family."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from peira import Case, exact, run, study
from peira import open as opened
from peira.cli import main
from peira.core.ids import short
from peira.errors import Invalid
from peira.stores.memory import MemoryStore


def results(good: int, store: object, first: int = 0, name: str = "made", called: str = ""):
    """A run of 30 cases from the first on, of which so many are right."""
    cases = [Case(n, expected=n, id=f"c{n}") for n in range(first, first + 30)]

    def agent(case):
        return case.input if case.input % 30 < good else -1

    made = study(name=name, agents={f"a{good}": agent}, cases=cases, evaluators=[exact()])
    return run(made, store=store, progress=False, name=called)


def test_runs_that_have_names_are_shown_by_them():
    store = MemoryStore()
    a, b = results(20, store, name="a", called="with-tools"), results(10, store, name="b")
    assert [entry.label for entry in a.leaderboard(others=[b]).entries] == ["with-tools", short(b.run_id)]
    [contrast] = a.compare([b]).contrasts
    assert (contrast.first, contrast.second) == ("with-tools", short(b.run_id))
    assert a.where("case == 'c1'").label == "with-tools"


def test_runs_are_ranked_by_the_differences_that_compare_shows():
    store = MemoryStore()
    runs = [results(good, store, name=f"s{good}") for good in (5, 27, 15)]
    board = runs[0].leaderboard(others=runs[1:])
    assert [entry.label for entry in board.entries] == [short(runs[n].run_id) for n in (1, 2, 0)]
    assert [round(entry.mean.mean * 30) for entry in board.entries] == [27, 15, 5]
    letters = {entry.label: set(entry.letters) for entry in board.entries}
    contrasts = runs[0].compare(runs[1:], correction="holm").contrasts
    assert len(contrasts) == 3
    for one in contrasts:  # the same p-values in one family: what differs there has no letter in common here
        assert (one.adjusted <= 0.05) == (not letters[one.first] & letters[one.second])


def test_runs_with_other_cases_are_compared_on_those_they_share():
    store = MemoryStore()
    a, b = results(15, store, name="a"), results(15, store, first=15, name="b")
    board = a.leaderboard(others=[b])
    assert {entry.n for entry in board.entries} == {30}
    assert board.entries[0].best == 1


def test_each_level_of_each_run_can_be_an_entry():
    store = MemoryStore()
    a, b = results(20, store, name="a"), results(10, store, name="b")
    assert len(a.leaderboard("agent", others=[b]).entries) == 2


def test_a_run_is_ranked_once_and_a_factor_named_run_by_itself():
    store = MemoryStore()
    a = results(20, store)
    with pytest.raises(Invalid, match="each can be ranked once"):
        a.leaderboard(others=[a])
    agents, factors = {"x": lambda case, run: case.input}, {"run": [1, 2]}
    made = study(name="r", agents=agents, factors=factors, cases=[1], evaluators=[exact()])
    with pytest.raises(Invalid, match="has a factor named 'run'"):
        a.leaderboard(others=[run(made, store=store, progress=False)])


STUDY = """
from peira import exact, study

@study(cases=[(f"q{n}", f"q{n}") for n in range(8)], evaluators=[exact()])
def answer(case):
    return case.input if int(case.input[1:]) < GOOD else "no"
"""


def test_from_the_command_line(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    for good in (2, 8, 5):
        Path("answer.py").write_text(STUDY.replace("GOOD", str(good)))
        run("answer.py", store="s.db", progress=False, name=f"good{good}")
    capfd.readouterr()
    assert main(["leaderboard", "good2", "good8", "good5", "--store", "s.db", "--json"]) == 0
    found = json.loads(capfd.readouterr().out)
    assert [entry["label"] for entry in found["entries"]] == ["good8", "good5", "good2"]
    assert main(["compare", "good2", "good8", "good5", "--store", "s.db"]) == 0
    said = capfd.readouterr().out
    assert all(f"{a} - {b}" in said for a, b in [("good2", "good8"), ("good2", "good5"), ("good8", "good5")])


def test_a_killed_run_is_shown_with_the_counts_of_status(tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    Path("answer.py").write_text(STUDY.replace("GOOD", "4"))
    command = [sys.executable, "-m", "peira.cli", "run", "answer.py", "--store", "s.db", "--parallel", "1"]
    env = {**os.environ, "PEIRA_FAILPOINT": "engine.before_end:5"}
    assert subprocess.run(command, env=env, capture_output=True).returncode == -9
    capfd.readouterr()
    assert main(["status", "--store", "s.db", "--json"]) == 0
    status = json.loads(capfd.readouterr().out)
    assert main(["show", "--store", "s.db", "--json"]) == 0
    shown = json.loads(capfd.readouterr().out)
    assert (shown["status"], status["status"]) == ("interrupted", "interrupted")
    done = status["progress"]["done"]
    assert shown["counts"]["planned"] == status["progress"]["total"] == 8
    assert shown["counts"].get("succeeded", 0) == done > 0
    assert opened("s.db").results().status == "interrupted"
