"""Scoring of stored outputs: nothing is generated, every score is durable."""

from __future__ import annotations

from sections.figures import COST, Section, cost, data
from sections.processes import Bench, Work, alternate


def scoring(bench: Bench) -> Section:
    """Five times the trials of one run, with an evaluator of texts and one of numbers."""
    n = 5 * bench.trials
    works = [Work(name, "scoring.py", n, ("--evaluator", name)) for name in ("exact", "numeric")]
    rows, failed = alternate(works, bench)
    return Section(
        f"scoring: {n:,} stored outputs; median (best) of {bench.rounds} rounds in turns",
        ("", *COST),
        [(label, *cost(kept)) for label, kept in rows.items()],
        data(rows, {}),
        [],
        list(failed.values()),
    )
