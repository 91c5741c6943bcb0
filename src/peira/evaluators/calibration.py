"""`calibration`: scores the confidence that an agent states with each answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from peira.core.ids import Json
from peira.core.text.numbers import is_number
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators.comparison import Score
from peira.evaluators.composite import Combined, Facts, worth
from peira.spec.plugins import as_evaluator

SMALLEST = 1e-12
"""Lower bound of the probability in the log loss, which would otherwise be infinite."""


def calibration(by: Any = "match") -> Combined:
    """`brier` and `log_loss` of the stated confidence, the `confidence`, and `correct`.

    The output is {"answer": ..., "confidence": 0.8}; the answer is correct if the evaluator `by` gives it the
    full score of 1. Lower losses are better. Calibrated confidences have the same mean as `correct`.
    """
    return Combined("calibration", (("by", as_evaluator(by)),), _calibrated)


async def _calibrated(whole: Combined, facts: Facts) -> Score:
    answer, confidence = _stated(facts["output"])
    correct = await worth(whole.one("by"), {**facts, "output": answer}) >= 1.0
    likelihood = confidence if correct else 1.0 - confidence
    return {
        "brier": (confidence - correct) ** 2,
        "log_loss": -math.log(max(likelihood, SMALLEST)),
        "confidence": confidence,
        "correct": correct,
    }


def _stated(output: Json | NoAnswer) -> tuple[Json, float]:
    """The answer and the confidence of an output; raises `Invalid` for any other form."""
    if isinstance(output, NoAnswer):
        raise Invalid(f"calibration needs an answer with a confidence; there is {output}")
    confidence = output.get("confidence") if isinstance(output, Mapping) else None
    if not is_number(confidence) or not 0 <= confidence <= 1 or "answer" not in output:
        raise Invalid('calibration needs {"answer": ..., "confidence": 0 to 1} as output')
    return output["answer"], float(confidence)
