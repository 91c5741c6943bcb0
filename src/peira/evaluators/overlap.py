"""How many words or letters in a row a text shares with its references: `bleu`, `chrf` and `rouge`.

All give 0 to 1 for each text by itself. The mean of BLEU over texts is not the BLEU of a corpus, which counts
shared words over all texts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Any

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison
from peira.evaluators.libraries import load, needs
from peira.evaluators.references import texts

TOKENIZERS = ("13a", "intl", "char", "zh", "none")
KINDS = ("rouge1", "rouge2", "rougeL")
FORGET_AFTER = 256


def bleu(tokenize: str = "13a") -> Comparison:
    """sacreBLEU's BLEU of the text (effective order, exponential smoothing), divided by 100.

    `tokenize` is how sacreBLEU cuts words: "13a", "intl", "zh", "char", or "none" for what is cut already.
    """
    if tokenize not in TOKENIZERS:
        raise Invalid(f"bleu: tokenize={tokenize!r}{nearest(str(tokenize), TOKENIZERS)}")
    known, options = needs("bleu", "sacrebleu"), (("tokenize", tokenize),)
    return Comparison("bleu", partial(_bleu, tokenize), options, no_answer=0.0, libraries=known)


def _bleu(tokenize: str, output: Json, expected: Json) -> float:
    said, references = texts("bleu", output, expected)
    metric = _bleu_metric(tokenize)
    score = metric.sentence_score(said, references).score
    if next(_judged) % FORGET_AFTER == 0:
        _forget(metric.tokenizer)
    return min(float(score) / 100, 1.0)


_judged = count(1)


@lru_cache(maxsize=len(TOKENIZERS))
def _bleu_metric(tokenize: str) -> Any:
    return load("sacrebleu.metrics").BLEU(tokenize=tokenize, effective_order=True)


def _forget(tokenizer: Any) -> None:
    """sacreBLEU remembers the last 65,536 texts whole, which would be gigabytes of long ones."""
    for part in (tokenizer, getattr(tokenizer, "_post_tokenizer", None)):
        clear = getattr(type(part).__call__, "cache_clear", None)
        if clear is not None:
            clear()


def chrf(words: int = 0) -> Comparison:
    """sacreBLEU's chrF, divided by 100; with `words` = 2 it is chrF++, which also counts words in a row."""
    if type(words) is not int or not 0 <= words <= 4:
        raise Invalid(f"chrf: words={words!r} is not a number from 0 to 4")
    known, options = needs("chrf", "sacrebleu"), (("words", words),)
    return Comparison("chrf", partial(_chrf, words), options, no_answer=0.0, libraries=known)


def _chrf(words: int, output: Json, expected: Json) -> float:
    said, references = texts("chrf", output, expected)
    return min(float(_chrf_metric(words).sentence_score(said, references).score) / 100, 1.0)


@lru_cache(maxsize=5)
def _chrf_metric(words: int) -> Any:
    return load("sacrebleu.metrics").CHRF(word_order=words)


def rouge(kinds: Sequence[str] = KINDS, stem: bool = False) -> Comparison:
    """ROUGE F-measures by name: rouge1, rouge2 (words in a row), rougeL (longest common subsequence).

    Words are those of rouge-score: Latin letters without accents and digits, so that a text in another script
    has none. Of several references the best counts, for each kind by itself.
    """
    if not isinstance(kinds, list | tuple) or not kinds or len(set(kinds)) < len(kinds):
        raise Invalid(f"rouge: kinds={kinds!r} is not a list of different kinds")
    if wrong := [kind for kind in kinds if kind not in KINDS]:
        raise Invalid(f"rouge: kinds: {kind!r}{nearest(str(kind), KINDS)}" for kind in wrong)
    if type(stem) is not bool:
        raise Invalid(f"rouge: stem={stem!r} is not true or false")
    return Comparison(
        "rouge",
        partial(_rouge, tuple(kinds), stem),
        (("kinds", tuple(kinds)), ("stem", stem)),
        no_answer=dict.fromkeys(kinds, 0.0),
        libraries=needs("rouge", "rouge-score", "rapidfuzz"),
    )


def _rouge(kinds: tuple[str, ...], stem: bool, output: Json, expected: Json) -> dict[str, float]:
    said, references = texts("rouge", output, expected)
    found = [_rouges(kinds, stem, said, one) for one in references]
    return {kind: max(one[kind] for one in found) for kind in kinds}


def _rouges(kinds: tuple[str, ...], stem: bool, said: str, reference: str) -> dict[str, float]:
    scorer = _rouge_scorer(tuple(kind for kind in kinds if kind != "rougeL"), stem)
    found = {kind: float(score.fmeasure) for kind, score in scorer.score(reference, said).items()}
    return {**found, "rougeL": _common_subsequence(stem, said, reference)} if "rougeL" in kinds else found


def _common_subsequence(stem: bool, said: str, reference: str) -> float:
    """As rouge-score's rougeL, whose table of all pairs of words would not fit into memory for long texts."""
    ours, theirs = _tokenizer(stem).tokenize(said), _tokenizer(stem).tokenize(reference)
    common = load("rapidfuzz.distance.LCSseq").similarity(ours, theirs)
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


@lru_cache(maxsize=16)
def _rouge_scorer(kinds: tuple[str, ...], stem: bool) -> Any:
    return load("rouge_score.rouge_scorer").RougeScorer(list(kinds), use_stemmer=stem)


@lru_cache(maxsize=2)
def _tokenizer(stem: bool) -> Any:
    return load("rouge_score.tokenizers").DefaultTokenizer(stem)
