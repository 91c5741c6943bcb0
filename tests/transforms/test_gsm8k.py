"""Recorded outputs of four models on all problems of GSM8K, and whether their authors found them correct."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from peira.core.transforms import NoAnswer
from peira.evaluators import exact, numeric
from peira.transforms import last_number, number_after

SHARED = Path(os.environ.get("PEIRA_SHARED_DATA") or Path(__file__).parents[3] / "shared" / "data")
FOLDER = SHARED / "gsm8k"
pytestmark = pytest.mark.skipif(
    not (FOLDER / "test.jsonl").exists(),
    reason="the GSM8K data is not here; set PEIRA_SHARED_DATA to the folder that holds gsm8k/",
)
PUBLISHED = {
    "6b_finetuning": 0.2168,
    "6b_verification": 0.3904,
    "175b_finetuning": 0.3472,
    "175b_verification": 0.5625,
}


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (FOLDER / name).read_text(encoding="utf-8").splitlines()]


@pytest.fixture(scope="module")
def solutions() -> list[dict[str, Any]]:
    return rows("example_model_solutions.jsonl")


def test_there_are_all_problems(solutions: list[dict[str, Any]]) -> None:
    problems = rows("test.jsonl")
    assert len(problems) == 1319
    assert [row["question"] for row in solutions] == [row["question"] for row in problems]


def test_references_are_the_same_in_both_files(solutions: list[dict[str, Any]]) -> None:
    ours = [number_after("####").apply(row["answer"]) for row in rows("test.jsonl")]
    assert ours == [number_after("A:").apply(row["ground_truth"]) for row in solutions]
    assert all(type(answer) is int for answer in ours)


@pytest.mark.parametrize("model", PUBLISHED)
def test_scores_agree_with_the_published_flags(solutions: list[dict[str, Any]], model: str) -> None:
    answer = number_after("A:")
    scores = []
    for row in solutions:
        expected = answer.apply(row["ground_truth"])
        said = answer.apply(row[model]["solution"])
        for evaluator in (numeric(), exact()):
            score = evaluator.judge({"output": said, "expected": expected})
            assert score is row[model]["is_correct"], row[model]["solution"]
        scores.append(score)
    assert round(sum(scores) / len(scores), 4) == PUBLISHED[model]


def test_no_answer_is_counted_apart_from_wrong(solutions: list[dict[str, Any]]) -> None:
    found = [number_after("A:").apply(row[model]["solution"]) for row in solutions for model in PUBLISHED]
    assert len(found) == 5276
    assert sum(isinstance(answer, NoAnswer) for answer in found) == 11


def test_the_last_number_is_nearly_as_good_a_rule(solutions: list[dict[str, Any]]) -> None:
    agree = [
        numeric().judge(
            {"output": last_number().apply(row[model]["solution"]), "expected": row["ground_truth"]}
        )
        is row[model]["is_correct"]
        for row in solutions
        for model in PUBLISHED
    ]
    assert sum(agree) / len(agree) > 0.995
