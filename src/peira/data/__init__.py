"""Data: cases from files, folders, data sets and lists; statistics of cases; benchmarks.

Modules are imported lazily, on first use, because most studies define their cases themselves.
"""

from __future__ import annotations

from peira.core.lazy import late, lazy_imports
from peira.core.registry import Registry

with lazy_imports(__name__, "register"):
    from peira.data.benchmarks import BENCHMARKS as BENCHMARKS
    from peira.data.cases import load as load
    from peira.data.cases import read as read
    from peira.data.evaluators import answer as answer
    from peira.data.evaluators import instructions as instructions
    from peira.data.statistics import Stats as Stats
    from peira.data.statistics import stats as stats

_BENCHMARKS = {
    "maths": (
        "aime24",
        "aime25",
        "amc23",
        "beyondaime",
        "competition_math",
        "gsm8k",
        "gsm_symbolic",
        "math500",
        "olympiadbench",
    ),
    "choices": (
        "commonsense_qa",
        "gpqa",
        "medmcqa",
        "medqa",
        "mmlu_pro",
        "piqa",
        "sciq",
        "social_i_qa",
        "super_gpqa",
    ),
    "words": ("coqa", "ifeval"),
    "code": ("humaneval", "mbpp"),
}
"""The built-in benchmarks by module."""


def register(registry: Registry) -> None:
    """Register the data query, the evaluators of benchmarks, and the benchmarks, for lazy import."""
    registry.add("data", "query", late(__name__, "read"))
    registry.add("evaluator", "answer", late(__name__, "answer"))
    registry.add("evaluator", "instructions", late(__name__, "instructions"))
    for module, names in _BENCHMARKS.items():
        for name in names:
            registry.add("benchmark", name, late(f"{__name__}.benchmarks.{module}", name))
