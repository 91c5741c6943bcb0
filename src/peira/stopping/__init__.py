"""Stopping rules: when a run can stop early, and which conditions it can drop.

`decided` stops when the declared hypotheses are decided; `racing` drops levels that are significantly worse
than another; `successive_rejects` drops the worst level so far on a schedule that fits a budget. The module
of a rule is imported lazily, when a study first names the rule.
"""

from __future__ import annotations

from peira.core.registry import Registry

RULES = {"decided": "hypotheses", "racing": "racing", "successive_rejects": "successive_rejects"}
"""The built-in rules, with the module of each."""


def register(registry: Registry) -> None:
    """Register the built-in rules for lazy import, through the same interface as plug-ins."""
    for name, module in RULES.items():
        registry.promise("stop", (name,), f"{__name__}.{module}")
