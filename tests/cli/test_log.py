"""`--log`: the events of a run in a file, as `peira events` would tell them."""

from __future__ import annotations

import json
import signal
import time
from pathlib import Path


def lines(name: str = "l.jsonl") -> list[dict]:
    return [json.loads(line) for line in Path(name).read_text().splitlines()]


def told(peira, run: str) -> list[dict]:
    """What the store says happened."""
    document = peira("events", run, "--limit", "100000", "--json").document
    return [{"run": document["run"], **event} for event in document["events"]]


def test_run_and_score_log_what_events_tells(peira):
    first = peira("run", "capitals.py", "--log", "l.jsonl", "--json").document["run"]
    again = peira("score", "capitals.py", "--log", "l.jsonl", "--json").document["run"]
    assert lines() == told(peira, first) + told(peira, again)
    assert {"run.planned", "tasks.claimed", "trial.observed", "step.recorded", "run.finished"} <= {
        line["kind"] for line in lines()
    }


def test_a_log_that_cannot_be_written_is_refused_before_anything_runs(peira, folder):
    done = peira("run", "capitals.py", "--log", "no/such/folder/l.jsonl")
    assert (done.code, done.out) == (2, "")
    assert done.problems == ["peira: log: there is no folder no/such/folder"]
    assert peira("run", "capitals.py", "--log", "capitals.py").problems == [
        "peira: log: capitals.py is there and is no log; give another file"
    ]
    assert not (folder / ".peira").exists()


def test_the_log_of_an_interrupted_run_is_complete(peira, spawn, under_way):
    process = spawn("run", "slow.py", "--log", "l.jsonl", "--parallel", "4")
    run = under_way(4)["run"]
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=50)
    assert process.returncode == 130
    assert lines() == told(peira, run)
    assert (lines()[-1]["kind"], lines()[-1]["status"]) == ("run.finished", "interrupted")


def test_a_killed_run_logged_only_what_is_in_the_store(peira, spawn, under_way):
    process = spawn("run", "slow.py", "--log", "l.jsonl", "--parallel", "4")
    run = under_way(8)["run"]
    process.kill()
    process.communicate()
    logged = lines()
    assert len(logged) > 2
    assert logged == told(peira, run)[: len(logged)]


def test_a_detached_run_is_logged(peira, ended, stop_process):
    begun = ended("run", "slow.py", "--limit", "8", "--detach", "--log", "l.jsonl", "--json").document
    stop_process.append(begun["pid"])
    while "run.finished" not in Path("l.jsonl").read_text():
        time.sleep(0.05)
    assert lines() == told(peira, begun["run"])
