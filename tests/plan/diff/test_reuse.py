"""What changed between two versions of a plan, and what follows for its trials."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import Constraint, Factor, diff, run
from peira.plan.diff.reuse import MOST_COMPARED
from peira.plan.expansion import expand
from peira.spec.study import Study
from peira.stores.memory import MemoryStore

Make = Callable[..., Study]
Edit = Callable[[str, str], None]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def told(found: Any) -> list[tuple[str, str]]:
    return [(change.part, change.said) for change in found.changes]


def test_a_study_does_not_differ_from_itself(make: Make, store: MemoryStore) -> None:
    found = diff(make(), make(), store=store)
    assert told(found) == []
    assert (found.shared.reused, found.shared.new, found.shared.dropped) == (4, 0, 0)
    assert found.recorded == 0
    assert "nothing changed" in str(found)


ONE, TWO = {"input": "one", "id": "1"}, {"input": "two", "id": "2"}
EXACT = {"evaluators": ["exact"]}


@pytest.mark.parametrize(
    ("before", "after", "part", "said", "reused", "new"),
    [
        ({}, {"repeats": 3}, "repeats", "repeats raised from 1 to 3", 4, 8),
        ({"repeats": 3}, {}, "repeats", "repeats lowered from 3 to 1", 4, 0),
        ({}, {"seed": 5}, "seed", "seed changed from 0 to 5", 0, 4),
        ({}, {"cases": [ONE]}, "cases", "1 case removed (2)", 2, 0),
        ({}, {"cases": [ONE, TWO, "three"]}, "cases", None, 4, 2),
        ({}, {"cases": [{**ONE, "input": "1!"}, TWO]}, "cases", "1 case changed (1)", 2, 2),
        ({}, {"cases": [{**ONE, "expected": "x"}, TWO]}, "cases", "1 case expected otherwise (1)", 4, 0),
        ({}, {"factors": {"style": ["a", "b", "c"]}}, "factors", "1 level of style added ('c')", 4, 2),
        ({}, {"factors": {"style": ["a"]}}, "factors", "1 level of style removed ('b')", 2, 0),
        (
            {},
            {"factors": {"style": {"levels": ["a", "b"], "baseline": "a"}}},
            "factors",
            "style.baseline changed from unset to a",
            4,
            0,
        ),
        ({}, {"blocks": {"day": [1, 2]}}, "factors", "factor day added", 0, 8),
        (
            {},
            {"constraints": [Constraint("style != 'a'", severity="warning")]},
            "constraints",
            None,
            4,
            0,
        ),
        ({}, {"design": "one_factor_at_a_time"}, "design", None, 4, 0),
        ({}, {"order": "interleaved"}, "order", "order changed from random to interleaved", 4, 0),
        ({}, {"anchors": 2}, "anchors", "anchors changed from 0 to 2", 4, 2),
        ({}, EXACT, "evaluators", "evaluator exact added", 4, 0),
        (EXACT, {}, "evaluators", "evaluator exact removed", 4, 0),
        ({}, {"budget": {"money": 2}}, "budget", "budget.money changed from unset to 2", 4, 0),
        ({}, {"policy": {"retries": 2}}, "policy", "policy.retries changed from unset to 2", 4, 0),
        ({}, {"outcomes": [{"name": "quality", "metric": "q"}]}, "outcomes", "outcome quality added", 4, 0),
        (
            {"hypotheses": [{"id": "h", "factor": "style"}]},
            {"hypotheses": [{"id": "h", "factor": "style", "alpha": 0.01}]},
            "hypotheses",
            "hypothesis h changed (alpha)",
            4,
            0,
        ),
        (
            {"analysis_plans": [{"name": "main"}]},
            {},
            "analysis plans",
            "analysis plan main removed",
            4,
            0,
        ),
        ({}, {"title": "T"}, "about", "title changed (no trial depends on that)", 4, 0),
    ],
)
def test_each_change_is_told_with_what_follows(
    make: Make,
    store: MemoryStore,
    before: dict[str, Any],
    after: dict[str, Any],
    part: str,
    said: str | None,
    reused: int,
    new: int,
) -> None:
    found = diff(make(**before), make(**after), store=store)
    [(where, what)] = told(found)
    assert where == part
    assert said in (None, what)
    assert (found.shared.reused, found.shared.new) == (reused, new)
    assert sum(found.shared.why.values()) == new
    assert found.shared.dropped == found.before - reused
    assert what in str(found)


def test_what_is_only_scored_again_is_counted_by_evaluator(make: Make, store: MemoryStore) -> None:
    both = make(evaluators=["exact", "match"])
    found = diff(make(evaluators=["exact"]), both, store=store).shared
    assert (found.new, found.rescored, found.scores) == (0, 4, {"match": 4})
    cases = [{"input": "one", "id": "1", "expected": "x"}, {"input": "two", "id": "2"}]
    found = diff(both, make(evaluators=["exact", "match"], cases=cases), store=store).shared
    assert (found.new, found.rescored, found.scores) == (0, 2, {"exact": 2, "match": 2})


def test_a_factor_added_at_its_baseline_is_reused(make: Make, store: MemoryStore, folder: Path) -> None:
    (folder / "agent.py").write_text("def answer(case, **factors):\n    return str(factors)\n")
    added = {"style": ["a", "b"], "depth": Factor("depth", [1, 2], baseline=1)}
    found = diff(make(), make(factors=added), store=store).shared
    assert (found.reused, found.new, found.why) == (4, 4, {"the condition is new": 4})


def test_changed_code_is_named_and_its_trials_are_run_again(
    make: Make, store: MemoryStore, edit: Edit
) -> None:
    done = run(make(), store=store, progress=False)
    edit('"> "', '">> "')
    found = diff(done.run_id, make(), store=store)
    [(part, said)] = told(found)
    assert part == "agents"
    assert said.startswith("agent code changed (")
    assert "prefix" in said
    assert found.shared.why == {"agent code changed": 4}
    assert found.recorded == 0


def test_two_stored_runs_need_no_code(make: Make, store: MemoryStore, folder: Path) -> None:
    one = run(make(), store=store, progress=False)
    two = run(make(repeats=2), store=store, progress=False)
    (folder / "agent.py").unlink()
    found = diff(one.run_id, two.run_id[:12], store=store)
    assert told(found) == [("repeats", "repeats raised from 1 to 2")]
    assert (found.shared.reused, found.shared.why, found.recorded) == (4, {"more repeats": 4}, 8)


def test_a_part_of_a_plan_is_told_apart_from_the_whole(make: Make, store: MemoryStore) -> None:
    part = run(make(), store=store, where="style == 'a'", progress=False)
    found = diff(part.run_id, make(), store=store)
    assert told(found) == [("part", "where changed from style == 'a' to unset")]
    assert found.shared.why == {"not in the part planned before": 2}


def test_agents_by_label(make: Make, store: MemoryStore, folder: Path) -> None:
    one = {"x": f"{folder}/agent.py:answer", "y": f"{folder}/agent.py:plain"}
    found = diff(make(agents=one), make(agents={**one, "z": one["y"]}), store=store)
    assert told(found) == [("agents", "agent z is new")]
    assert found.shared.why == {"agent z is new": 2}
    back = diff(make(agents={**one, "z": one["y"]}), make(agents=one), store=store)
    assert told(back) == [("agents", "agent z removed")]
    assert (back.shared.new, back.shared.dropped) == (0, 2)


def test_the_levels_that_a_design_takes_from_a_range_are_not_told_one_by_one(
    make: Make, store: MemoryStore
) -> None:
    def ranged(high: float, runs: int = 4) -> Study:
        factors = {"style": {"low": 0, "high": high}}
        return make(factors=factors, design={"name": "latin_hypercube", "runs": runs})

    found = diff(ranged(1), ranged(2), store=store)
    assert told(found) == [("factors", "style.high changed from 1 to 2")]
    assert found.shared.why == {"the condition is new": 8}
    found = diff(ranged(1), ranged(1, 5), store=store)
    [(part, _)] = told(found)
    assert part == "design"


def test_very_many_trials_are_not_compared_one_by_one(make: Make, store: MemoryStore) -> None:
    found = diff(make(), make(repeats=MOST_COMPARED), store=store)
    assert found.shared is None
    assert "not compared one by one" in str(found)


fields = st.fixed_dictionaries(
    {},
    optional={
        "seed": st.integers(0, 1),
        "repeats": st.integers(1, 3),
        "factors": st.sampled_from([{"style": ["a"]}, {"style": ["a", "b", "c"]}]),
        "cases": st.sampled_from([["one"], ["one", "two", "three"]]),
        "blocks": st.just({"day": [1, 2]}),
    },
)


@given(fields, fields)
def test_trials_in_common_are_those_with_the_same_identity(one: Any, other: Any) -> None:
    def made(said: dict[str, Any]) -> Study:
        return Study(
            **{"name": "s", "cases": ["one", "two"], "factors": {"style": ["a", "b"]}, **said, "agent": _any}
        )

    def ids(study: Study) -> set[str]:
        layout = expand(study).layout
        return {layout.trial_id(place) for place in layout.places()}

    found = diff(made(one), made(other), store=MemoryStore())
    a, b = ids(made(one)), ids(made(other))
    assert (found.before, found.after) == (len(a), len(b))
    assert (found.shared.reused, found.shared.new, found.shared.dropped) == (
        len(a & b),
        len(b - a),
        len(a - b),
    )
    assert sum(found.shared.why.values()) == len(b - a)


def _any(case: Any, **factors: Any) -> str:
    return str(case.input)
