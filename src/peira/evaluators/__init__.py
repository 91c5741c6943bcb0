"""The shelf of evaluators: what judges an output."""

from __future__ import annotations

from peira.core.registry import Registry
from peira.evaluators.aligned import bert_score, meteor
from peira.evaluators.calibration import calibration
from peira.evaluators.code import code_tests
from peira.evaluators.code_bleu import code_bleu
from peira.evaluators.composite import cascade, conditional, gated, pick, weighted
from peira.evaluators.embedding import embedding_similarity
from peira.evaluators.function import from_function
from peira.evaluators.labels import choice, multi_label
from peira.evaluators.mathematics import math_equal
from peira.evaluators.number import numeric
from peira.evaluators.overlap import bleu, chrf, rouge
from peira.evaluators.refusals import refusal
from peira.evaluators.scores import score_value
from peira.evaluators.shape import json_schema, length
from peira.evaluators.similarity import edit_similarity, fuzzy
from peira.evaluators.spending import cost, latency, reported, tokens, tool_calls
from peira.evaluators.text import exact, includes, match, regex

BUILT_IN = (
    bert_score,
    bleu,
    calibration,
    cascade,
    choice,
    chrf,
    code_bleu,
    code_tests,
    conditional,
    cost,
    edit_similarity,
    embedding_similarity,
    exact,
    fuzzy,
    gated,
    includes,
    json_schema,
    latency,
    length,
    match,
    math_equal,
    meteor,
    multi_label,
    numeric,
    pick,
    refusal,
    regex,
    reported,
    rouge,
    tokens,
    tool_calls,
    weighted,
)

__all__ = [
    "BUILT_IN",
    "bert_score",
    "bleu",
    "calibration",
    "cascade",
    "choice",
    "chrf",
    "code_bleu",
    "code_tests",
    "conditional",
    "cost",
    "edit_similarity",
    "embedding_similarity",
    "exact",
    "from_function",
    "fuzzy",
    "gated",
    "includes",
    "json_schema",
    "latency",
    "length",
    "match",
    "math_equal",
    "meteor",
    "multi_label",
    "numeric",
    "pick",
    "refusal",
    "regex",
    "register",
    "reported",
    "rouge",
    "score_value",
    "tokens",
    "tool_calls",
    "weighted",
]


def register(registry: Registry) -> None:
    """Offer the built-in evaluators, as any plug-in would."""
    registry.add("evaluator", "function", from_function)
    for make in BUILT_IN:
        registry.add("evaluator", make.__name__, make)
