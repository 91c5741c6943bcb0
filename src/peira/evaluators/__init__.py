"""The shelf of evaluators: what judges an output."""

from __future__ import annotations

from peira.core.registry import Registry
from peira.evaluators.function import from_function
from peira.evaluators.number import numeric
from peira.evaluators.scores import score_value
from peira.evaluators.text import exact, includes, match, regex

__all__ = ["exact", "from_function", "includes", "match", "numeric", "regex", "register", "score_value"]


def register(registry: Registry) -> None:
    """Offer the built-in evaluators, as any plug-in would."""
    registry.add("evaluator", "function", from_function)
    for make in (exact, match, includes, regex, numeric):
        registry.add("evaluator", make.__name__, make)
