"""An estimate: its ends in order, in proportion to the work, and never 0 where it does not know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from peira.core.models import NamedModel
from peira.errors import Invalid
from peira.plan.estimate.estimator import KnownModels, Load, estimate, wall_time
from peira.plan.estimate.experience import WAITS, PastUsage, PastWork, key_of
from peira.plan.estimate.needs import Assumptions, as_assumed, as_before, assumptions
from peira.plan.estimate.value import Range
from peira.plan.estimate.workload import workload
from peira.plan.expansion import expand

from .estimating import (
    AMOUNTS,
    NOTHING_SAID,
    Make,
    did,
    estimated,
    model,
    ordered,
    values,
)

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


@example([did(calls=1.6e-308)], 1.0, (model("x"),), False, NOTHING_SAID)
@example([did(calls=2.2e-309)], 1.0, (model("x"),), False, Assumptions(calls=1.0))
@given(finished, st.floats(1, 1e4), priced, st.booleans(), said)
def test_what_is_needed_as_before_is_ordered(
    seen: list[PastWork], n: float, models: Sequence[NamedModel], alike: bool, said: Assumptions
) -> None:
    need = as_before(n, seen, models, alike, said)
    assert all(ordered(getattr(need, name)) for name in AMOUNTS)
    assert ordered(wall_time([Load("generate", need, models)], 8))


@example(0.0, 1.0, (model("x"),), Assumptions(calls=1.2e-07))
@given(st.floats(0, 1e5), st.floats(1, 1e4), priced, said)
def test_what_is_assumed_is_ordered_and_in_proportion(
    characters: float, n: float, models: Sequence[NamedModel], said: Assumptions
) -> None:
    once, twice = (as_assumed(pieces, characters, models, said) for pieces in (n, 2 * n))
    for name in AMOUNTS:
        amount, double = getattr(once, name), getattr(twice, name)
        assert ordered(amount)
        assert (amount is None) == (double is None)
        # Whole tokens are priced, also where less than one is needed.
        rounded = 3e-6 if name == "cost" else 0.0
        assert amount is None or double.expected == pytest.approx(2 * amount.expected, abs=rounded)


@given(finished, st.floats(1, 1e4), said)
def test_without_a_price_there_is_no_cost_and_a_reason(
    seen: list[PastWork], n: float, said: Assumptions
) -> None:
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
    characters: float, n: float, models: Sequence[NamedModel], said: Assumptions
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
    models = KnownModels({first: [model("x")], second: [model("y", None)]}, {})
    expected = estimate(plan, workload(plan, None), PastUsage(), models, 4, NOTHING_SAID)
    assert expected.cost is None
    assert expected.unknown == ("the price of scripted:y is unknown",)
    costs = {part.model: part.cost for part in expected.parts}
    assert costs["scripted:x"] is not None
    assert costs["scripted:y"] is None


@pytest.mark.parametrize("repeats", [1, 2, 7, 400])
def test_expectations_are_in_proportion_to_the_trials(make: Make, repeats: int) -> None:
    known = PastUsage(trials=[did(cost=cost) for cost in (0.1, 0.2, 0.3, 0.4, 0.5)])
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
    plan, known = expand(make()), PastUsage(trials=[did()] * 5, overhead=0.0)
    times = [estimated(plan, known=known, parallel=n).seconds for n in (1, 2, 4, 8)]
    assert [time and time.expected for time in times] == [8.0, 4.0, 2.0, 2.0]


@pytest.mark.parametrize(
    ("limits", "seconds"),
    [({"requests": 2}, 120.0), ({"tokens": 15}, 240.0), ({"concurrency": 1}, 8.0), ({}, 2.0)],
)
def test_a_model_is_asked_no_faster_than_it_may_be(
    make: Make, limits: Mapping[str, Any], seconds: float
) -> None:
    known = PastUsage(trials=[did()] * 5, overhead=0.0)
    expected = estimated(expand(make()), known=known, models=[model("x", **limits)])
    assert expected.seconds == Range.of(seconds)


# What is said


def test_what_is_said_goes_before_what_was_seen(make: Make) -> None:
    known = PastUsage(trials=[did()] * 5)
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
