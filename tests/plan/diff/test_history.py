"""The plan says what is reused, what is new, and why."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from peira import Factor, plan, run
from peira.plan.preview import Preview
from peira.spec.study import Study
from peira.stores.memory import MemoryStore

Make = Callable[..., Study]
Edit = Callable[[str, str], None]


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


@pytest.fixture
def done(make: Make, store: MemoryStore) -> MemoryStore:
    """A store in which the study has been run."""
    assert run(make(), store=store, progress=False).ok
    return store


def counts(preview: Preview) -> tuple[int, int, int]:
    assert preview.new + preview.reused + preview.retried == preview.trials
    return preview.new, preview.reused, preview.retried


def test_without_a_store_all_is_new_and_there_is_nothing_to_explain(make: Make, store: MemoryStore) -> None:
    preview = plan(make(), store=store)
    assert counts(preview) == (4, 0, 0)
    assert preview.reasons == ()


def test_what_is_done_is_reused(make: Make, done: MemoryStore) -> None:
    preview = plan(make(title="Another title", tags=["x"]), store=done)
    assert counts(preview) == (0, 4, 0)
    assert preview.reasons == ()


@pytest.mark.parametrize(
    ("change", "new", "why"),
    [
        ({"seed": 5}, 4, "seed changed from 0 to 5: 4 of 4 trials are new"),
        ({"repeats": 3}, 8, "repeats raised from 1 to 3: 8 of 12 trials are new"),
        ({"factors": {"style": ["a", "b", "c"]}}, 2, "1 level of style added ('c'): 2 of 6 trials are new"),
        ({"blocks": {"day": ["mon"]}}, 4, "factor day added: 4 of 4 trials are new"),
        (
            {"cases": [{"input": "ONE", "id": "1"}, {"input": "two", "id": "2"}]},
            2,
            "1 case changed (1): 2 of 4 trials are new",
        ),
        (
            {"cases": [{"input": i, "id": i} for i in "3456"]},
            8,
            "4 cases added (3, 4, 5): 8 of 8 trials are new",
        ),
    ],
)
def test_why_trials_are_new(
    make: Make, done: MemoryStore, change: dict[str, Any], new: int, why: str
) -> None:
    preview = plan(make(**change), store=done)
    assert counts(preview)[0] == new
    assert preview.reasons == (why,)
    assert why in str(preview)


@pytest.mark.parametrize(
    ("old", "new", "named"),
    [("+ style", "+ style.upper()", "answer"), ('"> "', '">> "', "prefix")],
)
def test_changed_code_is_named(
    make: Make, done: MemoryStore, edit: Edit, old: str, new: str, named: str
) -> None:
    edit(old, new)
    preview = plan(make(), store=done)
    [why] = preview.reasons
    assert why.startswith("agent code changed (")
    assert named in why
    assert why.endswith("4 of 4 trials are new")


def test_a_design_that_asks_for_more_is_named(make: Make, done: MemoryStore) -> None:
    [why] = plan(make(design={"name": "full_factorial", "replicates": 2}), store=done).reasons
    assert why.startswith("design changed from full_factorial to ")
    assert why.endswith("4 of 8 trials are new")


def test_a_new_agent_is_named(make: Make, store: MemoryStore, folder: Any) -> None:
    one = {"x": f"{folder}/agent.py:answer"}
    run(make(agents=one), store=store, progress=False)
    preview = plan(make(agents={**one, "y": f"{folder}/agent.py:plain"}), store=store)
    assert preview.reasons == ("agent y is new: 2 of 6 trials are new",)


def test_several_changes_are_all_named(make: Make, done: MemoryStore) -> None:
    preview = plan(make(seed=5, repeats=2, factors={"style": ["a", "c"]}), store=done)
    assert [why.partition(":")[0] for why in preview.reasons] == [
        "seed changed from 0 to 5",
        "1 level of style added ('c')",
        "repeats raised from 1 to 2",
    ]


def test_a_fresh_generation_is_named(make: Make, done: MemoryStore) -> None:
    preview = plan(make(), store=done, fresh=True)
    assert counts(preview) == (4, 0, 0)
    assert preview.reasons == ("generation 1 is fresh: 4 of 4 trials are new",)


def test_more_of_the_same_plan_is_said(make: Make, store: MemoryStore) -> None:
    run(make(), store=store, limit=2, progress=False)
    preview = plan(make(), store=store)
    assert counts(preview) == (2, 2, 0)
    assert preview.reasons == ("more of the plan is asked for (2 trials before): 2 of 4 trials are new",)


def test_failures_are_neither_new_nor_reused(make: Make, store: MemoryStore, edit: Edit) -> None:
    edit("return prefix(case.input) + style", "return {'one': case.id}[case.input]")
    assert not run(make(), store=store, progress=False).ok
    assert counts(plan(make(), store=store)) == (0, 2, 2)


OPTIONAL = "def answer(case, style, tone='x', heat='x'):"


@pytest.fixture
def lending(make: Make, store: MemoryStore, edit: Edit) -> Make:
    """Studies of an agent that can do without some of its factors; none of them is in the store yet."""
    edit("def answer(case, style):", OPTIONAL)
    return make


def at_baseline(*names: str) -> dict[str, Any]:
    return {"style": ["a"], **{name: Factor(name, ["x", "y"], baseline="x") for name in names}}


def test_a_factor_added_at_its_baseline_takes_over_what_is_there(lending: Make, store: MemoryStore) -> None:
    run(lending(factors={"style": ["a"]}), store=store, progress=False)
    preview = plan(lending(factors=at_baseline("tone")), store=store)
    assert counts(preview) == (2, 2, 0)
    results = run(lending(factors=at_baseline("tone")), store=store, progress=False)
    assert sum(bool(t.reused_from) for t in results.trials) == 2


def test_a_trial_with_two_former_identities_is_counted_once(lending: Make, store: MemoryStore) -> None:
    run(lending(factors={"style": ["a"]}), store=store, progress=False)
    run(lending(factors={"style": ["a"], "tone": ["x"]}), store=store, progress=False)
    preview = plan(lending(factors=at_baseline("tone", "heat")), store=store)
    assert counts(preview) == (6, 2, 0)


def test_a_failure_is_not_taken_over(lending: Make, store: MemoryStore, edit: Edit) -> None:
    edit("return prefix(case.input) + style", "raise OSError")
    run(lending(factors={"style": ["a"]}), store=store, progress=False)
    assert counts(plan(lending(factors=at_baseline("tone")), store=store)) == (4, 0, 0)
