"""An estimate: its ends in order, in proportion to the work, and never 0 where it does not know."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Op
from peira.core.events import (
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
from peira.core.models import Limits, Named, Usage
from peira.errors import Invalid
from peira.models.scripted import ScriptedModel
from peira.plan.amounts import Range
from peira.plan.assumptions import Assumptions, assumptions
from peira.plan.batched import WAITS
from peira.plan.bill import over_budget
from peira.plan.estimate import Estimate
from peira.plan.estimating import estimate
from peira.plan.expand import Plan, expand
from peira.plan.experience import Did, Experience, experience, key_of
from peira.plan.history import found
from peira.plan.layout import Place
from peira.plan.loads import Asked
from peira.plan.manifest import keep
from peira.plan.needs import Need, as_assumed, as_before
from peira.plan.pace import Load, wall_time
from peira.plan.workload import workload
from peira.spec.limits import Budget
from peira.spec.study import Study
from peira.stores.memory import MemoryStore

Make = Callable[..., Study]
NOTHING_SAID = Assumptions()
AMOUNTS = ("calls", "input", "output", "cost", "seconds")


@dataclass(frozen=True)
class PerToken:
    """A price of a dollar a token."""

    source: str = "a test"
    batch: float = 0.25

    def cost(self, usage: Usage) -> float | None:
        return float(usage.total)


A_DOLLAR = PerToken()


def model(name: str, price: PerToken | None = A_DOLLAR, **limits: Any) -> Named:
    return Named(f"scripted:{name}", ScriptedModel(name), Limits(**limits), price)


def did(under: str = "", served: str = "scripted:x", **took: float | None) -> Did:
    usual: dict[str, Any] = {"calls": 1.0, "input": 10.0, "output": 5.0, "cost": 0.5, "seconds": 2.0}
    return Did("generate", under, served=frozenset({served} - {""}), **{**usual, **took})


def asked(plan: Plan, *models: Named) -> Asked:
    return Asked({key_of(c): models for c in plan.layout.conditions}, {})


def estimated(
    plan: Plan,
    store: MemoryStore | None = None,
    known: Experience | None = None,
    models: Sequence[Named] = (),
    parallel: int = 4,
    **said: Any,
) -> Estimate:
    known = experience(plan, store) if known is None else known
    work = workload(plan, store, found(plan, store))
    return estimate(plan, work, known, asked(plan, *models), parallel, assumptions(said))


values = st.floats(0, 1e6)


def ordered(amount: Range | None) -> bool:
    return amount is None or 0 <= amount.low <= amount.expected * (1 + 1e-9) <= amount.high * (1 + 1e-8)


# Needs

finished = st.lists(
    st.builds(did, calls=values, input=values, output=values, cost=st.none() | values, seconds=values),
    min_size=1,
    max_size=20,
)
said = st.builds(
    Assumptions,
    calls=st.none() | st.floats(0, 20),
    input_tokens=st.none() | values,
    output_tokens=st.none() | values,
    seconds=st.none() | values,
)
priced = st.sampled_from([(), (model("x"),), (model("x", None),), (model("x"), model("y"))])


@given(finished, st.floats(1, 1e4), priced, st.booleans(), said)
def test_what_is_needed_as_before_is_ordered(
    seen: list[Did], n: float, models: Sequence[Named], alike: bool, said: Assumptions
) -> None:
    need = as_before(n, seen, models, alike, said)
    assert all(ordered(getattr(need, name)) for name in AMOUNTS)
    assert ordered(wall_time([Load("generate", need, models)], 8))


@given(st.floats(0, 1e5), st.floats(1, 1e4), priced, said)
def test_what_is_assumed_is_ordered_and_in_proportion(
    characters: float, n: float, models: Sequence[Named], said: Assumptions
) -> None:
    once, twice = (as_assumed(pieces, characters, models, said) for pieces in (n, 2 * n))
    for name in AMOUNTS:
        amount, double = getattr(once, name), getattr(twice, name)
        assert ordered(amount)
        assert (amount is None) == (double is None)
        assert amount is None or double.expected == pytest.approx(2 * amount.expected)


@given(finished, st.floats(1, 1e4), said)
def test_without_a_price_there_is_no_cost_and_a_reason(seen: list[Did], n: float, said: Assumptions) -> None:
    need = as_before(n, [*seen, did(cost=None)], (model("x", None),), True, said)
    if said.calls == 0:
        assert need.cost == Range.of(0.0)
    else:
        assert need.cost is None
        assert "the price of scripted:x is unknown" in need.unknown


def test_several_models_share_the_calls() -> None:
    need = as_assumed(10, 0, (model("x"), model("y")), assumptions({"input_tokens": 3, "output_tokens": 4}))
    assert need.model == "scripted:x + scripted:y"
    assert need.calls == Range.of(20.0)
    assert need.cost == Range.of(20 * 7.0)


# In batches


@given(st.floats(0, 1e5), st.floats(1, 1e4), priced, said)
def test_in_batches_all_is_the_same_but_the_price_and_a_time_that_nobody_knows(
    characters: float, n: float, models: Sequence[Named], said: Assumptions
) -> None:
    alone, batched = (as_assumed(n, characters, models, said, batch) for batch in (False, True))
    assert (alone.calls, alone.input, alone.output) == (batched.calls, batched.input, batched.output)
    assert batched.cost == (alone.cost and alone.cost.times(0.25))
    if said.seconds is not None or (alone.calls and not alone.calls.high):
        assert batched.seconds == alone.seconds
    else:
        assert batched.seconds is None
        assert bool(alone.calls) == (WAITS in batched.unknown)


@pytest.mark.parametrize("batch", [True, False])
@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_what_was_paid_tells_only_of_calls_made_in_the_same_way(batch: bool, share: float) -> None:
    """Those of other work are priced anew: 15 tokens at a dollar, or a quarter of it in a batch."""
    seen = [did(batched=share)] * 6
    need = as_before(10, seen, (model("x"),), True, NOTHING_SAID, batch)
    anew = 10 * 15 * (0.25 if batch else 1.0)
    assert need.cost == Range.of(pytest.approx(10 * 0.5 if share == float(batch) else anew))
    unnamed = as_before(10, seen, (), True, NOTHING_SAID, batch)
    assert (unnamed.cost is None) == (share != float(batch))


def test_how_long_sleepers_were_awake_does_not_tell_how_long_a_trial_takes() -> None:
    slept, awake = did(batched=1.0, seconds=0.01), did(seconds=2.0)
    assert as_before(10, [slept] * 9 + [awake] * 5, (model("x"),), True, NOTHING_SAID).seconds == Range.of(20)
    guessed = as_before(10, [slept] * 9, (model("x"),), True, NOTHING_SAID).seconds
    assert guessed is not None
    assert guessed.expected > 5
    assert as_before(10, [awake] * 9, (model("x"),), True, NOTHING_SAID, batch=True).seconds is None


# Estimates of plans


def test_no_history_and_no_model_is_unknown_and_never_nothing(make: Make) -> None:
    expected = estimated(expand(make()))
    assert (expected.new, expected.reused) == (4, 0)
    assert expected.calls is None
    assert expected.cost is None
    assert expected.seconds is None
    assert "calls unknown, cost unknown, time unknown" in expected.summary
    assert not expected.asks


def test_a_named_model_is_taken_to_be_asked_once(make: Make) -> None:
    expected = estimated(expand(make(repeats=3)), models=[model("x")])
    assert expected.calls == Range.of(12.0)
    assert expected.output_tokens == Range(64.0, 256.0, 1024.0).times(12)
    assert expected.cost is not None
    assert expected.cost.low < expected.cost.expected < expected.cost.high
    assert any("no tokenizer" in line for line in expected.basis)
    assert any("a test" in line for line in expected.basis)


def test_input_is_guessed_from_the_length_of_the_cases(make: Make) -> None:
    cases = [{"input": "x" * 399, "id": "1"}, {"input": {"q": "x" * 391}, "id": "2"}]
    expected = estimated(expand(make(cases=cases, factors={"style": ["a"]})), models=[model("x")])
    assert expected.input_tokens == Range(2 * 400 / 6, 2 * 400 / 4, 2 * 400 / 2)


def test_one_unknown_price_leaves_the_total_unknown_and_the_others_known(make: Make) -> None:
    plan = expand(make())
    first, second = (key_of(c) for c in plan.layout.conditions)
    models = Asked({first: [model("x")], second: [model("y", None)]}, {})
    expected = estimate(plan, workload(plan, None), Experience(), models, 4, NOTHING_SAID)
    assert expected.cost is None
    assert expected.unknown == ("the price of scripted:y is unknown",)
    costs = {part.model: part.cost for part in expected.parts}
    assert costs["scripted:x"] is not None
    assert costs["scripted:y"] is None


@pytest.mark.parametrize("repeats", [1, 2, 7, 400])
def test_expectations_are_in_proportion_to_the_trials(make: Make, repeats: int) -> None:
    known = Experience(trials=[did(cost=cost) for cost in (0.1, 0.2, 0.3, 0.4, 0.5)])
    expected = estimated(expand(make(repeats=repeats)), known=known, models=[model("x")])
    assert expected.new == 4 * repeats
    for amount, each in (
        (expected.calls, 1.0),
        (expected.input_tokens, 10.0),
        (expected.output_tokens, 5.0),
        (expected.cost, 0.3),
        (expected.seconds, 2.0 / 4),
    ):
        assert ordered(amount)
        assert amount is not None
        assert amount.expected == pytest.approx(4 * repeats * each)


def test_more_at_once_is_sooner_until_there_is_one_worker_for_each_trial(make: Make) -> None:
    plan, known = expand(make()), Experience(trials=[did()] * 5, overhead=0.0)
    times = [estimated(plan, known=known, parallel=n).seconds for n in (1, 2, 4, 8)]
    assert [time and time.expected for time in times] == [8.0, 4.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [({"requests": 2}, 120.0), ({"tokens": 15}, 240.0), ({"concurrency": 1}, 8.0), ({}, 2.0)],
)
def test_a_model_is_asked_no_faster_than_it_may_be(
    make: Make, limits: Mapping[str, Any], seconds: float
) -> None:
    known = Experience(trials=[did()] * 5, overhead=0.0)
    expected = estimated(expand(make()), known=known, models=[model("x", **limits)])
    assert expected.seconds == Range.of(seconds)


# What is said


def test_what_is_said_goes_before_what_was_seen(make: Make) -> None:
    known = Experience(trials=[did()] * 5)
    models = [model("x")]
    expected = estimated(expand(make()), known=known, models=models, calls=3, output_tokens=7, seconds=10)
    assert expected.calls == Range.of(12.0)
    assert expected.input_tokens == Range.of(4 * 3 * 10.0)
    assert expected.output_tokens == Range.of(12 * 7.0)
    assert expected.cost == Range.of(12 * 17.0)
    assert expected.seconds == Range.of(10.0)
    assert expected.basis[0] == "said: calls 3, output_tokens 7, seconds 10"


def test_calls_may_be_said_where_no_model_is_known(make: Make) -> None:
    expected = estimated(expand(make()), calls=2)
    assert expected.calls == Range.of(8.0)
    assert expected.cost is None
    assert expected.unknown == ("which model is asked is not known",)


def test_what_cannot_be_assumed_is_refused_all_at_once() -> None:
    with pytest.raises(Invalid) as refused:
        assumptions({"cals": 1, "calls": "two", "seconds": -1, "model": 3})
    assert [problem.split(" must")[0] for problem in refused.value.problems] == [
        "assume: no 'cals'; did you mean 'calls'?",
        "assume: calls",
        "assume: seconds",
        "assume: model",
    ]


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
    models = Asked({first: [model("x", None)], second: [model("y", None)]}, {})
    known = Experience(trials=both)
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
    counted = workload(plan, store, found(plan, store))
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
    models = Asked({}, {digest: [model("j")]})
    work = workload(plan, store, found(plan, store))
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
        plan, workload(plan, None), Experience(), asked(plan, model("x")), 4, NOTHING_SAID, ["evaluate"]
    )
    assert (expected.new, expected.scores, expected.parts) == (0, 0, ())


# Budgets


def test_a_budget_below_what_is_expected_is_said(make: Make) -> None:
    expected = estimated(expand(make()), known=Experience(trials=[did()] * 5), models=[model("x")])
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
