"""Reports on studies whose truth is known: recorded answers to GSM8K, with failures planted among them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from peira.analysis.results import Results
from peira.core.log.events import Failure, State
from peira.report.builder import build
from peira.results.trials import Score, TrialResult


def trial(case: int, side: str, right: bool, lost: bool) -> TrialResult:
    """A trial that was scored whether or not it is lost: the score of a lost one must not count."""
    return TrialResult(
        id=f"{case} {side}",
        agent="answer",
        case_id=f"{case:04}",
        condition={"model": side},
        state=State.failed if lost else State.succeeded,
        failure=Failure("TimeoutError", "late") if lost else None,
        scores={"match": Score("match", State.succeeded, right)},
    )


def reported(rows: list[tuple[bool, bool]], lost: Any) -> Any:
    """The report on sides a and b with these answers; `lost(side, right)` says whether a trial fails."""
    trials = [
        trial(case, side, right, lost(side, right))
        for case, both in enumerate(rows)
        for side, right in zip("ab", both, strict=True)
    ]
    results = Results(lambda: iter(trials), run_id="f" * 64, study="s", status="completed", counts={})
    return build(results, trials=0)


@pytest.fixture(scope="module")
def answers(gsm8k_solutions: list[dict[str, Any]]) -> list[dict[str, bool]]:
    names = ("6b_finetuning", "6b_verification", "175b_finetuning", "175b_verification")
    return [{name: bool(row[name]["is_correct"]) for name in names} for row in gsm8k_solutions]


def test_a_difference_that_failures_made_is_doubted_first(answers):
    """The truth: both sides gave the same answers. Of b's wrong ones 40% are lost."""
    rng = np.random.default_rng(0)
    rows = [(row["6b_verification"],) * 2 for row in answers]
    shuffled = [rows[k][1] for k in rng.permutation(len(rows))]  # b answers other problems as well as a
    found = reported(
        [(one, two) for (one, _), two in zip(rows, shuffled, strict=True)],
        lambda side, right: side == "b" and not right and rng.random() < 0.4,
    )
    assert found.answer.startswith("Lost trials could overturn model=b - model=a (if they differ by ")
    (curve,) = found.lost.curves
    assert curve.clear
    truth = np.mean(shuffled) - np.mean([one for one, _ in rows])
    assert truth == pytest.approx(0)
    worst = curve.points[-1].difference
    assert worst.low < 0 < curve.points[0].difference.low
    (failures,) = [one for one in found.threats if one.title == "Failures"]
    assert failures.grave
    assert "no longer clear" in failures.text


def test_a_difference_that_no_failure_can_undo_is_told_without_doubt(answers):
    """The truth: 175b with verification solves 35 points more than 6b without; 2% are lost at random."""
    rng = np.random.default_rng(1)
    rows = [(row["6b_finetuning"], row["175b_verification"]) for row in answers]
    truth = float(np.mean([two - one for one, two in rows]))
    found = reported(rows, lambda side, right: rng.random() < 0.02)
    assert found.answer.startswith("match changes by +0.3")
    (curve,) = found.lost.curves
    assert curve.tipping is None
    first = curve.points[0].difference
    assert first.low < truth < first.high
    assert "stays clear whatever" in curve.sentence


def test_failures_that_hide_a_difference_leave_it_within_the_bounds(answers):
    """The truth: b is better. It lost half of its right answers, and seems no better."""
    rng = np.random.default_rng(2)
    rows = [(row["6b_finetuning"], row["6b_verification"]) for row in answers]
    truth = float(np.mean([two - one for one, two in rows]))
    found = reported(rows, lambda side, right: side == "b" and right and rng.random() < 0.5)
    board = found.scores[0].board
    assert board is not None
    entry = next(one for one in board.entries if one.label == "b")
    real = float(np.mean([two for _, two in rows]))
    assert entry.lowest < real < entry.highest
    (curve,) = found.lost.curves
    ends = [point.difference.mean for point in curve.points]
    assert truth > 0.1
    assert min(ends) < truth
    text = " ".join(found.lost.bounds)
    assert "at worst or best" in text


def test_random_failures_leave_the_order(answers):
    """Four models with a fifth of their trials lost at random are ranked as on all data."""
    rng = np.random.default_rng(3)
    trials = [
        trial(case, name, right, rng.random() < 0.2)
        for case, row in enumerate(answers)
        for name, right in row.items()
    ]
    results = Results(lambda: iter(trials), run_id="f" * 64, study="s", status="completed", counts={})
    board = results.leaderboard()
    assert [one.label for one in board.entries] == [
        "175b_verification", "6b_verification", "175b_finetuning", "6b_finetuning",
    ]  # fmt: skip
    assert board.entries[0].letters == "a"
    assert board.sentence.startswith(
        f"{sum(e.lost for e in board.entries):,} lost trials could overturn this"
    )


def test_grades_from_1_to_5_are_reported_with_their_lost_trials():
    rng = np.random.default_rng(4)

    def graded(case: int, model: str) -> TrialResult:
        grade = float(rng.integers(1, 6) if model == "a" else 5)
        lost = case < 3 and model == "a"
        return TrialResult(
            id=f"{case} {model}",
            agent="answer",
            case_id=str(case),
            condition={"model": model},
            state=State.failed if lost else State.succeeded,
            scores={"grade": Score("grade", State.succeeded, grade)},
        )

    trials = [graded(case, model) for case in range(20) for model in "ab"]
    found = build(
        Results(lambda: iter(trials), run_id="f" * 64, study="s", status="completed", counts={}), trials=0
    )
    assert found.convergence.always
    assert found.convergence.steps[-1].low >= -4
    assert (
        "no longer clear" in found.lost.curves[0].sentence or "stays clear" in found.lost.curves[0].sentence
    )


def test_only_what_was_reported_later_counts_of_a_lost_trial():
    """An evaluator's score of a failed trial does not; an outcome of a failed job does, in every view."""
    rng = np.random.default_rng(5)

    def made(reported: bool) -> Results:
        trials = [
            TrialResult(
                id=f"{case} {model}",
                agent="answer",
                case_id=str(case),
                condition={"model": model},
                state=State.failed if case < 4 and model == "b" else State.succeeded,
                scores={
                    "liked": Score("liked", State.succeeded, bool(rng.random() < 0.6), reported=reported)
                },
            )
            for case in range(30)
            for model in "ab"
        ]
        return Results(lambda: iter(trials), run_id="f" * 64, study="s", status="completed", counts={})

    lost, known = made(False), made(True)
    assert [row.n for row in lost.table("model").body] == [30, 26]
    assert [row.n for row in known.table("model").body] == [30, 30]
    assert lost.compare("model").contrasts[0].n == 26
    assert known.compare("model").contrasts[0].n == 30
    assert "4 lost trials at worst or best" in str(lost.table("model"))
    assert "at worst or best" not in str(known.table("model"))
