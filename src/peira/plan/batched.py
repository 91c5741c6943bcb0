"""Which finished work had its calls answered in batches: for less money, and after a wait that is its own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from peira.core.events import Result
from peira.core.models import Named
from peira.plan.history import Readable

SAMPLE = 50
"""Finished work that is looked at first; if none of it was in a batch, none is taken to have been."""
WAITS = "batches are answered when their provider gets to them, usually within a day"


def in_batches(results: Mapping[str, Result], store: Readable) -> dict[str, float]:
    """The share of its calls, for all work of which some were in a batch."""
    asked = {task: result.calls for task, result in results.items() if result.calls}
    sample = list(asked)[:: max(1, len(asked) // SAMPLE)]
    if not any(_batched(store, (key for task in sample for key in asked[task])).values()):
        return {}
    known = _batched(store, (key for keys in asked.values() for key in keys))
    shares = {task: sum(known.get(key, False) for key in keys) / len(keys) for task, keys in asked.items()}
    return {task: share for task, share in shares.items() if share}


def _batched(store: Readable, keys: Iterable[str]) -> dict[str, bool]:
    return {key: bool(call.batch) for key, call in store.find("call", list(keys)).items()}


def said_of(models: Iterable[Sequence[Named]]) -> str:
    """What is paid in batches, of the prices that are known."""
    known = {model.name: model.price.batch for some in models for model in some if model.price}
    shares = [f"{name} at {share:.0%} of its price" for name, share in known.items()]
    return f"in batches: {', '.join(shares) or 'the share of the price that is paid is not known'}"
