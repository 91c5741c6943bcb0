"""Time and memory of planning, for large full factorials and optimal designs."""

from __future__ import annotations

from sections.figures import Section, data, memory, middle
from sections.processes import Bench, Row, Work, alternate


def designs(bench: Bench) -> Section:
    """A full factorial of ten million runs, and a D-optimal design."""
    works = [
        Work("full factorial, 10,000,000 runs, first 1,000", "design.py", 10_000_000),
        Work("D-optimal, 8 mixed factors, 40 runs", "design.py", 40, ("--what", "optimal")),
    ]
    rows, broke = alternate(works, bench)
    return Section(
        f"designs: median of {bench.rounds} rounds",
        ("", "seconds", "CPU seconds", "peak MB"),
        [
            (
                label,
                f"{middle(kept, lambda row: row.seconds):.2f}",
                f"{middle(kept, _cpu):.2f}",
                f"{middle(kept, memory):.0f}",
            )
            for label, kept in rows.items()
        ],
        data(rows, {}),
        [],
        list(broke.values()),
    )


def _cpu(row: Row) -> float:
    return row.cpu_seconds
