"""Whether cost per trial stays constant as runs grow, and the cost of planning and repeating a run."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from sections.figures import (
    COST,
    Rows,
    Section,
    bytes_each,
    cost,
    cpu_each,
    data,
    memory,
    middle,
    ratio,
    time_each,
    times,
)
from sections.processes import FORMER, Bench, Failed, Row, Work, alternate, say, with_former

FIRST = "first run"


def growth(bench: Bench) -> Section:
    """The cost per trial in a small, a medium and a large run."""
    works = [Work(f"peira, {n:,}", "trials_peira.py", n) for n in bench.sizes]
    rows, failed = alternate(works, bench)
    small, large = rows.get(works[0].label), rows.get(works[-1].label)
    slower = {label: ratio(kept, small, time_each) for label, kept in rows.items()} if small else {}
    return Section(
        f"growth: cost per trial by size of the run; median (best) of {bench.rounds} rounds in turns",
        ("", *COST, "time per trial / smallest"),
        [(label, *cost(kept), times(slower.get(label))) for label, kept in rows.items()],
        data(rows, slower),
        list(_largest_to_smallest(small, large)) if small and large else [],
        list(failed.values()),
    )


def rerun(bench: Bench) -> Section:
    """The largest run once, then alternately its repetition with all trials done and its planning."""
    n = bench.sizes[-1]
    rows: Rows = {}
    failed: list[str] = []
    try:
        for label, row in _first_and_again(bench, n):
            rows.setdefault(label, []).append(row)
    except Failed as failure:
        failed.append(str(failure))
    seconds = {label: median(row.seconds for row in kept) for label, kept in rows.items()}
    shares = {label: each / seconds[_first_of(label)] for label, each in seconds.items()}
    return Section(
        f"rerun: {n:,} trials; median (best) of {bench.rounds} rounds in turns after one first run",
        ("", "seconds", "CPU s", "agent calls", "peak MB", "/ first run", "building the study, s"),
        [(label, *_whole(kept), times(shares[label]), _build(kept)) for label, kept in rows.items()],
        data(rows, shares),
        [],
        failed,
    )


def _first_and_again(bench: Bench, n: int) -> Iterator[tuple[str, Row]]:
    """The rows of the first run, of its repetitions, and of planning on an empty store."""
    first = with_former(Work(FIRST, "trials_peira.py", n), bench.former)
    again = with_former(Work("rerun, all done", "trials_peira.py", n, ("--mode", "rerun")), bench.former)
    planning = with_former(Work("plan, empty store", "trials_peira.py", n, ("--mode", "plan")), bench.former)
    kept = [bench.scratch / f"kept-{place}" / "work" for place in range(len(first))]
    for work, folder in zip(first, kept, strict=True):
        say(f"{work.label} ({n:,})")
        yield work.label, work.once(folder)
    for turn in range(bench.rounds):
        say(f"round {turn + 1} of {bench.rounds}: {again[0].label}; {planning[0].label} ({n:,})")
        for work, folder in zip(again, kept, strict=True):
            yield work.label, work.once(folder)
        for place, work in enumerate(planning):
            yield work.label, work.once(bench.scratch / f"plan-{turn}-{place}" / "work")


def _first_of(label: str) -> str:
    """The label of the first run with the same sources."""
    return f"{FIRST}{FORMER}" if label.endswith(FORMER) else FIRST


def _largest_to_smallest(small: list[Row], large: list[Row]) -> Iterator[str]:
    """A line that compares the cost per trial of the largest and the smallest run."""
    slower, cpu, size = (times(ratio(large, small, figure)) for figure in (time_each, cpu_each, bytes_each))
    more = middle(large, memory) - middle(small, memory)
    yield (
        f"{large[0].n:,} against {small[0].n:,}, per trial: time {slower}, CPU {cpu}, bytes {size}; "
        f"peak memory {more:+,.0f} MB in all"
    )


def _whole(rows: list[Row]) -> tuple[str, ...]:
    """The columns of the table of `rerun`."""
    seconds = [row.seconds for row in rows]
    cpu = median(row.cpu_seconds for row in rows)
    new = rows[-1].new
    calls = "-" if new is None else f"{new:,} new"
    return f"{median(seconds):.2f} ({min(seconds):.2f})", f"{cpu:.2f}", calls, f"{middle(rows, memory):,.0f}"


def _build(rows: list[Row]) -> str:
    return f"{median(row.build_seconds for row in rows):.2f}"
