"""Text metrics are those of the libraries they come from, on any text."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rapidfuzz import fuzz
from rapidfuzz.distance import Levenshtein
from rouge_score.rouge_scorer import RougeScorer
from sacrebleu.metrics import BLEU, CHRF

from peira.core.contracts import Evaluator
from peira.core.ids import digest
from peira.errors import Invalid
from peira.evaluators import bleu, chrf, edit_similarity, fuzzy, rouge
from peira.evaluators.comparison import LONGEST, needs
from peira.evaluators.metrics.overlap import FORGET_AFTER

WORDS = st.lists(
    st.sampled_from(["the", "cat", "Cats", "sat,", "on", "mat.", "3.5", "Zürich", "東京", "🗼"]), max_size=12
)
TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=60) | WORDS.map(" ".join)
REFERENCES = st.lists(TEXT, min_size=1, max_size=3)


def judged(evaluator: Evaluator, output: object, expected: object) -> Any:
    return evaluator.judge({"output": output, "expected": expected})


@given(TEXT, REFERENCES, st.sampled_from(["ratio", "token_sort_ratio", "token_set_ratio"]))
def test_fuzzy_is_rapidfuzz(said: str, references: list[str], method: str) -> None:
    theirs = max(getattr(fuzz, method)(said, one) for one in references) / 100
    assert judged(fuzzy(method), said, references) == theirs


@given(TEXT, REFERENCES)
def test_edit_similarity_is_rapidfuzz(said: str, references: list[str]) -> None:
    theirs = max(Levenshtein.normalized_similarity(said, one) for one in references)
    assert judged(edit_similarity(), said, references) == theirs


@given(TEXT, REFERENCES, st.sampled_from(["13a", "intl", "char", "zh", "none"]))
def test_bleu_is_sacrebleu(said: str, references: list[str], tokenize: str) -> None:
    theirs = BLEU(tokenize=tokenize, effective_order=True).sentence_score(said, references).score / 100
    assert judged(bleu(tokenize), said, references) == pytest.approx(theirs, abs=1e-12)


@given(TEXT, REFERENCES, st.sampled_from([0, 2]))
def test_chrf_is_sacrebleu(said: str, references: list[str], words: int) -> None:
    theirs = CHRF(word_order=words).sentence_score(said, references).score / 100
    assert judged(chrf(words), said, references) == pytest.approx(theirs, abs=1e-12)


KINDS = ["rouge1", "rouge2", "rougeL"]


@given(TEXT, REFERENCES, st.booleans())
def test_rouge_is_rouge_score(said: str, references: list[str], stem: bool) -> None:
    theirs = RougeScorer(KINDS, use_stemmer=stem).score_multi(references, said)
    found = judged(rouge(stem=stem), said, references)
    assert found == pytest.approx({kind: theirs[kind].fmeasure for kind in KINDS}, abs=1e-12)


@given(TEXT, TEXT, st.sampled_from(KINDS))
def test_rouge_gives_the_kinds_asked_for(said: str, reference: str, kind: str) -> None:
    assert judged(rouge([kind]), said, reference) == {kind: judged(rouge(), said, reference)[kind]}


def test_published_examples() -> None:
    # kitten -> sitting is three edits; the police and the gunman are an example of Lin (2004).
    assert judged(edit_similarity(), "kitten", "sitting") == pytest.approx(1 - 3 / 7)
    reference, near, far = "police killed the gunman", "police kill the gunman", "the gunman kill police"
    assert judged(rouge(["rougeL"]), near, reference)["rougeL"] == pytest.approx(3 / 4)
    assert judged(rouge(["rougeL"]), far, reference)["rougeL"] == pytest.approx(2 / 4)


def test_memory_of_texts_is_bounded() -> None:
    from sacrebleu.tokenizers.tokenizer_13a import Tokenizer13a

    for i in range(600):
        judged(bleu(), f"text number {i}", "text number one")
    assert Tokenizer13a.__call__.cache_info().currsize <= FORGET_AFTER + 1


@pytest.mark.parametrize("evaluator", [fuzzy(), edit_similarity(), bleu(), chrf(), rouge()], ids=repr)
def test_texts_that_are_too_long_or_missing_are_refused(evaluator: Evaluator) -> None:
    with pytest.raises(Invalid, match=rf"{evaluator.name} does not compare texts of more than 100,000"):
        judged(evaluator, "a" * (LONGEST + 1), "a")
    with pytest.raises(Invalid, match="needs an expected text"):
        judged(evaluator, "a", [])
    with pytest.raises(Invalid, match="needs an expected value"):
        judged(evaluator, "a", None)


def test_the_library_and_its_version_are_part_of_the_identity() -> None:
    known = bleu().identity["libraries"]
    assert set(known) == {"sacrebleu"}
    assert all(known.values())
    assert digest(bleu().identity) != digest(bleu("char").identity)


def test_a_missing_library_is_named_when_the_evaluator_is_made() -> None:
    with pytest.raises(Invalid, match=r"x needs no-such-package: pip install 'peira\[metrics\]'"):
        needs("x", "rapidfuzz", "no-such-package")


@pytest.mark.parametrize(
    "make",
    [
        lambda: fuzzy("ration"),
        lambda: bleu("14a"),
        lambda: chrf(9),
        lambda: chrf(True),
        lambda: rouge([]),
        lambda: rouge("rouge1"),
        lambda: rouge(["rouge3"]),
        lambda: rouge(["rouge1", "rouge1"]),
        lambda: rouge(stem="yes"),  # type: ignore[arg-type]
    ],
)
def test_wrong_options_are_refused(make: Any) -> None:
    with pytest.raises(Invalid):
        make()
