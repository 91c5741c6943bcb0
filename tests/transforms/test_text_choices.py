from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.transforms import choice_letter

NONE, SEVERAL = NoAnswer("no letter"), NoAnswer("several letters")


@pytest.mark.parametrize(
    "output",
    [
        "B",
        "b",
        " (b). ",
        "**B**",
        "Answer: B",
        "answer:B",
        "ANSWER IS B",
        "The answer is b",
        "The correct answer is option B.",
        "The answer is: (B) Paris",
        "**Answer:** B",
        "**Answer**: **B**",
        "Answer: \\boxed{B}",
        "$\\boxed{\\text{B}}$",
        "The final answer is $\\boxed{B}$.",
        "So the answer would be “B”.",
        "Final answer -> B",
        "B) Paris",
        "B. Paris",
        "(B) Paris is the capital.",
        "B because A is wrong",
        "I would go with (B).",
        "I think it must be B.",
        "It is option B, since Paris is a city.",
        "A) Rome\nB) Paris\nC) Oslo\n\nThe answer is B) Paris.",
        "Option A is wrong, and so is C. The answer is B, a city.",
        "At first I thought the answer is A. No: the answer is B.",
        "- **B.** Paris",
    ],
)
def test_a_choice_is_found_however_it_is_named(output: str) -> None:
    assert choice_letter().apply(output) == "B"


@pytest.mark.parametrize(
    ("output", "answer"),
    [
        ("A", "A"),
        ("The answer is A.", "A"),
        ("The answer is a", "A"),
        ("Answer: A because it is", "A"),
        ("Answer: (A) a cat", "A"),
        ("A because it is", "A"),
        ("A cat sat on the mat.", NONE),
        ("The answer is a cat.", NONE),
        ("Answer: A cat", NONE),
        ("the answer is a bit unclear", NONE),
        ("It's a good day, I'd say.", NONE),
        ("Vitamin C helps against scurvy.", NONE),
        ("e.g. this", NONE),
        ("the answer isn't B", NONE),
        ("The answer is not B", NONE),
        ("either A or B", NONE),
        ("Paris", NONE),
        ("The answer is F.", NONE),
        ("A) Rome\nB) Paris", SEVERAL),
        ("(A) or (C)", SEVERAL),
        ("", NoAnswer("empty")),
        (" ** ", NoAnswer("empty")),
        (5, NONE),
    ],
)
def test_words_are_no_choices_and_nobody_guesses(output: object, answer: object) -> None:
    assert choice_letter().apply(output) == answer


def test_other_letters_can_be_meant() -> None:
    assert choice_letter("ABCDEFGHIJ").apply("The answer is I.") == "I"
    assert choice_letter("ABCDEFGHIJ").apply("I think the answer is J") == "J"
    assert choice_letter("ABCDEFGHIJ").apply("I think so") == NONE
    assert choice_letter("XY").apply("(X)") == "X"


LETTER = st.sampled_from("ABCDE")


@given(LETTER, st.sampled_from(["{}", "({})", "**{}**", "{}.", "\\boxed{{{}}}", "option {}"]), st.booleans())
def test_a_stated_answer_counts_whatever_was_said_before(letter: str, form: str, lower: bool) -> None:
    stated = form.format(letter.lower() if lower else letter)
    text = f"(A) one (B) two\nC) three. Perhaps D. The answer is {stated}"
    assert choice_letter().apply(text) == letter


@pytest.mark.parametrize("letters", ["", "ab", "AA", "A B", 5])
def test_wrong_letters_are_refused(letters: str) -> None:
    with pytest.raises(Invalid, match="letters"):
        choice_letter(letters)
