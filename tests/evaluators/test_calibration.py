from __future__ import annotations

import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators import calibration, fuzzy


def judged(output: object, expected: object = "paris", by: Any = "match") -> Any:
    return calibration(by).judge({"output": output, "expected": expected})


@given(st.floats(0, 1), st.booleans())
def test_losses_are_those_of_a_bernoulli_forecast(confidence: float, correct: bool) -> None:
    found = judged({"answer": "Paris" if correct else "Rome", "confidence": confidence})
    assert found["correct"] is correct
    assert found["confidence"] == confidence
    assert found["brier"] == pytest.approx((confidence - correct) ** 2)
    chance = confidence if correct else 1 - confidence
    assert found["log_loss"] == pytest.approx(-math.log(chance) if chance > 1e-12 else -math.log(1e-12))
    assert 0 <= found["brier"] <= 1
    assert found["log_loss"] >= 0


def test_honest_confidence_has_the_least_loss_on_average() -> None:
    def mean_loss(confidence: float, kind: str) -> float:
        right, wrong = (judged({"answer": a, "confidence": confidence})[kind] for a in ("paris", "rome"))
        return 0.7 * right + 0.3 * wrong

    for kind in ("brier", "log_loss"):
        losses = {c / 100: mean_loss(c / 100, kind) for c in range(1, 100)}
        assert min(losses, key=lambda c: losses[c]) == 0.7


def test_another_evaluator_may_say_what_is_correct() -> None:
    assert judged({"answer": "pariz", "confidence": 1}, by=fuzzy())["correct"] is False
    assert judged({"answer": "it is paris", "confidence": 1}, by="includes")["correct"] is True


@pytest.mark.parametrize(
    "output",
    [
        "Paris",
        {"answer": "Paris"},
        {"confidence": 0.5},
        {"answer": "Paris", "confidence": 1.5},
        None,
        {"answer": "Paris", "confidence": "high"},
        {"answer": "Paris", "confidence": True},
    ],
)
def test_an_output_without_a_confidence_is_a_failure(output: object) -> None:
    with pytest.raises(Invalid, match="calibration needs"):
        judged(output)


def test_no_answer_has_no_confidence() -> None:
    with pytest.raises(Invalid, match="no answer: no JSON"):
        judged(NoAnswer("no JSON"))
