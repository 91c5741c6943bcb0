"""What a run shows is what was true when it ended, whatever later runs do."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from peira import evaluate, run
from peira import open as opened
from peira.cli import main
from peira.stores.verify import verify

STUDY = """
import time
from pathlib import Path
from peira import exact, study

def judge(output):
    if output == "q1" and not Path("judge").exists():
        raise ValueError("no verdict yet")
    return True

@study(cases=[(f"q{n}", f"q{n}") for n in range(6)], evaluators=[exact(), judge], policy={"retries": 0})
def flaky(case):
    if case.input in Path("bad").read_text().split():
        raise ValueError("not today")
    if Path("slow").exists():
        time.sleep(60)
    return case.input
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("flaky.py").write_text(STUDY)
    Path("bad").write_text("q2 q3")
    return tmp_path


def shown(run_id: str, latest: bool = False) -> list[tuple[object, ...]]:
    """Everything of the results that people look at."""
    return [
        (
            t.id,
            t.state,
            t.output,
            t.reused,
            t.attempts,
            t.took,
            {n: (s.state, s.value) for n, s in t.scores.items()},
        )
        for t in opened("s.db").results(run_id, latest).trials
    ]


def test_later_runs_change_nothing_of_an_earlier_one(folder):
    first = run("flaky.py", store="s.db", progress=False).run_id
    then = shown(first)
    assert [row[1] for row in then].count("failed") == 2
    table = str(opened("s.db").results(first).table())
    Path("bad").write_text("q3")
    Path("judge").touch()
    second = run("flaky.py", store="s.db", progress=False).run_id
    in_between = shown(second)
    Path("bad").write_text("")
    third = run("flaky.py", store="s.db", progress=False).run_id
    assert shown(first) == then
    assert str(opened("s.db").results(first).table()) == table
    assert shown(second) == in_between
    assert [row[1] for row in in_between].count("failed") == 1
    assert all(row[1] == "succeeded" for row in shown(third))
    assert [row[:3] for row in shown(first, latest=True)] == [row[:3] for row in shown(third)]
    assert sum(row[3] for row in then) == 0
    assert sum(row[3] for row in shown(first, latest=True)) == 2


def test_results_at_hand_stay_as_they_were(folder):
    results = run("flaky.py", store="s.db", progress=False)
    failed = [row.trial.input for row in results.failures]
    Path("bad").write_text("")
    run("flaky.py", store="s.db", progress=False)
    assert [row.trial.input for row in results.failures] == failed


def test_what_a_later_run_added_is_not_there(folder):
    """The outputs were made without scores first."""
    first = run("flaky.py", store="s.db", limit=3, progress=False).run_id
    then = shown(first)
    Path("bad").write_text("")
    Path("judge").touch()
    run("flaky.py", store="s.db", progress=False)
    assert shown(first) == then


def test_a_later_evaluation_is_not_shown_in_the_earlier_run(folder):
    Path("bad").write_text("")
    first = run("flaky.py", store="s.db", progress=False).run_id
    then = shown(first)
    Path("judge").touch()
    evaluate(first, store="s.db", progress=False)
    assert shown(first) == then
    assert shown(first, latest=True) != then


def test_the_commands_show_it_so_and_latest_on_request(folder, capsys):
    first = run("flaky.py", store="s.db", progress=False).run_id
    Path("bad").write_text("")
    run("flaky.py", store="s.db", progress=False)

    def said(*arguments: str) -> tuple[int, str]:
        capsys.readouterr()
        return main([*arguments, "--store", "s.db"]), capsys.readouterr().out

    assert "2 failed trials" in said("show", first)[1]
    assert "2 failed trials" not in said("show", first, "--latest")[1]
    assert said("gate", first, "--min", "exact=0.5")[0] == 1
    assert said("gate", first, "--min", "exact=0.5", "--latest")[0] == 0
    assert (
        said("show", first, "--failures")[1].count("ValueError: not today") == 3
    )  # the reason once, and two trials
    said("export", first, "-o", "then.csv")
    said("export", first, "-o", "now.csv", "--latest")
    assert Path("then.csv").read_text().count("failed") > Path("now.csv").read_text().count("failed")
    said("report", first, "-o", "then.md")
    assert "earlier run" not in Path("then.md").read_text()
    trial = next(t.id for t in opened("s.db").results(first).trials if t.state == "failed")
    assert "not today" in said("show", first, trial)[1]
    assert "not today" not in said("show", first, trial, "--latest")[1]


def test_a_killed_run_shows_its_counts_as_status_does(folder):
    Path("slow").touch()
    command = [sys.executable, "-m", "peira.cli", "run", "flaky.py", "--store", "s.db", "--quiet"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    while not Path("s.db").exists() or not opened("s.db").runs() or len(opened("s.db").events()) < 4:
        time.sleep(0.05)
    os.kill(process.pid, signal.SIGKILL)
    process.wait()
    killed = opened("s.db").run().id
    counts = dict(opened("s.db").results(killed).counts)
    assert counts["planned"] == 6
    assert counts["left"] + counts.get("failed", 0) == 6
    Path("slow").unlink()
    Path("bad").write_text("")
    run("flaky.py", store="s.db", progress=False)
    assert dict(opened("s.db").results(killed).counts) == counts
    assert all(row[1] in ("queued", "failed") for row in shown(killed))
    with opened("s.db").session.reading() as store:
        assert verify(store) == []
