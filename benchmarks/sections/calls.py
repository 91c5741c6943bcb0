"""Calls per second against a bare HTTP client on the same 50 ms endpoint, and replay from the ledger."""

from __future__ import annotations

from sections.figures import COST, Rows, Section, cost, cpu_each, data, rate, times
from sections.processes import Bench, Work, alternate

SHARE = 2
"""The trials are divided by this, because every call waits for the endpoint."""
AT_ONCE = (200, 1000)
"""Numbers of concurrent calls."""
FEW = AT_ONCE[0]


def calls(bench: Bench) -> Section:
    """One call per trial with ledger, scores and full durability, against a client that stores nothing."""
    n = bench.trials // SHARE
    works = [work for at_once in AT_ONCE for work in _at(at_once, n)]
    for evaluators in (0, 4):
        options = ("--at-once", str(FEW), "--evaluators", str(evaluators))
        works.append(Work(f"peira, {FEW}, {evaluators} evaluators", "calls.py", n, options))
    works.append(Work(f"peira, {FEW}, def", "calls.py", n, ("--at-once", str(FEW), "--agent", "def")))
    works.append(Work("peira, from the ledger", "calls.py", n, ("--again",)))
    rows, broke = alternate(works, bench)
    ratios = {label: _to_bare(label, rows) for label in rows}
    return Section(
        f"calls: 50 ms endpoint, a call and a score a trial; median (best) of {bench.rounds} rounds in turns",
        ("", *COST, "best / best bare"),
        [(label, *cost(kept), times(ratios.get(label))) for label, kept in rows.items()],
        data(rows, {label: value for label, value in ratios.items() if value is not None}),
        list(_cost_of_evaluators(rows)),
        list(broke.values()),
    )


def _at(at_once: int, n: int) -> list[Work]:
    options = ("--at-once", str(at_once))
    return [
        Work(f"bare aiohttp, {at_once}", "calls.py", n, ("--who", "bare", *options)),
        Work(f"peira, {at_once}", "calls.py", n, options),
    ]


def _to_bare(label: str, rows: Rows) -> float | None:
    """The best rate, divided by the best of the bare client with as many calls at a time."""
    at_once = AT_ONCE[1] if str(AT_ONCE[1]) in label else FEW
    bare = rows.get(f"bare aiohttp, {at_once}")
    return max(map(rate, rows[label])) / max(map(rate, bare)) if bare else None


def _cost_of_evaluators(rows: Rows) -> list[str]:
    """What one and four evaluators of plain code add, in CPU time, as the least of the rounds."""
    least = {label: min(map(cpu_each, kept)) for label, kept in rows.items()}
    none = least.get(f"peira, {FEW}, 0 evaluators")
    added = {1: least.get(f"peira, {FEW}"), 4: least.get(f"peira, {FEW}, 4 evaluators")}
    return [
        f"CPU time that {k} {'evaluator adds' if k == 1 else 'evaluators add'}: {100 * (cpu / none - 1):.0f}%"
        for k, cpu in added.items()
        if none and cpu
    ]
