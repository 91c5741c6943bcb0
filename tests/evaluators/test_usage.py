from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from peira.core.ids import digest
from peira.core.models import Usage
from peira.errors import Invalid
from peira.evaluators import cost, latency, reported, tokens, tool_calls

TRIAL = SimpleNamespace(
    took=2.5,
    cost=0.03,
    usage=Usage(input=100, output=20),
    tools={"search": 3, "read": 1},
    metrics={"steps": 7.0},
)


@pytest.mark.parametrize(
    ("evaluator", "score"),
    [
        (latency(), 2.5),
        (latency(at_most=2.5), True),
        (latency(at_most=2), False),
        (cost(), 0.03),
        (cost(at_most=0.01), False),
        (tokens(), 120),
        (tokens("input"), 100),
        (tokens("output", at_most=20), True),
        (tool_calls(), 4),
        (tool_calls("search"), 3),
        (tool_calls("write"), 0),
        (tool_calls(at_most=3), False),
        (reported("steps"), 7.0),
    ],
    ids=repr,
)
def test_what_a_trial_took_is_its_score(evaluator: Any, score: object) -> None:
    found = evaluator.judge({"trial": TRIAL})
    assert found == score
    assert type(found) is type(score)
    assert evaluator.takes == {"trial"}


@pytest.mark.parametrize(
    ("evaluator", "trial"),
    [
        (cost(), SimpleNamespace(cost=None)),
        (latency(), SimpleNamespace()),
        (tokens(), SimpleNamespace(usage=Usage(input=5))),
        (tokens("output"), SimpleNamespace(usage=Usage(input=5))),
        (tool_calls(), SimpleNamespace()),
        (reported("turns"), TRIAL),
    ],
    ids=repr,
)
def test_what_is_not_known_is_a_failure_and_not_zero(evaluator: Any, trial: object) -> None:
    with pytest.raises(Invalid, match="this trial does not say"):
        evaluator.judge({"trial": trial})


def test_options_are_the_identity() -> None:
    assert digest(tokens("input").identity) != digest(tokens("output").identity)
    assert tokens("input").identity["config"] == {"kind": "input", "at_most": None}
    assert repr(cost(0.5)) == "cost(at_most=0.5)"


def test_wrong_options_are_refused() -> None:
    with pytest.raises(Invalid, match="did you mean 'input'"):
        tokens("inputs")
    for at_most in (-1, "low", True, float("inf")):
        with pytest.raises(Invalid, match="at_most"):
            latency(at_most)  # type: ignore[arg-type]
