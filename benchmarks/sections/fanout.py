"""The cost of units of a work plan: functions, and commands that do nothing, unconfined and confined."""

from __future__ import annotations

from sections.figures import Section, data, middle, rate
from sections.processes import Bench, Work, alternate

WORKS = {
    "functions": ("function", 10_000, 2_000),
    "commands, not confined": ("open", 1_000, 90),
    "commands, confined": ("confined", 1_000, 50),
    "until the first unit begins": ("first", 1, 0),
    "128 MiB of output": ("output", 1, 0),
}
"""What is measured: how, the number of units, and the units a second that are wanted on two cores."""


def fanout(bench: Bench) -> Section:
    """Units of a random plan, each with up to three needs."""
    small = bench.trials < 10_000
    works = [
        Work(label, "fanout.py", max(1, n // 10) if small else n, ("--what", what))
        for label, (what, n, _) in WORKS.items()
    ]
    rows, broke = alternate(works, bench)
    return Section(
        f"work: units of a random plan, median (best) of {bench.rounds} rounds",
        ("", "units", "units/s", "wanted", "CPU ms a unit", "peak MiB"),
        [
            (
                label,
                f"{kept[0].n:,}",
                f"{middle(kept, rate):,.0f} ({max(map(rate, kept)):,.0f})",
                f"{WORKS[label][2]:,}" if WORKS[label][2] else "",
                f"{middle(kept, lambda row: 1000 * row.cpu_seconds / row.n):.2f}",
                f"{middle(kept, lambda row: row.rss_mb):.0f}",
            )
            for label, kept in rows.items()
        ],
        data(rows, {}),
        [],
        list(broke.values()),
    )
