"""Evaluators: they score outputs. The module of an evaluator is imported lazily, on first use."""

from __future__ import annotations

from peira.core.lazy import late, lazy_imports
from peira.core.registry import Registry

with lazy_imports(__name__, "BUILT_IN", "register") as _names:
    from peira.evaluators.answers import choice as choice
    from peira.evaluators.answers import multi_label as multi_label
    from peira.evaluators.answers import numeric as numeric
    from peira.evaluators.answers import refusal as refusal
    from peira.evaluators.calibration import calibration as calibration
    from peira.evaluators.code import code_bleu as code_bleu
    from peira.evaluators.code import code_tests as code_tests
    from peira.evaluators.composite import cascade as cascade
    from peira.evaluators.composite import conditional as conditional
    from peira.evaluators.composite import gated as gated
    from peira.evaluators.composite import pick as pick
    from peira.evaluators.composite import weighted as weighted
    from peira.evaluators.function import from_function as from_function
    from peira.evaluators.imported_scores import imported as imported
    from peira.evaluators.judges.judge import judge as judge
    from peira.evaluators.judges.pairwise import pairwise as pairwise
    from peira.evaluators.judges.panel import panel as panel
    from peira.evaluators.mathematics import math_equal as math_equal
    from peira.evaluators.metrics.alignment import bert_score as bert_score
    from peira.evaluators.metrics.alignment import meteor as meteor
    from peira.evaluators.metrics.embedding import embedding_similarity as embedding_similarity
    from peira.evaluators.metrics.overlap import bleu as bleu
    from peira.evaluators.metrics.overlap import chrf as chrf
    from peira.evaluators.metrics.overlap import edit_similarity as edit_similarity
    from peira.evaluators.metrics.overlap import fuzzy as fuzzy
    from peira.evaluators.metrics.overlap import rouge as rouge
    from peira.evaluators.people import person as person
    from peira.evaluators.scores import score_value as score_value
    from peira.evaluators.shape import json_schema as json_schema
    from peira.evaluators.shape import length as length
    from peira.evaluators.text import exact as exact
    from peira.evaluators.text import includes as includes
    from peira.evaluators.text import match as match
    from peira.evaluators.text import regex as regex
    from peira.evaluators.usage import cost as cost
    from peira.evaluators.usage import latency as latency
    from peira.evaluators.usage import reported as reported
    from peira.evaluators.usage import tokens as tokens
    from peira.evaluators.usage import tool_calls as tool_calls

BUILT_IN = tuple(sorted({*_names} - {"from_function", "score_value"}))
"""The registry names of the built-in evaluators."""


def register(registry: Registry) -> None:
    """Register the built-in evaluators for lazy import, through the same interface as plug-ins."""
    registry.add("evaluator", "function", late(__name__, "from_function"))
    for name in BUILT_IN:
        registry.add("evaluator", name, late(__name__, name))
