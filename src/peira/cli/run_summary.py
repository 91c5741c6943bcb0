"""The summary of a run: how it ended, what it did and cost, its table of means, what to type next."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from peira.cli.output import means, program
from peira.core.ids import short
from peira.core.text.words import counted
from peira.plan.estimate.value import against

if TYPE_CHECKING:
    from peira.analysis.results import Results
    from peira.analysis.table.value import Table
    from peira.app.run import RunOutcome
    from peira.app.store.spending import RunAccount
    from peira.results.reasons import FailureReason


def next_command(name: str, run: str, store: str | None) -> str:
    """A command to type next, with this run and store."""
    words = [program(), name, short(run), *(["--store", store] if store else [])]
    return shlex.join(words)


def limits_in(reason: str) -> str:
    """The limits of the budget that a run was stopped by, as its reason names them; "" for none."""
    return ", ".join(dict.fromkeys(re.findall(r"budget(?:\.[\w:./-]+)*", reason)))


def money(account: RunAccount) -> str:
    """The cost against the estimate, in one line; "" if no model was called or expected to be."""
    estimate, spent = account
    if not spent.calls and not (estimate and estimate.asks):
        return ""
    tokens = spent.input + spent.output
    calls = f"{spent.calls:,} call{'' if spent.calls == 1 else 's'}, {tokens:,} tokens"
    return f"{against(estimate, spent.price)} ({calls})"


def money_document(account: RunAccount) -> dict[str, Any]:
    """The estimate and the spending as plain values."""
    estimate = account.estimate
    return {
        "estimate": None if estimate is None else msgspec.to_builtins(estimate),
        "spent": asdict(account.spent),
    }


NOT_DONE_HERE = ("reused", "kept", "kept_exhausted", "left", "spared", "waiting")
FINE = frozenset(
    {"planned", "succeeded", "reused", "batches"}
    | {f"{what}{end}" for what in ("answers", "scores") for end in ("", " reused")}
)
"""Counts that are not problems and are not listed separately."""
WORDS = {
    "kept": "failed before",
    "kept_exhausted": "exhausted before",
    "left": "not begun",
    "in_doubt": "in doubt",
    "spared": "not needed",
}


def document(
    outcome: RunOutcome, account: RunAccount, table: Table, reasons: Sequence[FailureReason] = ()
) -> dict[str, Any]:
    """A run that just ended, as plain values; `reasons` are those of its failures."""
    results, finished = outcome.results, outcome.finished
    return {
        **summary(results, account),
        "reason": finished.reason,
        "exit_code": finished.exit_code,
        "reasons": reasons,
        "table": tabled(table),
    }


def summary(results: Results, account: RunAccount) -> dict[str, Any]:
    """A run as plain values: id, status, counts, notes, money."""
    return {
        "run": results.run_id,
        "study": results.study,
        "status": results.status,
        "store": str(results.store),
        "counts": dict(results.counts),
        "notes": list(results.notes),
        **money_document(account),
    }


def tabled(table: Table) -> msgspec.Raw:
    """A table as JSON."""
    return msgspec.Raw(table.to_json().encode())


def text(results: Results, account: RunAccount, table: Table, reason: str = "") -> str:
    """The summary as text, with the table of means."""
    return f"{headline(results, account, reason)}\n\n{means(table)}"


def headline(results: Results, account: RunAccount, reason: str = "") -> str:
    """The status, counts and money of a run."""
    why = f" ({reason})" if reason and reason != results.status else ""
    lines = [
        f"{results.study}: {results.status}{why}, run {short(results.run_id)}",
        tally(results.counts),
        money(account),
    ]
    return "\n".join(filter(None, lines))


def tally(counts: Mapping[str, int]) -> str:
    """The counts of a run in one line: new, reused, and everything that did not go well."""
    units = {state.removeprefix("unit."): n for state, n in counts.items() if state.startswith("unit.")}
    if units and not any("." not in state and state != "planned" for state in counts):  # a work plan
        ends = ", ".join(f"{n:,} {state}" for state, n in sorted(units.items()))
        return f"{counted(sum(units.values()), 'unit')}: {ends}"
    planned = counts.get("planned", 0)
    new = planned - sum(counts.get(state, 0) for state in NOT_DONE_HERE)
    other = [_count_text(state, n) for state, n in counts.items() if n and state not in FINE]
    return ", ".join(
        [f"{counted(planned, 'trial')}: {new:,} new, {counts.get('reused', 0):,} reused", *other]
    )


def _count_text(state: str, n: int) -> str:
    what, _, how = state.partition(" ")
    judged = what in ("answers", "scores")
    return f"{counted(n, what[:-1])} {how}" if judged else f"{n:,} {WORDS.get(state, state)}"
