"""The built-in benchmarks: functions that return a `Benchmark`."""

from peira.data.benchmarks import choices, code, maths, words

BENCHMARKS = (*maths.ALL, *choices.ALL, *words.ALL, *code.ALL)

__all__ = ["BENCHMARKS"]
