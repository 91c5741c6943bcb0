"""The cost of the sandbox: generated code in a sandbox, compared with a bare start of the interpreter."""

from __future__ import annotations

from sections.figures import Section, cpu_each, data, middle, rate, ratio, time_each, times
from sections.processes import Bench, Work, alternate

STARTS = 200
"""Number of process starts."""
BARE = "bare start of the interpreter"


def sandbox(bench: Bench) -> Section:
    """A bare start, a confined start, and `code_tests` in the sandbox."""
    labels = {BARE: "bare", "the same in a sandbox": "confined", "code_tests, in a sandbox": "judged"}
    works = [Work(label, "sandbox.py", STARTS, ("--what", what)) for label, what in labels.items()]
    rows, broke = alternate(works, bench)
    ratios = {label: ratio(kept, rows[BARE], time_each) for label, kept in rows.items() if BARE in rows}
    return Section(
        f"sandbox: {STARTS} starts, two at a time, median (best) of {bench.rounds} rounds",
        ("", "starts/s", "CPU ms a start", "time, to bare"),
        [
            (
                label,
                f"{middle(kept, rate):.0f} ({max(map(rate, kept)):.0f})",
                f"{middle(kept, cpu_each) / 1000:.2f} ({min(map(cpu_each, kept)) / 1000:.2f})",
                times(ratios.get(label)),
            )
            for label, kept in rows.items()
        ],
        data(rows, ratios),
        [],
        list(broke.values()),
    )
