"""Running a part that an earlier run chose, and studies of what another study gave out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from peira import NoVerdict, Study, cases_from, exact, open, plan, run
from peira.app.prior_results import recorded_look
from peira.errors import Invalid, Unknown
from peira.plan.expansion import expand
from peira.stores.memory import MemoryStore


def answer(case: Any, style: str) -> str:
    if case.input == "broken":
        raise ValueError("no")
    return "a" if style == "plain" else str(case.input)


def rework(case: Any) -> str:
    return f"{case.input}, {case.metadata['from']['condition']['style']}"


def made(**fields: Any) -> Study:
    said = {
        "name": "first",
        "cases": [("a", "a"), ("b", "b"), {"input": "broken", "expected": "c", "cluster": "k"}],
        "factors": {"style": ["plain", "echo"]},
        "evaluators": [exact()],
        "agent": answer,
        **fields,
    }
    return Study(**said)


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def first(store: MemoryStore) -> Any:
    return run(made(), store=store, progress=False)


def trials(results: Any) -> list[tuple[Any, Any, int]]:
    return [(trial.condition["style"], trial.input, trial.repeat) for trial in results]


def test_what_scored_low_gets_more_repeats(store: MemoryStore, first: Any) -> None:
    more = run(made(repeats=3), store=store, earlier=first, where="score.exact < 1", progress=False)
    assert trials(more) == [("plain", "b", repeat) for repeat in range(3)]
    assert more.counts["reused"] == 1
    [note] = more.notes
    assert note.startswith(f"chosen by what run {first.run_id[:12]} found (score.exact < 1): ")
    by_id = plan(made(repeats=3), store=store, earlier=first.run_id[:12], where="score.exact < 1")
    assert (by_id.trials, by_id.new) == (3, 0)
    assert note in by_id.notes


def test_what_failed_is_asked_for(store: MemoryStore, first: Any) -> None:
    again = run(made(), store=store, earlier=first, where="earlier.failed > 0", progress=False)
    assert trials(again) == [("plain", "broken", 0), ("echo", "broken", 0)]


def test_another_study_of_the_same_cases(store: MemoryStore, first: Any) -> None:
    other = made(name="second", factors={"style": ["echo"], "depth": [1, 2]}, agent=deep)
    found = run(other, store=store, earlier=first, where="score.exact == 1", progress=False)
    assert [(t.input, t.condition["depth"]) for t in found] == [("a", 1), ("b", 1), ("a", 2), ("b", 2)]


def deep(case: Any, style: str, depth: int) -> str:
    return str(case.input) * depth


def test_the_run_goes_on_by_its_id_as_it_was_chosen(store: MemoryStore, first: Any) -> None:
    part = run(made(), store=store, earlier=first, where="score.exact < 1", progress=False)
    again = run(part.run_id, store=store, progress=False)
    assert trials(again) == trials(part)
    assert trials(open(store).results(part.run_id)) == trials(part)
    assert trials(run(part.run_id, store=store, limit=1, progress=False)) == trials(part)


def test_what_makes_no_sense_is_refused(store: MemoryStore, first: Any) -> None:
    with pytest.raises(Invalid, match="say in `where` which trials are meant"):
        run(made(), store=store, earlier=first, progress=False)
    with pytest.raises(Unknown, match="no run"):
        plan(made(), store=store, earlier="abcd1234", where="score.exact == 1")


def test_cases_of_outputs(store: MemoryStore, first: Any, tmp_path: Path) -> None:
    cases = cases_from(first)
    assert [(case.input, case.expected) for case in cases] == [("a", "a"), ("a", "b"), ("a", "a"), ("b", "b")]
    assert len({case.id for case in cases}) == 4
    assert cases[0].cluster == cases[2].cluster != cases[1].cluster  # outputs of one case stand together
    assert cases[1].metadata["from"]["condition"] == {"style": "plain"}
    second = Study(name="second", cases=cases, agent=rework)
    assert [t.output for t in run(second, store=store, progress=False)] == [
        "a, plain",
        "a, plain",
        "a, echo",
        "b, echo",
    ]


def test_a_chain_that_is_run_again_makes_nothing_new(store: MemoryStore, first: Any) -> None:
    run(Study(name="second", cases=cases_from(first), agent=rework), store=store, progress=False)
    again = run(made(), store=store, policy={"retry_failed": False}, progress=False)
    assert again.run_id != first.run_id
    assert plan(Study(name="second", cases=cases_from(again), agent=rework), store=store).new == 0


def test_which_trials_and_what_of_them_can_be_said(first: Any) -> None:
    cases = cases_from(
        first, input=lambda trial: {"text": trial.output}, where=lambda t: t.condition["style"] == "echo"
    )
    assert [case.input for case in cases] == [{"text": "a"}, {"text": "b"}]


def unsure(output: str) -> Any:
    return NoVerdict("it mumbles") if output in ("2", "5") else {"value": int(output) % 2, "reason": "why"}


def say(case: Any, style: str) -> str:
    return str(case.input)


def test_a_score_without_a_verdict_is_lost_to_the_rule_then_and_later(store: MemoryStore) -> None:
    claim = {"id": "H1", "factor": "style", "levels": ["plain", "echo"]}
    watched = made(
        cases=list(range(12)), agent=say, evaluators=[unsure], hypotheses=[claim], stop="when decided"
    )
    results = run(watched, store=store, progress=False)
    look = open(store).run(results.run_id).look
    assert look is not None
    assert look.units == 12
    assert not any("not followed" in note for note in results.notes)
    assert recorded_look(expand(watched), store) == look
