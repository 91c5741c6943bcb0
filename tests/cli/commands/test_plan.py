"""estimate, and what plan, status and show say of money: before a run and after it."""

from __future__ import annotations

from pathlib import Path

import pytest

from peira.app.preflight import estimate_of
from peira.core.codec import encode
from peira.core.contracts import Op
from peira.core.log.events import RunFinished, RunPlanned, RunStarted, Spent, Status
from peira.plan.expansion import expand
from peira.plan.manifest import keep
from peira.plan.provenance import provenance
from peira.spec.project import Project
from peira.spec.study_files import load
from peira.stores.sqlite import SqliteStore

ASKING = """
from peira import ask, match, study

@study(cases=[("France?", "Paris"), ("Japan?", "Tokyo")], factors={"model": ["scripted:x", "scripted:y"]},
       repeats=5, evaluators=[match()], budget={"money": 0.5})
def asking(case, model):
    return ask(model, case.input)
"""

PRICES = """
[models."scripted:x"]
price = {input = 1000, output = 2000}
[models."scripted:y"]
price = {input = 1000, output = 2000}
"""


@pytest.fixture
def asking(folder: Path) -> Path:
    (folder / "asking.py").write_text(ASKING)
    (folder / "peira.toml").write_text(PRICES)
    return folder


def test_without_a_model_in_sight_all_is_unknown(peira, folder):
    done = peira("estimate", "capitals.py")
    assert done.code == 0
    assert done.out.startswith("calls unknown, cost unknown, time unknown (no model is named")
    document = peira("estimate", "capitals.py", "--json").document
    assert document["new"] == 16
    assert document["calls"] is None
    assert document["cost"] is None
    assert document["seconds"] is None
    assert document["unknown"]
    assert not (folder / ".peira").exists()


def test_a_history_without_calls_is_no_cost(peira):
    peira("run", "capitals.py", "--limit", "8")
    done = peira("estimate", "capitals.py")
    assert done.out.startswith("no model is asked, ")
    assert "8 new trials, 8 reused" in done.out
    assert "history: 8 finished trials of this study, 0.0 calls and " in done.out
    peira("run", "capitals.py")
    assert peira("estimate", "capitals.py").out.startswith("nothing to do, nothing to pay")


def test_a_model_among_the_levels_is_seen_and_its_price_known(peira, asking):
    document = peira("estimate", "asking.py", "--parallel", "2", "--json").document
    assert document["parallel"] == 2
    assert document["calls"] == {"low": 20, "expected": 20, "high": 20}
    assert 0 < document["cost"]["low"] < document["cost"]["expected"] < document["cost"]["high"]
    generate = [part for part in document["parts"] if part["stage"] == "generate"]
    assert [(part["model"], part["pieces"]) for part in generate] == [("scripted:x", 10), ("scripted:y", 10)]
    part = peira("estimate", "asking.py", "--where", "model=scripted:x", "--limit", "4", "--json").document
    assert (part["new"], part["calls"]["expected"]) == (4, 4)


def test_what_is_assumed_can_be_said(peira, asking):
    said = ["--assume", "calls=3", "--assume", "input_tokens=10", "--assume", "output_tokens=20"]
    document = peira("estimate", "asking.py", *said, "--assume", "seconds=4", "--json").document
    assert document["calls"]["expected"] == 60
    assert document["cost"]["low"] == pytest.approx(60 * 0.05)
    assert document["seconds"] == {"low": 10, "expected": 10, "high": 10}
    hidden = peira("estimate", "capitals.py", "--assume", "model=scripted:x", "--json").document
    assert hidden["calls"]["expected"] == 16
    assert hidden["cost"]["expected"] > 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["--assume", "calls"], "write NAME=VALUE"),
        (["--assume", "cals=2"], "did you mean 'calls'?"),
        (["--assume", "calls=many"], "must be a number"),
        (["--assume", "model=nonsense"], "write provider:name"),
        (["--parallel", "0"], "parallel: must be at least 1"),
        (["--limit", "0"], "limit: must be at least 1"),
    ],
)
def test_what_makes_no_sense_is_refused(peira, asking, wrong, said):
    done = peira("estimate", "asking.py", *wrong)
    assert done.code == 2
    assert said in done.err
    assert done.out == ""


def test_a_price_that_nobody_knows_is_unknown_and_not_nothing(peira, folder):
    (folder / "asking.py").write_text(ASKING.replace("scripted:y", "openai:of-no-name"))
    done = peira("estimate", "asking.py")
    assert "cost unknown" in done.out
    assert "(the price of openai:of-no-name is unknown)" in done.out
    assert peira("estimate", "asking.py", "--json").document["cost"] is None


def test_plan_says_it_in_a_line_and_warns_of_a_budget_that_is_too_small(peira, asking):
    lines = peira("plan", "asking.py").out.splitlines()
    [at] = [n for n, line in enumerate(lines) if line.startswith("estimated: 20 calls, ")]
    assert lines[at + 1].startswith("  assumed: one call to each model")
    assert any(line.startswith("warning: $10") and "$0.50 left of budget.money" in line for line in lines)
    document = peira("plan", "asking.py", "--json").document
    assert document["estimate"]["calls"]["expected"] == 20
    assert peira("plan", "capitals.py", "--json").document["estimate"]["cost"] is None


def test_the_next_estimate_is_what_was_really_spent(peira, asking):
    first = peira("run", "asking.py", "--limit", "10", "--json").document
    assert first["spent"]["calls"] == 10
    rest = peira("estimate", "asking.py", "--json").document
    assert (rest["new"], rest["reused"]) == (10, 10)
    assert rest["cost"]["expected"] == pytest.approx(first["spent"]["money"])
    second = peira("run", "asking.py", "--json").document
    assert second["spent"]["money"] == pytest.approx(rest["cost"]["expected"])


def kept(folder: Path) -> None:
    """A store with a run that was expected to cost $10.38 or so, and spent 21 cents."""
    plan, project = expand(load("asking.py")), Project.find()
    origin = provenance("", "", 0, 0, folder, 0.0, estimate_of(plan, None, project, 4))
    (folder / ".peira").mkdir()
    store = SqliteStore(folder / ".peira/peira.db")
    planned = RunPlanned(keep(plan, store.put), "asking", 20, provenance=store.put(encode(origin)))
    spent = Spent("scripted:x", sends=20, answers=20, input=100, output=200, money=0.21)
    ended = RunFinished(Status.completed, {"planned": 20, "generate.left": 20}, spent=(spent,))
    store.commit([Op("ab" * 32, (planned, RunStarted("1", 1), ended))]).result()
    store.close()


def test_afterwards_the_estimate_stands_beside_what_was_spent(peira, asking):
    kept(asking)
    said = ", spent $0.21 (20 calls, 300 tokens)"
    [line] = [line for line in peira("status").out.splitlines() if line.startswith("money")]
    assert line.startswith("money   estimated $2.6")
    assert line.endswith(said)
    assert said in peira("show").out
    for document in (peira("status", "--json").document, peira("show", "--json").document):
        assert document["estimate"]["calls"]["expected"] == 20
        assert document["spent"]["money"] == 0.21


def test_where_no_model_was_asked_nothing_is_said_of_money(peira):
    assert "spent" not in peira("run", "capitals.py").out
    assert "money" not in peira("status").out
    assert "spent" not in peira("show").out
