"""What a run was expected to cost and what it spent, for people and for programs."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import msgspec

from peira.plan.bill import against

if TYPE_CHECKING:
    from peira.api.account import Account


def money(account: Account) -> str:
    """In a line; "" if no model was asked, nor was expected to be."""
    estimate, spent = account
    if not spent.calls and not (estimate and estimate.asks):
        return ""
    tokens = spent.input + spent.output
    calls = f"{spent.calls:,} call{'' if spent.calls == 1 else 's'}, {tokens:,} tokens"
    return f"{against(estimate, spent.price)} ({calls})"


def money_document(account: Account) -> dict[str, Any]:
    estimate = account.estimate
    return {
        "estimate": None if estimate is None else msgspec.to_builtins(estimate),
        "spent": asdict(account.spent),
    }
