"""A run's results in brief: how it ended, what it did, and its table of means."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

import peira.api as api
from peira.api.look import Opened
from peira.cli.bill import money, money_document
from peira.cli.output import means
from peira.core.ids import short
from peira.core.words import counted

if TYPE_CHECKING:
    from peira.analysis.results import Results
    from peira.analysis.table import Table
    from peira.api.running import Outcome

MOST_ROWS = 24
NOT_DONE_HERE = ("reused", "kept", "left", "spared")
FINE = frozenset(
    {"planned", "succeeded", "reused", "batches"}
    | {f"{what}{end}" for what in ("answers", "scores") for end in ("", " reused")}
)
WORDS = {"kept": "failed before", "left": "not done", "spared": "not needed"}


def document(outcome: Outcome) -> dict[str, Any]:
    results, finished = outcome.results, outcome.finished
    return {
        **summary(results),
        "reason": finished.reason,
        "exit_code": finished.exit_code,
        "table": tabled(results_table(results)),
    }


def summary(results: Results) -> dict[str, Any]:
    return {
        "run": results.run_id,
        "study": results.study,
        "status": results.status,
        "store": str(results.store),
        "counts": dict(results.counts),
        "notes": list(results.notes),
        **money_document(api.account_of(results.store, results.run_id)),
    }


def tabled(table: Table) -> msgspec.Raw:
    return msgspec.Raw(table.to_json().encode())


def text(results: Results, reason: str) -> str:
    return f"{headline(results, reason)}\n\n{means(results_table(results))}"


def headline(results: Results, reason: str = "") -> str:
    why = f" ({reason})" if reason and reason != results.status else ""
    lines = [
        f"{results.study}: {results.status}{why}, run {short(results.run_id)}",
        tally(results.counts),
        money(api.account_of(results.store, results.run_id)),
    ]
    return "\n".join(filter(None, lines))


def tally(counts: Mapping[str, int]) -> str:
    """The counts of a run in a line: what is new, what was reused, and all that did not go well."""
    planned = counts.get("planned", 0)
    new = planned - sum(counts.get(state, 0) for state in NOT_DONE_HERE)
    other = [_said(state, n) for state, n in counts.items() if n and state not in FINE]
    return ", ".join(
        [f"{counted(planned, 'trial')}: {new:,} new, {counts.get('reused', 0):,} reused", *other]
    )


def _said(state: str, n: int) -> str:
    what, _, how = state.partition(" ")
    judged = what in ("answers", "scores")
    return f"{counted(n, what[:-1])} {how}" if judged else f"{n:,} {WORDS.get(state, state)}"


def results_table(results: Results, across: str = "", **asked: Any) -> Table:
    """By every factor that varies, unless that makes a table too long to read."""
    conditions = Opened(results.store).manifest(results.run_id).conditions
    names = list(dict.fromkeys(name for condition in conditions for name in condition.shown))
    varying = [name for name in names if len({repr(c.shown.get(name)) for c in conditions}) > 1]
    by = [name for name in varying if name != across]
    return results.table(*(by if len(conditions) <= MOST_ROWS else ()), across=across, **asked)
