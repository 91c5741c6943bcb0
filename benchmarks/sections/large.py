"""A run so large that everything must be streamed: plan, run, run again, table, report, exports, scores."""

from __future__ import annotations

from sections.figures import Section, data, memory, middle, times
from sections.processes import FORMER, Bench, Failed, Row, Work, say, with_former

STEPS = (
    "plan",
    "run",
    "table",
    "show",
    "again",
    "plan, from a file",
    "run, from a file",
    "again, from a file",
    "count",
    "report",
    "csv",
    "parquet",
    "artifact",
    "score again",
    "one failed",
    "again, one failed",
)


def large(bench: Bench) -> Section:
    """Once at `--trials` and once at `--large`, each step in a process of its own."""
    rows: dict[str, list[Row]] = {}
    failed: list[str] = []
    for n in (bench.trials, bench.large):
        for step in STEPS:
            work = Work(f"{step}, {n:,}", "large.py", n, ("--step", step))
            for place, each in enumerate(with_former(work, bench.former)):
                say(f"large: {each.label}")
                try:
                    row = each.once(bench.scratch / f"large-{n}-{place}" / "work")
                except Failed as failure:
                    failed.append(str(failure))
                else:
                    rows[each.label] = [row]
    lines = []
    for label, kept in rows.items():
        former = FORMER if label.endswith(FORMER) else ""
        small = rows.get(f"{label.rsplit(', ', 1)[0].removesuffix(',')}, {bench.trials:,}{former}")
        each, cpu = kept[0].seconds / kept[0].n, kept[0].cpu_seconds / kept[0].n
        slower = each / (small[0].seconds / small[0].n) if small else None
        figures = f"{kept[0].seconds:.2f}", f"{kept[0].cpu_seconds:.2f}", f"{cpu * 1e6:.1f}"
        lines.append((label, *figures, f"{middle(kept, memory):,.0f}", times(slower)))
    return Section(
        "large: each step once, in a process of its own",
        ("", "seconds", "CPU s", "CPU µs/trial", "peak MB", "time per trial / smaller"),
        lines,
        data(rows, {}),
        ["peak MB includes the study's own cases, which are built before the step is measured"],
        failed,
    )
