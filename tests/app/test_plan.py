"""A frozen plan is kept, never written over, and every later result says how it stands to it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import Study, ask, diff, exact, open, plan, run
from peira.core.log.events import Status
from peira.errors import Invalid
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify


def echo(case: Any, style: str) -> str:
    return str(case.input)


def made(**fields: Any) -> Study:
    said = {
        "name": "echoes",
        "cases": [("a", "a"), ("b", "b")],
        "factors": {"style": ["plain", "loud"]},
        "evaluators": [exact()],
        "agent": echo,
        **fields,
    }
    return Study(**said)


@pytest.fixture(params=["memory", "sqlite"])
def store(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.chdir(tmp_path)
    return MemoryStore() if request.param == "memory" else tmp_path / "s.db"


def done(store: Any, **fields: Any) -> Any:
    return run(made(**fields), store=store, progress=False)


def deviations(notes: tuple[str, ...]) -> list[str]:
    return [note.partition("): ")[2] for note in notes if note.startswith("deviates from the plan frozen ")]


def test_without_one_nothing_is_said_of_it(store: Any) -> None:
    assert done(store).notes == ()
    assert plan(made(), store=store).notes == ()


def test_a_run_as_planned_says_so(store: Any) -> None:
    seen = plan(made(), store=store, freeze=True)
    [note] = seen.notes
    assert note.startswith("as in the plan frozen 20")
    results = done(store)
    assert results.notes == (note,)
    assert note in str(results.table("style"))
    assert results.ok
    assert open(store).results().notes == (note,)


def test_only_what_is_said_about_a_study_is_no_deviation(store: Any) -> None:
    plan(made(), store=store, freeze=True)
    assert deviations(done(store, title="Another", notes="x").notes) == []


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"factors": {"style": ["plain", "loud", "soft"]}}, "1 level of style added ('soft')"),
        ({"cases": [("a", "a")]}, "1 case removed ("),
        ({"evaluators": [exact(), "match"]}, "evaluator match added"),
        ({"budget": {"trials": 9}}, "budget.trials changed from unset to 9"),
        ({"policy": {"max_failures": 2}}, "policy.max_failures changed from unset to 2"),
        ({"hypotheses": [{"id": "h", "factor": "style"}]}, "hypothesis h added"),
        ({"analysis_plans": [{"name": "late"}]}, "analysis plan late added"),
        ({"outcomes": [{"name": "exact"}]}, "outcome exact added"),
        ({"repeats": 2}, "repeats raised from 1 to 2"),
        ({"order": "given"}, "order changed from random to given"),
    ],
)
def test_every_kind_of_deviation_is_listed_in_the_plan_and_in_the_results(
    store: Any, change: dict[str, Any], said: str
) -> None:
    plan(made(), store=store, freeze=True)
    [planned] = deviations(plan(made(**change), store=store).notes)
    [ran] = deviations(done(store, **change).notes)
    assert planned == ran
    assert ran.startswith(said)


def test_a_part_and_a_fresh_generation_are_deviations(store: Any) -> None:
    plan(made(), store=store, freeze=True)
    part = run(made(), store=store, where="style == 'loud'", progress=False)
    assert deviations(part.notes) == ["where changed from unset to style == 'loud'"]
    fresh = run(made(), store=store, fresh=True, progress=False)
    assert deviations(fresh.notes) == ["generation 1 is fresh"]


def test_what_stops_a_run_is_compared_also_if_it_is_said_for_one_run_only(store: Any) -> None:
    plan(made(), store=store, freeze=True)
    results = run(made(), store=store, policy={"fail_fast": True, "retries": 0}, progress=False)
    assert deviations(results.notes) == ["policy.fail_fast changed from unset to true"]
    assert deviations(run(results.run_id, store=store, progress=False).notes) == []


def test_another_plan_is_refused_unless_it_amends(store: Any) -> None:
    plan(made(), store=store, freeze=True, note="first")
    with pytest.raises(Invalid, match=r"is frozen since .* and this is another one: --amend"):
        plan(made(repeats=2), store=store, freeze=True)
    assert deviations(done(store, repeats=2).notes) == ["repeats raised from 1 to 2"]
    plan(made(repeats=2), store=store, freeze=True, amend=True)
    notes = done(store, repeats=2).notes
    assert deviations(notes) == []
    assert notes[1].startswith("the plan was amended 1 x since it was first frozen 20")
    assert [kept.reason for kept in open(store).runs(status=Status.frozen)] == ["", "first"]


def test_the_same_plan_is_frozen_once(store: Any) -> None:
    for title in ("", "", "another title"):
        plan(made(title=title), store=store, freeze=True)
    assert len(open(store).runs(status=Status.frozen)) == 1


def test_one_that_was_frozen_too_late_is_called_so(store: Any) -> None:
    early = done(store)
    plan(made(), store=store, freeze=True)
    assert "the plan was frozen after 1 run of the study had begun" in done(store).notes
    assert open(store).results(early.run_id).notes == ()  # that run promised nothing


def test_it_is_no_run_but_can_be_run_and_compared_by_its_id(store: Any) -> None:
    plan(made(), store=store, freeze=True, limit=2)
    with pytest.raises(Exception, match="no runs"):
        open(store).results()
    [kept] = open(store).runs(status=Status.frozen)
    assert (kept.study, kept.trials) == ("echoes", 2)
    results = run(kept.id[:12], store=store, progress=False)
    assert len(results) == 2
    assert results.ok
    assert deviations(results.notes) == []
    found = diff(kept.id, made(), store=store)
    assert [change.said for change in found.changes] == ["limit changed from 2 to unset"]
    assert (found.shared.reused, found.shared.new, found.recorded) == (2, 2, 2)


def test_a_store_with_one_is_sound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    plan(made(), store="s.db", freeze=True)
    done("s.db")
    opened = SqliteStore(tmp_path / "s.db", readonly=True)
    assert verify(opened) == []
    opened.close()


@pytest.mark.parametrize("said", [{"note": "x"}, {"amend": True}])
def test_what_belongs_to_freezing_is_refused_without_it(store: Any, said: dict[str, Any]) -> None:
    with pytest.raises(Invalid, match="is for a plan that is frozen"):
        plan(made(), store=store, **said)


def test_a_hypothesis_that_no_result_can_decide_is_named_before_the_run(store):
    vague = {"id": "h", "factor": "style", "outcome": "exact", "direction": "greater"}
    clear = {**vague, "id": "g", "levels": ["plain"]}
    notes = plan(made(hypotheses=[vague, clear]), store=store).notes
    said = [note for note in notes if note.startswith("hypothesis")]
    assert said == [
        "hypothesis h cannot be decided: it does not say which level of style is greater; "
        "name it in its levels"
    ]


def silent(case: Any) -> None:
    print(case.input)


async def silent_async(case: Any) -> None:
    if case.input:
        return
    print(case.input)


def maybe(case: Any) -> str | None:
    return "a" if case.input == "a" else None


def fails(case: Any) -> str:
    raise ValueError(case.input)


def test_an_agent_that_returns_nothing_is_named(store):
    for agent, said in ((silent, True), (silent_async, True), (maybe, False), (fails, False), (echo, False)):
        factors = {"style": ["plain"]} if agent is echo else {}
        notes = plan(made(agent=agent, factors=factors), store=store).notes
        line = f"agent {agent.__name__} returns nothing: what is judged is what it returns"
        assert (line in notes) is said
    assert not plan(made(agent=silent, factors={}, evaluators=[]), store=store).notes


def asks(case: Any, model: str) -> str:
    return ask(case.input, model=model).text


def looks_up(case: Any, model: str) -> str:
    return {"small": "a"}[model]


def test_levels_that_cannot_be_asked_are_named(store):
    """A level of `model` without a provider failed every trial, and nothing was said before."""
    factors = {"model": ["gpt-4o", "opnai:x", "local:smollm2"]}
    notes = plan(made(agent=asks, factors=factors), store=store).notes
    assert [note for note in notes if note.startswith("factors.model")] == [
        "factors.model: model 'gpt-4o' names no provider; "
        "write 'openai:gpt-4o' or 'openrouter:openai/gpt-4o'",
        "factors.model: no provider 'opnai' in model 'opnai:x'; did you mean 'openai'?",
    ]
    assert not plan(made(agent=looks_up, factors={"model": ["small"]}), store=store).notes
