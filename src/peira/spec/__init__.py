"""What is asked: cases, factors, agents, evaluators, limits; a study of them; and the files they come in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import open_late

if TYPE_CHECKING:
    from peira.spec.benchmark import Benchmark, find_benchmark

__all__ = ["Benchmark", "find_benchmark"]

_ROOMS = {"peira.spec.benchmark": ("Benchmark", "find_benchmark")}
open_late(__name__, _ROOMS)
