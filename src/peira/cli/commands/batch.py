"""`peira batch`: calls submitted with `run --batch`, and whether they are answered."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from peira.app.batches import OpenBatch, batches, collect
from peira.app.session import Session
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, grid
from peira.core.ids import short


class BatchAction(StrEnum):
    """The actions of `peira batch`."""

    status = "status"
    collect = "collect"


def batch(
    action: Annotated[
        BatchAction, typer.Argument(metavar="[status|collect]", help="Look only, or fetch what is answered.")
    ] = BatchAction.status,
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Say where batches stand, or fetch the answers of those that are over.

    `peira run S --batch` hands calls in and waits for them; stop it whenever you like. `collect` records the
    answers there are, and the next `peira run S` uses them: nothing is asked again.

    \b
    Examples:
      peira batch status
      peira batch collect
    """
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        found = collect(session) if action is BatchAction.collect else batches(session)
        out.document({"batches": list(map(_document, found))})
        out.text(_text(found, action))
        unseen = any(one.state.failure and not one.state.over for one in found)
        return int(action is BatchAction.collect and unseen)


def _document(one: OpenBatch) -> dict[str, Any]:
    """A batch as plain values."""
    state = one.state
    return {
        "batch": one.id,
        "model": one.model,
        "run": one.run,
        "calls": one.calls,
        "name": one.name or None,
        "over": state.over,
        "done": state.done,
        "said": state.said,
        "problem": state.failure or None,
    }


def _text(found: list[OpenBatch], action: BatchAction) -> str:
    """A table of batches, and what to do next."""
    if not found:
        return "no batches are open"
    header = ["batch", "model", "calls", "done", "provider's name", "provider says"]
    rows = [
        [short(b.id), b.model, b.calls, b.state.done, b.name or "-", b.state.failure or b.state.said]
        for b in found
    ]
    over = sum(one.state.over for one in found)
    return f"{grid(header, rows)}\n\n{_next_step(over, action)}"


def _next_step(over: int, action: BatchAction) -> str:
    """The last line: what to do next."""
    if not over:
        return "none is over yet"
    many = "1 batch" if over == 1 else f"{over:,} batches"
    if action is BatchAction.collect:
        return f"{many} collected; `peira run` goes on with the answers"
    return f"{many} over: `peira batch collect` fetches the answers"
