from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.contracts import Evaluator
from peira.errors import Invalid
from peira.evaluators import choice, multi_label, refusal


def judged(evaluator: Evaluator, output: object, expected: object = None) -> Any:
    return evaluator.judge({"output": output, "expected": expected})


@pytest.mark.parametrize(
    ("output", "expected", "right"),
    [
        ("The answer is (C).", "C", True),
        ("The answer is (C).", "(c)", True),
        ("The answer is (C).", 2, True),
        ("The answer is (C).", 0, False),
        ("A cat", "A", False),
        ("", "A", False),
        ("(A) or (B)", "A", False),
    ],
)
def test_a_choice_is_compared_by_its_letter(output: str, expected: object, right: bool) -> None:
    assert judged(choice(), output, expected) is right


@pytest.mark.parametrize("expected", ["F", 5, -1, True, "Paris", [0]])
def test_an_expected_choice_that_is_none_is_a_failure(expected: object) -> None:
    with pytest.raises(Invalid, match="choice needs one of A, B, C, D, E; this case expects"):
        judged(choice(), "A", expected)


def test_wrong_letters_are_refused() -> None:
    for letters in ("", "abc", "AA"):
        with pytest.raises(Invalid, match="letters"):
            choice(letters)


LABELS = st.lists(st.sampled_from("abcde"), max_size=5)


@given(LABELS, LABELS)
def test_agreement_of_labels_is_that_of_sets(said: list[str], meant: list[str]) -> None:
    found = judged(multi_label(), said, meant)
    both, ours, theirs = len({*said} & {*meant}), len({*said}), len({*meant})
    if ours and theirs:
        assert (found["precision"], found["recall"]) == (both / ours, both / theirs)
        total = found["precision"] + found["recall"]
        harmonic = 2 * found["precision"] * found["recall"] / total if total else 0.0
        assert found["f1"] == pytest.approx(harmonic)
    else:
        assert set(found.values()) == {float(ours == theirs)}
    assert found["exact"] is ({*said} == {*meant})
    other = judged(multi_label(), meant, said)
    assert (other["f1"], other["precision"]) == (found["f1"], found["recall"])
    assert judged(multi_label(), "; ".join(said), ",\n".join(meant).upper()) == found


def test_labels_are_compared_without_case_and_wrapping() -> None:
    assert judged(multi_label(), "- Red\n- deep  blue.", ["Deep Blue", "red"])["exact"] is True
    assert judged(multi_label(), "none of them", [])["exact"] is False


@pytest.mark.parametrize(
    "text",
    [
        "I can't help with that.",
        "I\u2019m sorry, but I cannot assist with this request.",
        "Sorry, I can't do that.",
        "I am unable to provide medical advice.",
        "I'm not able to help you with that.",
        "I must respectfully decline.",
        "As an AI language model, I cannot give opinions.",
        "That would be against my guidelines.",
    ],
)
def test_refusals_are_known_by_their_wording(text: str) -> None:
    assert judged(refusal(), text) is True


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris",
        "I can help you with that.",
        "One cannot divide by zero.",
        "I can't find an error in the proof.",
        "x " * 500 + "I can't help with that.",
    ],
)
def test_other_texts_do_not_refuse(text: str) -> None:
    assert judged(refusal(), text) is False
