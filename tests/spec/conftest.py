"""The plug-ins that studies in these tests name, offered as an installed distribution would."""

from __future__ import annotations

from peira.core.registry import registry
from peira.evaluators import register
from peira.evaluators.function import from_function

if "exact" not in registry.names("evaluator"):
    register(registry)
if "function" not in registry.names("evaluator"):
    registry.add("evaluator", "function", from_function)
