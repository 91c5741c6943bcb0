"""`code_bleu`: how near generated code is to a reference in words, keywords, syntax and flow of data."""

from __future__ import annotations

from functools import partial
from typing import Any

from peira.core.ids import Json
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.evaluators.comparison import Comparison
from peira.evaluators.libraries import load, needs
from peira.evaluators.references import texts

PARTS = (
    "codebleu",
    "ngram_match_score",
    "weighted_ngram_match_score",
    "syntax_match_score",
    "dataflow_match_score",
)
NAMES = ("score", "ngrams", "keywords", "syntax", "dataflow")
GRAMMARS = {"python": "tree-sitter-python"}


def code_bleu(language: str = "python") -> Comparison:
    """CodeBLEU: the mean of four agreements (words in a row, the same weighted by keywords, syntax trees,
    flow of data), and each by itself. It says how alike codes look; `code_tests` says whether one works."""
    if language not in GRAMMARS:
        raise Invalid(f"code_bleu: language={language!r}{nearest(str(language), GRAMMARS)}")
    known = needs("code_bleu", "codebleu", GRAMMARS[language], install="'peira[code]'")
    options = (("language", language),)
    none = dict.fromkeys(NAMES, 0.0)
    return Comparison("code_bleu", partial(_code_bleu, language), options, no_answer=none, libraries=known)


def _code_bleu(language: str, output: Json, expected: Json) -> dict[str, float]:
    said, references = texts("code_bleu", output, expected)
    found: dict[str, Any] = load("codebleu").calc_codebleu([references], [said], lang=language)
    return {name: min(max(float(found[part]), 0.0), 1.0) for name, part in zip(NAMES, PARTS, strict=True)}
