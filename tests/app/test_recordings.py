"""`replay:STORE.db`: the answers in a store's ledger, given again."""

from __future__ import annotations

from peira import ask, run, study
from peira.core.models import Reply


def asking(model):
    return study(
        agent=lambda case: ask(model, case.input, max_tokens=5),
        name="asking",
        version=model,
        cases=["Paris", "Tokyo"],
        repeats=2,
    )


def test_what_one_study_bought_answers_another_for_nothing(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first = run(asking("scripted:x"), store="first.db", progress=False)
    assert [trial.output for trial in first] == ["Paris", "Paris", "Tokyo", "Tokyo"]
    second = run(asking("replay:first.db"), store="second.db", progress=False)
    assert [trial.output for trial in second] == ["Paris", "Paris", "Tokyo", "Tokyo"]
    assert second.cost.money == 0


def test_what_is_not_recorded_fails_its_trial_with_a_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run(asking("scripted:x"), store="first.db", progress=False)
    other = study(agent=lambda case: ask("replay:first.db", case.input), cases=["Rome"])
    results = run(other, store="second.db", progress=False)
    assert "no answer recorded for request" in results.failures[0].failure.message


def test_a_reply_knows_its_call(tmp_path):
    seen = []

    def agent(case):
        seen.append(ask("scripted:", case.input))
        return seen[-1]

    results = run(study(agent=agent, cases=["a"]), store=tmp_path / "s.db", progress=False)
    assert isinstance(seen[0], Reply)
    assert results.trials[0].calls == (seen[0].call,)
