"""Calls per second against a bare HTTP client on the same 50 ms endpoint, and replay from the ledger."""

from __future__ import annotations

from figures import COST, Section, cost, data, rate, ratio, times
from workers import Bench, Work, alternate

SHARE = 2
"""The trials are divided by this, because every call waits for the endpoint."""
AT_ONCE = (200, 1000)
"""Numbers of concurrent calls."""


def calls(bench: Bench) -> Section:
    """One call per trial with ledger and full durability, against a client that stores nothing."""
    n = bench.trials // SHARE
    works = [
        work
        for at_once in AT_ONCE
        for work in (
            Work(
                f"bare aiohttp, {at_once}", "work_calls.py", n, ("--who", "bare", "--at-once", str(at_once))
            ),
            Work(f"peira, {at_once}", "work_calls.py", n, ("--at-once", str(at_once))),
        )
    ]
    works.append(Work("peira, from the ledger", "work_calls.py", n, ("--again",)))
    rows, broke = alternate(works, bench)
    base = rows.get(f"bare aiohttp, {AT_ONCE[0]}")
    ratios = {label: ratio(kept, base, rate) for label, kept in rows.items()} if base else {}
    return Section(
        f"calls: 50 ms endpoint, one call a trial; median (best) of {bench.rounds} rounds in turns",
        ("", *COST, f"this / bare aiohttp, {AT_ONCE[0]}"),
        [(label, *cost(kept), times(ratios.get(label))) for label, kept in rows.items()],
        data(rows, ratios),
        [],
        list(broke.values()),
    )
