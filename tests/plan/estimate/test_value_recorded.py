"""An estimate by what was recorded: of trials, of scores, and against budgets."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import pytest

from peira.core.contracts import Op
from peira.core.log.events import (
    AnyEvent,
    CallIntended,
    Result,
    RunFinished,
    RunPlanned,
    RunStarted,
    Spent,
    State,
    Status,
    TaskFinished,
    TasksClaimed,
)
from peira.plan.diff.history import stored_counts
from peira.plan.estimate.estimator import KnownModels, Load, estimate, wall_time
from peira.plan.estimate.experience import PastUsage, experience, key_of
from peira.plan.estimate.needs import Need
from peira.plan.estimate.value import Range, over_budget
from peira.plan.estimate.workload import workload
from peira.plan.expansion import Plan, expand
from peira.plan.manifest import keep
from peira.plan.trials import Place
from peira.spec.limits import Budget
from peira.stores.memory import MemoryStore

from .estimating import (
    NOTHING_SAID,
    Make,
    asked,
    did,
    estimated,
    model,
)

# What is recorded


def record(
    store: MemoryStore,
    plan: Plan,
    took: Callable[[Place], Mapping[str, float] | None],
    seconds: float = 1.0,
    run: str = "r1",
) -> None:
    """A run in which the trials that `took` says something of succeeded, with these metrics."""
    planned = RunPlanned(keep(plan, store.put), plan.study.name, len(plan))
    metrics = {plan.layout.trial_id(place): took(place) for place in plan.layout.places()}
    done = {id: said for id, said in metrics.items() if said is not None}
    served = {
        plan.layout.trial_id(place): str(place.condition.factors["style"]) for place in plan.layout.places()
    }
    counts = {"planned": len(plan), "generate.succeeded": len(done)}
    events: list[AnyEvent] = [
        planned,
        RunStarted("1", 1),
        TasksClaimed("generate", "generate", "1", tuple(done)),
        *(
            TaskFinished(
                id, 1, State.succeeded, Result(seconds, metrics=dict(said), about={"served": served[id]})
            )
            for id, said in done.items()
        ),
        RunFinished(Status.completed, counts),
    ]
    assert store.commit([Op(run, tuple(events))]).result() == [None]


def paid(calls: float = 1.0, cost: float | None = 0.25) -> dict[str, float]:
    metrics = {"calls": calls, "input_tokens": 20.0 * calls, "output_tokens": 4.0 * calls}
    return metrics if cost is None else {**metrics, "cost": cost}


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore()


def test_what_is_recorded_costs_nothing(make: Make, store: MemoryStore) -> None:
    plan = expand(make())
    record(store, plan, lambda place: paid())
    expected = estimated(plan, store, models=[model("x")])
    assert (expected.new, expected.reused, expected.scores) == (0, 4, 0)
    assert expected.calls == expected.cost == expected.seconds == Range.of(0.0)
    assert expected.summary == "nothing to do, nothing to pay"


@pytest.mark.parametrize("done", [0, 1, 2, 3])
def test_only_what_is_not_recorded_is_counted(make: Make, store: MemoryStore, done: int) -> None:
    plan = expand(make())
    record(store, plan, lambda place: paid() if place.number < done else None)
    expected = estimated(plan, store, models=[model("x")])
    assert (expected.new, expected.reused) == (4 - done, done)
    assert expected.calls is not None
    assert expected.calls.expected == 4 - done


def test_history_tells_the_cost_of_each_condition(make: Make, store: MemoryStore) -> None:
    small, large = (expand(make(factors={"style": ["scripted:x", "scripted:y"]}, repeats=n)) for n in (3, 30))
    prices = {"scripted:x": 1.0, "scripted:y": 5.0}
    record(store, small, lambda place: paid(cost=prices[str(place.condition.factors["style"])]))
    known = experience(large, store)
    assert {(one.under != "", len(one.served)) for one in known.trials} == {(True, 1)}
    expected = estimated(large, store)
    assert expected.new == 108
    assert expected.cost == Range.of(54 * 1.0 + 54 * 5.0)
    assert expected.basis[0] == "history: 12 finished trials of this study, 1.0 calls and 1.0 s each"


def test_a_model_that_was_never_asked_is_priced_and_not_taken_from_others(
    make: Make, store: MemoryStore
) -> None:
    first = expand(make(factors={"style": ["scripted:x"]}, repeats=5))
    record(store, first, lambda place: paid(calls=2))
    plan = expand(make(factors={"style": ["scripted:z"]}, repeats=5))
    expected = estimated(plan, store, models=[model("z")])
    assert expected.calls == Range.of(20.0)
    assert expected.cost == Range.of(20 * 24.0)
    unpriced = estimated(plan, store, models=[model("z", None)])
    assert unpriced.calls == Range.of(20.0)
    assert unpriced.cost is None


def test_trials_that_cannot_be_traced_to_a_condition_still_tell_of_their_model(make: Make) -> None:
    plan = expand(make())
    both = [*([did(cost=1.0)] * 5), *([did(served="scripted:y", cost=9.0)] * 5)]
    first, second = (key_of(c) for c in plan.layout.conditions)
    models = KnownModels({first: [model("x", None)], second: [model("y", None)]}, {})
    known = PastUsage(trials=both)
    expected = estimate(plan, workload(plan, None), known, models, 4, NOTHING_SAID)
    assert {part.model: part.cost for part in expected.parts} == {
        "scripted:x": Range.of(2.0),
        "scripted:y": Range.of(18.0),
    }


def test_trials_without_a_known_cost_do_not_tell_it(make: Make, store: MemoryStore) -> None:
    small, large = (expand(make(repeats=n)) for n in (3, 6))
    record(store, small, lambda place: paid(cost=None if place.repeat == 1 else 0.25))
    assert estimated(large, store).cost is None
    assert estimated(large, store, models=[model("x")]).cost == Range.of(12 * 24.0)


def test_a_history_without_calls_says_that_none_are_made(make: Make, store: MemoryStore) -> None:
    small, large = (expand(make(repeats=n)) for n in (3, 6))
    record(store, small, lambda place: {})
    expected = estimated(large, store)
    assert expected.calls == expected.cost == Range.of(0.0)
    assert expected.summary.startswith("no model is asked, 3.0 s")


def test_after_a_change_of_code_calls_may_be_replayed(
    make: Make, store: MemoryStore, edit: Callable[[str, str], None]
) -> None:
    record(store, expand(make(repeats=3)), lambda place: paid())
    edit("+ style", "+ style.upper()")
    expected = estimated(expand(make(repeats=3)), store)
    assert expected.new == 12
    assert expected.calls == Range(0.0, 12.0, 12.0)
    assert expected.cost == Range(0.0, 3.0, 3.0)
    assert any("replayed" in line for line in expected.basis)
    fresh = estimated(expand(make(repeats=3), generation=1), store)
    assert fresh.cost == Range.of(3.0)


def test_only_so_much_history_is_read(make: Make, store: MemoryStore) -> None:
    for n in range(8):
        record(store, expand(make(seed=n, repeats=20)), lambda place: paid(), run=f"r{n}")
    assert len(experience(expand(make()), store).trials) == 320


def test_many_trials_are_told_from_a_part_of_them(make: Make, store: MemoryStore) -> None:
    plan = expand(make(repeats=500))
    record(store, plan, lambda place: {} if place.repeat % 2 else None)
    sampled = workload(plan, store)
    assert sampled.looked == 500
    assert sampled.new + sampled.reused == 2000
    assert 880 < sampled.new < 1120
    counted = workload(plan, store, stored_counts(plan, store))
    assert (counted.new, counted.reused) == (1000, 1000)
    assert sum(counted.trials.values()) == pytest.approx(1000)


# Scores


class Judge:
    """An evaluator that says which models it asks."""

    name, asynchronous, takes = "judge", False, frozenset({"output"})

    @property
    def identity(self) -> Any:
        return {"judge": 1}

    def judge(self, facts: Mapping[str, Any]) -> Any:
        return True


def test_a_new_judge_of_recorded_outputs_is_paid_for_each(make: Make, store: MemoryStore) -> None:
    record(store, expand(make()), lambda place: paid())
    plan = expand(make(evaluators=[Judge()]))
    [digest] = plan.evaluators
    models = KnownModels({}, {digest: [model("j")]})
    work = workload(plan, store, stored_counts(plan, store))
    expected = estimate(plan, work, experience(plan, store), models, 4, NOTHING_SAID)
    assert (expected.new, expected.scores) == (0, 4)
    [part] = expected.parts
    assert (part.stage, part.model, part.calls) == ("evaluate", "scripted:j", Range.of(4.0))


def test_what_a_judge_took_is_known_by_its_name(make: Make, store: MemoryStore) -> None:
    plan = expand(make(evaluators=[Judge()]))
    record(store, plan, lambda place: {})
    metrics = {"calls": 2.0, "input_tokens": 30.0, "output_tokens": 6.0, "cost": 0.5}
    scores = tuple(f"{n:064x}" for n in range(5))
    events: list[AnyEvent] = [RunPlanned(keep(plan, store.put), "s", 4), RunStarted("1", 1)]
    events.append(TasksClaimed("evaluate", "evaluate", "1", scores))
    for n, score in enumerate(scores):
        events.append(CallIntended(score, 1, f"{n:064x}", "scripted:j", "", "evaluate judge"))
        events.append(TaskFinished(score, 1, State.succeeded, Result(0.1, metrics=metrics)))
    assert store.commit([Op("r2", tuple(events))]).result() == [None]
    expected = estimated(expand(make(evaluators=[Judge()], repeats=2)), store)
    part = next(part for part in expected.parts if part.stage == "evaluate")
    assert part.pieces == expected.scores == 8
    assert part.calls == Range.of(16.0)
    assert part.cost == Range.of(4.0)


def test_scoring_alone_generates_nothing(make: Make) -> None:
    plan = expand(make(evaluators=[Judge()]))
    expected = estimate(
        plan, workload(plan, None), PastUsage(), asked(plan, model("x")), 4, NOTHING_SAID, ["evaluate"]
    )
    assert (expected.new, expected.scores, expected.parts) == (0, 0, ())


# Budgets


def test_a_budget_below_what_is_expected_is_said(make: Make) -> None:
    expected = estimated(expand(make()), known=PastUsage(trials=[did()] * 5), models=[model("x")])
    assert expected.cost == Range.of(2.0)
    assert over_budget(expected, Budget(money=2.0, calls=4, tokens=60), ()) == []
    earlier = [Spent("scripted:x", sends=1, input=10, output=5, money=0.5)]
    lines = over_budget(expected, Budget(money=2.0, calls=4, tokens=60), earlier)
    assert lines[0].startswith("$2.00 expected and $1.50 left of budget.money")
    assert [line.partition(" of budget.")[2].partition(":")[0] for line in lines] == [
        "money",
        "tokens",
        "calls",
    ]


def test_of_an_unknown_cost_no_budget_is_said_to_be_too_small(make: Make) -> None:
    assert over_budget(estimated(expand(make())), Budget(money=0.01, calls=1), ()) == []


def test_work_of_unknown_length_takes_an_unknown_time() -> None:
    assert wall_time([Load("generate", Need(1.0, ""), ())], 1) is None
    assert wall_time([], 1) == Range.of(0.0)
