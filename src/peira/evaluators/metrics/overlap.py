"""Text overlap metrics: `bleu`, `chrf`, `rouge`, `fuzzy` and `edit_similarity`.

All return 0 to 1 for each text. An expected list is several references; for `fuzzy` and `edit_similarity` the
most similar counts. The mean of sentence BLEU scores is not corpus BLEU, which pools the n-gram counts of all
texts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache, partial
from itertools import count
from typing import Any

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison, load, needs, texts

METHODS = ("ratio", "token_sort_ratio", "token_set_ratio")


def fuzzy(method: str = "ratio") -> Comparison:
    """RapidFuzz's ratio of common characters, divided by 100.

    "token_sort_ratio" ignores word order, "token_set_ratio" also the number of occurrences.
    """
    if method not in METHODS:
        raise Invalid(f"fuzzy: method={method!r}{nearest(str(method), METHODS)}")
    return Comparison(
        "fuzzy",
        partial(_fuzzy, method),
        (("method", method),),
        no_answer=0.0,
        libraries=needs("fuzzy", "rapidfuzz"),
    )


def _fuzzy(method: str, output: Json, expected: Json) -> float:
    ratio = getattr(load("rapidfuzz.fuzz"), method)
    said, references = texts("fuzzy", output, expected)
    return max(float(ratio(said, one)) / 100 for one in references)


def edit_similarity() -> Comparison:
    """1 minus the Levenshtein distance divided by the length of the longer text."""
    known = needs("edit_similarity", "rapidfuzz")
    return Comparison("edit_similarity", _edits, no_answer=0.0, libraries=known)


def _edits(output: Json, expected: Json) -> float:
    levenshtein = load("rapidfuzz.distance.Levenshtein")
    said, references = texts("edit_similarity", output, expected)
    return max(float(levenshtein.normalized_similarity(said, one)) for one in references)


TOKENIZERS = ("13a", "intl", "char", "zh", "none")
KINDS = ("rouge1", "rouge2", "rougeL")
FORGET_AFTER = 256


def bleu(tokenize: str = "13a") -> Comparison:
    """sacreBLEU's sentence BLEU (effective order, exponential smoothing), divided by 100.

    `tokenize` is sacreBLEU's tokenizer: "13a", "intl", "zh", "char", or "none" for text that is tokenized
    already.
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
    """Clear sacreBLEU's tokenizer cache, which holds 65,536 texts: gigabytes if they are long."""
    for part in (tokenizer, getattr(tokenizer, "_post_tokenizer", None)):
        clear = getattr(type(part).__call__, "cache_clear", None)
        if clear is not None:
            clear()


def chrf(words: int = 0) -> Comparison:
    """sacreBLEU's chrF, divided by 100; with `words` = 2 it is chrF++, which includes word n-grams."""
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
    """ROUGE F-measures by name: rouge1, rouge2 (bigrams), rougeL (longest common subsequence).

    Words are those of rouge-score: unaccented Latin letters and digits, so that a text in another script has
    none. Of several references the best counts, for each kind separately.
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
    """The F-measures for one reference."""
    scorer = _rouge_scorer(tuple(kind for kind in kinds if kind != "rougeL"), stem)
    found = {kind: float(score.fmeasure) for kind, score in scorer.score(reference, said).items()}
    return {**found, "rougeL": _common_subsequence(stem, said, reference)} if "rougeL" in kinds else found


def _common_subsequence(stem: bool, said: str, reference: str) -> float:
    """rougeL as in rouge-score, without its quadratic table, which long texts would not fit in."""
    ours, theirs = _tokenizer(stem).tokenize(said), _tokenizer(stem).tokenize(reference)
    common = load("rapidfuzz.distance.LCSseq").similarity(ours, theirs)
    return 2 * common / (len(ours) + len(theirs)) if common else 0.0


@lru_cache(maxsize=16)
def _rouge_scorer(kinds: tuple[str, ...], stem: bool) -> Any:
    return load("rouge_score.rouge_scorer").RougeScorer(list(kinds), use_stemmer=stem)


@lru_cache(maxsize=2)
def _tokenizer(stem: bool) -> Any:
    return load("rouge_score.tokenizers").DefaultTokenizer(stem)
