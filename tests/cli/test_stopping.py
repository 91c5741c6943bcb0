"""A study that may stop, as people see it: planned, run, looked at, run again, run whole."""

from __future__ import annotations

from pathlib import Path

import pytest

STUDY = """
import time
from peira import Case, current_trial, exact, study

@study(cases=[Case(n, expected=1) for n in range(150)], factors={"m": ["a", "b"]}, evaluators=[exact()],
       hypotheses=[{"id": "H1", "factor": "m", "levels": ["a", "b"], "direction": "greater"}],
       stop="when decided", seed=2)
def coins(case, m):
    time.sleep(0.003)
    return int(current_trial().rng.random() < {"a": 0.9, "b": 0.3}[m])
"""


@pytest.fixture
def coins(peira):
    Path("coins.py").write_text(STUDY)
    return "coins.py"


def test_it_is_planned_run_and_looked_at(peira, coins):
    assert "stops by its rule (decided): at most 300 trials" in peira("plan", coins).out
    done = peira("run", coins, "--json")
    assert done.code == 0
    assert done.document["status"] == "completed"
    spared = done.document["counts"]["spared"]
    assert spared > 0
    shown = peira("show").out
    assert "stopped by its rule (decided)" in shown
    assert f"{spared:,} not needed" in shown
    status = peira("status", "--json").document
    assert status["look"]["answer"] == "H1 supported"
    assert "H1 supported" in peira("status").out
    assert "which holds at every look" in peira("hypotheses").out
    planned = peira("plan", coins, "--json").document
    assert (planned["new"], planned["spared"]) == (0, spared)
    assert "run.decided" in peira("events").out
    assert peira("verify").code == 0


def test_again_nothing_is_new_and_the_whole_is_on_request(peira, coins):
    peira("run", coins)
    again = peira("run", coins, "--json")
    assert again.code == 0
    assert not again.document["counts"].get("succeeded")
    whole = peira("run", coins, "--whole", "--json").document["counts"]
    assert whole["succeeded"] + whole["reused"] == 300
    assert not whole.get("spared")


def test_a_wrong_rule_is_one_line_a_problem(peira, coins):
    Path("bad.py").write_text(
        STUDY.replace('"when decided"', '{"rule": "decided", "marging": 1, "looks": 1}')
    )
    refused = peira("run", "bad.py")
    assert refused.code == 2
    assert "stop.marging: is not known here; did you mean 'margin'?" in refused.err
    assert "stop.looks: must be" in refused.err
