from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.ids import digest
from peira.errors import Invalid
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.constraints import Constraint
from peira.spec.factors import Block, Factor, Level
from peira.spec.limits import Budget, Policy, Storage

values = (
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(-2, 2) | st.sampled_from(["", "1", "true"])
)


def problems(make):
    with pytest.raises(Invalid) as caught:
        make()
    return list(caught.value.problems)


def test_levels_keep_their_order_and_are_normalised():
    factor = Factor("temperature", [1.0, 0.5, Level(0, label="cold")])
    assert factor.values == (1, 0.5, 0)
    assert factor.levels[2].label == "cold"


@pytest.mark.parametrize(
    "pair", [(1, 1.0), (0, -0.0), ((1, 2), [1, 2]), ({"a": 1, "b": 2}, {"b": 2, "a": 1.0})]
)
def test_equal_levels_are_duplicates(pair):
    assert "is a duplicate of levels[0]" in problems(lambda: Factor("x", list(pair)))[0]


@given(st.lists(values, min_size=1, max_size=5))
def test_duplicate_levels_are_those_that_share_a_digest(levels):
    if len({digest(v) for v in levels}) == len(levels):
        assert Factor("x", levels).values == tuple(Level(v).value for v in levels)
    else:
        assert problems(lambda: Factor("x", levels))


def test_a_table_with_a_value_is_a_level_and_any_other_is_a_value():
    factor = Factor("x", [{"value": 1, "label": "one"}, {"temperature": 0}, {"value": 1, "other": 2}])
    assert factor.values == (1, {"temperature": 0}, {"value": 1, "other": 2})


@pytest.mark.parametrize(
    "factor",
    [
        Factor("x", [1, 2], baseline=2.0),
        Factor("x", [1, Level(2, baseline=True)]),
        Factor("x", [1, {"value": 2, "baseline": True}], baseline=2),
    ],
)
def test_a_baseline_is_said_of_the_factor_or_marked_on_a_level(factor):
    assert factor.baseline == 2
    assert factor.baseline_level.value == 2


def test_a_baseline_of_null_can_be_marked():
    assert Factor("x", [Level(None, baseline=True), 1]).baseline_level.value is None
    assert Factor("x", [None, 1]).baseline_level is None


def test_a_baseline_is_one_of_the_levels():
    assert problems(lambda: Factor("x", ["plain"], baseline="plan")) == [
        "baseline: 'plan' is not one of the levels; did you mean 'plain'?"
    ]
    assert problems(lambda: Factor("x", [Level(1, baseline=True), 2], baseline=2)) == [
        "baseline: there is more than one"
    ]


@pytest.mark.parametrize("name", ["agent", "cases", "case", "trial", "repeat"])
def test_reserved_names_are_refused_with_a_reason(name):
    assert "is reserved for" in problems(lambda: Factor(name, [1]))[0]


@pytest.mark.parametrize("name", ["two words", "class", "1st", ""])
def test_a_factor_can_be_an_argument(name):
    assert "is not a name" in problems(lambda: Factor(name, [1]))[0]


def test_every_problem_of_a_factor_at_once():
    found = problems(lambda: Factor("x", [float("nan"), 1, 1], kind="manipulate", descripton="d"))
    assert found == [
        "levels[0]: nan is not JSON; use null or a string",
        "levels[2]: 1 is a duplicate of levels[1]",
        "kind: must be one of manipulated, measured, blocked, nuisance, not 'manipulate'; "
        "did you mean 'manipulated'?",
        "descripton: is not known here; did you mean 'description'?",
    ]


@pytest.mark.parametrize("levels", [[], "abc", {"a"}, None])
def test_levels_are_a_list(levels):
    assert problems(lambda: Block("x", levels))[0].startswith("levels: ")


def test_a_constraint_is_an_expression_or_a_function_over_factors():
    by_text = Constraint("model != 'small' or style == 'plain'")
    by_code = Constraint(lambda model, style: model != "small" or style == "plain")
    for constraint in (by_text, by_code):
        assert constraint.names == {"model", "style"}
        assert constraint.admits({"model": "small", "style": "plain", "other": 1})
        assert not constraint.admits({"model": "small", "style": "long"})
        assert constraint.admits({"model": "small"}), "it does not apply without one of its factors"


def test_a_constraint_function_may_take_every_factor():
    constraint = Constraint(lambda **condition: len(condition) < 2)
    assert constraint.open
    assert constraint.admits({"a": 1})
    assert not constraint.admits({"a": 1, "b": 2})


@pytest.mark.parametrize("bad", ["model ==", "__import__('os')", "", 5])
def test_a_bad_constraint_is_told_in_one_line(bad):
    [problem] = problems(lambda: Constraint(bad))
    assert problem.startswith("expression: ")
    assert "\n" not in problem


def test_durations_are_numbers_or_texts():
    policy = Policy(backoff="200ms", max_backoff=5, timeout="1.5m")
    assert (policy.backoff, policy.max_backoff, policy.timeout) == (0.2, 5.0, 90.0)
    assert Budget(time="2h").time == 7200.0


@pytest.mark.parametrize("value", [0, 3, 0.25, None])
def test_failures_are_a_number_or_a_share(value):
    assert Policy(max_failures=value).max_failures == value


@pytest.mark.parametrize("value", [-1, 1.0, 0.0, 1.5, True, "3", float("nan")])
def test_other_failure_limits_are_refused(value):
    assert problems(lambda: Policy(max_failures=value))[0].startswith("max_failures: must be")


def test_limits_are_refused_all_at_once():
    assert problems(lambda: Policy(retries=-1, timeout="soon", jitter=1, retry=2)) == [
        "retries: must be at least 0, not -1",
        "jitter: must be true or false, not 1",
        "timeout: 'soon' is not a duration; write seconds, or 200ms, 90s, 5m, 2h, 1d",
        "retry: is not known here; did you mean 'retries'?",
    ]
    assert problems(lambda: Budget(trials=0, time=0, excess="cut")) == [
        "trials: must be at least 1, not 0",
        "time: must be more than 0, not 0",
        "excess: must be one of refuse, subset, not 'cut'",
    ]
    assert problems(lambda: Storage(compression="gzip", inline=-1, keep_raw=True)) == [
        "compression: must be one of zstd, none, not 'gzip'",
        "inline: must be at least 0, not -1",
        "keep_raw: is not known here; known: compression, inline, payloads, responses, tables",
    ]


def test_aims_are_values():
    assert Outcome("accuracy", evaluator="exact").judged_by == "exact"
    assert Outcome("exact").judged_by == "exact"
    assert Outcome("cost", metric="usd", direction="minimize").judged_by == ""
    assert Hypothesis("h1", factor="style", levels=["plain", (1, 2)]).levels == ("plain", [1, 2])
    assert AnalysisPlan("main", outcomes="accuracy").outcomes == ("accuracy",)
    assert problems(lambda: Hypothesis("h", alpha=1.5, levels=[1])) == [
        "alpha: must be at most 0.999999999999, not 1.5"
    ]
    assert problems(lambda: Hypothesis("h", levels=[1])) == ["factor: is missing, and levels belong to one"]
