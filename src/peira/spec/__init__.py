"""What is asked: cases, factors, agents, evaluators, limits; a study of them; and the files they come in.

Benchmarks, and what reads data files or packs many cases, are imported when a study needs them.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.spec.benchmark import Benchmark as Benchmark
    from peira.spec.benchmark import find_benchmark as find_benchmark
    from peira.spec.data_files import read_cases as read_cases
    from peira.spec.data_files import shortened as shortened
    from peira.spec.packed_cases import PackedCases as PackedCases
    from peira.spec.query import Query as Query
    from peira.spec.query import ask_for as ask_for
    from peira.spec.query import is_query as is_query
