"""The shelf of data: cases out of files, folders, data sets and lists, and the benchmarks made of them.

Most studies bring their cases along: a room is opened when something of it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import late, open_late
from peira.core.registry import Registry

if TYPE_CHECKING:
    from peira.data.answer import answer
    from peira.data.benchmarks import BENCHMARKS
    from peira.data.describe import Stats, stats
    from peira.data.instructions import instructions
    from peira.data.reading import load, read

__all__ = ["BENCHMARKS", "Stats", "answer", "instructions", "load", "read", "register", "stats"]

_ROOMS = {
    "peira.data.answer": ("answer",),
    "peira.data.benchmarks": ("BENCHMARKS",),
    "peira.data.describe": ("Stats", "stats"),
    "peira.data.instructions": ("instructions",),
    "peira.data.reading": ("load", "read"),
}
_BENCHMARKS = {
    "maths": ("competition_math", "gsm8k", "gsm_symbolic", "math500"),
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


def register(registry: Registry) -> None:
    """Offer what reads data, what judges benchmarks, and the benchmarks themselves, as any plug-in would."""
    registry.add("data", "query", late(__name__, "read"))
    registry.add("evaluator", "answer", late(__name__, "answer"))
    registry.add("evaluator", "instructions", late(__name__, "instructions"))
    for room, names in _BENCHMARKS.items():
        for name in names:
            registry.add("benchmark", name, late(f"{__name__}.benchmarks.{room}", name))


open_late(__name__, _ROOMS)
