"""`peira batch`: what was handed in with `run --batch`, and whether it is answered."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from peira.api.batching import OpenBatch, batches, collect
from peira.cli.options import Json, Store
from peira.cli.output import Output, counted, grid
from peira.core.ids import short


class Action(StrEnum):
    status = "status"
    collect = "collect"


def batch(
    action: Annotated[Action, typer.Argument(help="Look only, or fetch what is answered.")] = Action.status,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say where batches stand, or fetch the answers of those that are over.

    `peira run S --batch` hands calls in and waits for them; stop it whenever you like. `collect` records the
    answers there are, and the next `peira run S` uses them: nothing is asked again.

    \b
    Examples:
      peira batch status
      peira batch collect
    """
    found = collect(store) if action is Action.collect else batches(store)
    out = Output(as_json)
    out.document({"batches": list(map(_document, found))})
    out.text(_text(found, action))


def _document(one: OpenBatch) -> dict[str, Any]:
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
    }


def _text(found: list[OpenBatch], action: Action) -> str:
    if not found:
        return "no batches are open"
    rows = [
        [
            short(b.id),
            b.model,
            counted(b.calls, "call"),
            b.name or "-",
            b.state.said,
            f"{b.state.done}/{b.calls}",
        ]
        for b in found
    ]
    lines = grid(["batch", "model", "holds", "provider's name", "provider says", "done"], rows)
    over = sum(one.state.over for one in found)
    if action is Action.collect:
        return f"{lines}\n\n{counted(over, 'batch')} collected; `peira run` goes on with the answers"
    return f"{lines}\n\n{over} over: `peira batch collect` fetches the answers" if over else lines
