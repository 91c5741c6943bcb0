"""Whether an agent knows what it knows: `calibration`, from the confidence that comes with each answer."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from peira.core.ids import Json
from peira.core.reading.numbers import is_number
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators.combined import Combined, Facts, worth
from peira.evaluators.comparison import Score
from peira.spec.evaluators import as_evaluator

SMALLEST = 1e-12
"""Log loss takes no probability to be less: to be certain and wrong would otherwise cost without end."""


def calibration(by: Any = "match") -> Combined:
    """`brier` and `log_loss` of the confidence in an answer; the `confidence`, and whether it was `correct`.

    The output is {"answer": ..., "confidence": 0.8}; the answer is correct where the evaluator `by` gives it
    its full score of 1. Of the losses, lower is better. Confidences that are right on average have the same
    mean as `correct`.
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
    if isinstance(output, NoAnswer):
        raise Invalid(f"calibration needs an answer with a confidence; there is {output}")
    confidence = output.get("confidence") if isinstance(output, Mapping) else None
    if not is_number(confidence) or not 0 <= confidence <= 1 or "answer" not in output:
        raise Invalid('calibration needs {"answer": ..., "confidence": 0 to 1} as output')
    return output["answer"], float(confidence)
