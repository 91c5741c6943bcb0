"""The shelf of data: cases out of files, folders, data sets and lists, and the benchmarks made of them."""

from __future__ import annotations

from peira.core.registry import Registry
from peira.data.answer import answer
from peira.data.benchmarks import BENCHMARKS
from peira.data.describe import Stats, stats
from peira.data.instructions import instructions
from peira.data.reading import load, read

__all__ = ["BENCHMARKS", "Stats", "answer", "instructions", "load", "read", "register", "stats"]


def register(registry: Registry) -> None:
    """Offer what reads data, what judges benchmarks, and the benchmarks themselves, as any plug-in would."""
    registry.add("data", "query", read)
    registry.add("evaluator", "answer", answer)
    registry.add("evaluator", "instructions", instructions)
    for make in BENCHMARKS:
        registry.add("benchmark", make.__name__, make)
