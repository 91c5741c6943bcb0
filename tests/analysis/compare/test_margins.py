"""Hypotheses of equivalence, non-inferiority and minimum effects are supported, rejected or undecided."""

from __future__ import annotations

import random
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira import AnalysisPlan, Case, Hypothesis, Study, run
from peira.analysis.compare.hypotheses import decide
from peira.core.log.events import State
from peira.errors import Invalid
from peira.results.aims import Aims
from peira.results.trials import Score, TrialResult


def trials(shift: float, cases: int = 40, noise: float = 0.2, seed: int = 0) -> list[TrialResult]:
    """Scores of two levels that differ by `shift` on average."""
    draws = random.Random(seed)
    found = []
    for n in range(cases):
        base = draws.gauss(5, 1)
        for level, add in (("a", shift), ("b", 0.0)):
            score = Score("points", State.succeeded, base + add + draws.gauss(0, noise))
            found.append(
                TrialResult(
                    id=f"{n:063d}{level}",
                    agent="x",
                    case_id=str(n),
                    state=State.succeeded,
                    condition={"model": level},
                    scores={"points": score},
                )
            )
    return found


def verdict(shift: float, direction: str, margin: float | None, **more: Any) -> Any:
    hypothesis = Hypothesis(
        id="h", factor="model", levels=["a", "b"], direction=direction, margin=margin, **more
    )
    [found] = decide(trials(shift), Aims(hypotheses=(hypothesis,))).found
    return found


@pytest.mark.parametrize(
    ("shift", "direction", "margin", "expected"),
    [
        (0.0, "equivalent", 0.2, "supported"),
        (1.0, "equivalent", 0.2, "rejected"),
        (-1.0, "equivalent", 0.2, "rejected"),
        (0.2, "equivalent", 0.2, "undecided"),
        (0.0, "not_less", 0.2, "supported"),
        (1.0, "not_less", 0.2, "supported"),
        (-1.0, "not_less", 0.2, "rejected"),
        (0.0, "not_greater", 0.2, "supported"),
        (1.0, "not_greater", 0.2, "rejected"),
        (1.0, "greater", 0.5, "supported"),
        (0.2, "greater", 0.5, "rejected"),
        (0.5, "greater", 0.5, "undecided"),
        (-1.0, "less", 0.5, "supported"),
        (0.0, "less", 0.5, "rejected"),
    ],
)
def test_verdicts_on_margins(shift: float, direction: str, margin: float, expected: str) -> None:
    found = verdict(shift, direction, margin)
    assert found.verdict == expected
    assert found.claim in found.sentence
    assert f"{margin:g}" in found.claim


@given(st.floats(-2, 2), st.sampled_from(["equivalent", "not_less", "not_greater", "greater", "less"]))
def test_a_claim_and_its_opposite_are_never_both_shown(shift: float, direction: str) -> None:
    found = verdict(shift, direction, 0.3)
    assert not (found.adjusted <= 0.05 and found.opposite <= 0.05)


def test_equivalence_agrees_with_the_comparison() -> None:
    study = Study(
        name="s",
        cases=[Case(str(n)) for n in range(30)],
        factors={"model": ["a", "b"]},
        agent=lambda case, model: int(case.input) % 5 + (0.01 if model == "a" else 0) * (int(case.input) % 3),
        evaluators=[points],
        hypotheses=[
            {"id": "same", "factor": "model", "direction": "equivalent", "margin": 0.1},
            {
                "id": "no_worse",
                "factor": "model",
                "levels": ["b", "a"],
                "direction": "not_less",
                "margin": 0.1,
            },
        ],
        analysis_plans=[AnalysisPlan(name="all", correction="holm")],
    )
    from peira.stores.memory import MemoryStore

    found = run(study, store=MemoryStore(), progress=False)
    [same, no_worse] = found.hypotheses().found
    contrast = found.compare("model", "b", "a", margin=0.1).contrasts[0]
    assert contrast.equivalent is not None
    assert same.p == pytest.approx(contrast.equivalent.p)
    assert (same.verdict, no_worse.verdict) == ("supported", "supported")


def points(output: Any) -> float:
    return float(output)


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"direction": "equivalent"}, "margin: is missing; equivalent says by how much"),
        ({"direction": "different", "margin": 0.1}, "margin: goes with a direction"),
        ({"direction": "not_less", "margin": -0.1}, "margin"),
    ],
)
def test_margins_that_say_nothing_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(Invalid, match=problem):
        Hypothesis(id="h", factor="model", **fields)


def test_a_plan_that_names_another_test_is_not_followed_silently() -> None:
    hypothesis = Hypothesis(id="h", factor="model", direction="equivalent", margin=0.2)
    aims = Aims(hypotheses=(hypothesis,), plans=(AnalysisPlan(name="p", test="wilcoxon"),))
    [found] = decide(trials(0.0), aims).found
    assert (found.verdict, "not by wilcoxon" in found.reason) == ("undecided", True)


def yes_no(lost: int) -> list[TrialResult]:
    """Two levels with the same answers to 200 cases; of level a the first `lost` wrong answers failed."""
    found, left = [], lost
    for n in range(200):
        for level in ("a", "b"):
            gone = level == "a" and n % 4 == 0 and left > 0
            left -= gone
            scores = {} if gone else {"match": Score("match", State.succeeded, float(n % 4 > 0))}
            found.append(
                TrialResult(
                    id=f"{n} {level}",
                    agent="x",
                    case_id=str(n),
                    state=State.failed if gone else State.succeeded,
                    condition={"model": level},
                    scores=scores,
                )
            )
    return found


@pytest.mark.parametrize(("lost", "doubted"), [(0, False), (2, False), (40, True)])
def test_lost_trials_that_could_overturn_a_margin_are_said_first(lost, doubted):
    same = Hypothesis("same", factor="model", levels=["a", "b"], direction="equivalent", margin=0.1)
    (found,) = decide(yes_no(lost), Aims(hypotheses=(same,))).found
    assert found.verdict == "supported"
    assert found.sentence.startswith("40 lost trials could overturn this: same") is doubted
    assert bool(found.doubt) is doubted


def test_a_margin_of_a_measure_without_limits_is_doubted_with_any_lost_trial():
    near = Hypothesis("near", factor="level", levels=["a", "b"], direction="equivalent", margin=0.5)
    given = trials(0.0)
    factor = next(iter(given[0].condition))
    near = near.model_copy(update={"factor": factor})
    assert not decide(given, Aims(hypotheses=(near,))).found[0].doubt
    gone = msgspec.structs.replace(given[0], state=State.failed, scores={})
    (found,) = decide([gone, *given[1:]], Aims(hypotheses=(near,))).found
    assert found.doubt.startswith("1 lost trial could overturn this")
