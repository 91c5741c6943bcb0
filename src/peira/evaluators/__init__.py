"""The shelf of evaluators: what judges an output. A room is opened when one of its evaluators is made."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import late, open_late
from peira.core.registry import Registry

if TYPE_CHECKING:
    from peira.evaluators.aligned import bert_score, meteor
    from peira.evaluators.calibration import calibration
    from peira.evaluators.code import code_tests
    from peira.evaluators.code_bleu import code_bleu
    from peira.evaluators.composite import cascade, conditional, gated, pick, weighted
    from peira.evaluators.embedding import embedding_similarity
    from peira.evaluators.function import from_function
    from peira.evaluators.judge import judge
    from peira.evaluators.labels import choice, multi_label
    from peira.evaluators.mathematics import math_equal
    from peira.evaluators.number import numeric
    from peira.evaluators.overlap import bleu, chrf, rouge
    from peira.evaluators.pairwise import pairwise
    from peira.evaluators.panel import panel
    from peira.evaluators.refusals import refusal
    from peira.evaluators.scores import score_value
    from peira.evaluators.shape import json_schema, length
    from peira.evaluators.similarity import edit_similarity, fuzzy
    from peira.evaluators.spending import cost, latency, reported, tokens, tool_calls
    from peira.evaluators.text import exact, includes, match, regex

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
    "judge",
    "latency",
    "length",
    "match",
    "math_equal",
    "meteor",
    "multi_label",
    "numeric",
    "pairwise",
    "panel",
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

_ROOMS = {
    "peira.evaluators.aligned": (
        "bert_score",
        "meteor",
    ),
    "peira.evaluators.calibration": ("calibration",),
    "peira.evaluators.code": ("code_tests",),
    "peira.evaluators.code_bleu": ("code_bleu",),
    "peira.evaluators.composite": (
        "cascade",
        "conditional",
        "gated",
        "pick",
        "weighted",
    ),
    "peira.evaluators.embedding": ("embedding_similarity",),
    "peira.evaluators.function": ("from_function",),
    "peira.evaluators.judge": ("judge",),
    "peira.evaluators.labels": (
        "choice",
        "multi_label",
    ),
    "peira.evaluators.mathematics": ("math_equal",),
    "peira.evaluators.number": ("numeric",),
    "peira.evaluators.overlap": (
        "bleu",
        "chrf",
        "rouge",
    ),
    "peira.evaluators.pairwise": ("pairwise",),
    "peira.evaluators.panel": ("panel",),
    "peira.evaluators.refusals": ("refusal",),
    "peira.evaluators.scores": ("score_value",),
    "peira.evaluators.shape": (
        "json_schema",
        "length",
    ),
    "peira.evaluators.similarity": (
        "edit_similarity",
        "fuzzy",
    ),
    "peira.evaluators.spending": (
        "cost",
        "latency",
        "reported",
        "tokens",
        "tool_calls",
    ),
    "peira.evaluators.text": (
        "exact",
        "includes",
        "match",
        "regex",
    ),
}
_OTHERS = ("from_function", "score_value")
BUILT_IN = tuple(sorted(name for names in _ROOMS.values() for name in names if name not in _OTHERS))
"""The names of all that are offered."""


def register(registry: Registry) -> None:
    """Offer the built-in evaluators, as any plug-in would."""
    registry.add("evaluator", "function", late(__name__, "from_function"))
    for name in BUILT_IN:
        registry.add("evaluator", name, late(__name__, name))


open_late(__name__, _ROOMS)
