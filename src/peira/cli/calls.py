"""`peira calls`: which models were asked, what that came to; or one call, whole."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.api.calls import ModelCall, calls_of, find_run_or_call, record_of, tally_of
from peira.api.stores import reading
from peira.cli.ledger import added_up, document, table, totals, whole, whole_document
from peira.cli.options import Json, Store
from peira.cli.output import Output, note
from peira.core.contracts import CallQuery, Tally
from peira.core.state import Call
from peira.errors import Invalid
from peira.spec.project import Project

State = Annotated[
    str,
    typer.Option("--state", metavar="STATE", help="Only these: answered, in_doubt, intended, lost or void."),
]


def calls(
    which: Annotated[
        str,
        typer.Argument(
            metavar="[RUN|CALL]",
            help="The first digits of a run's id: the calls it sent; or of a call's: all there is about it.",
        ),
    ] = "",
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="Only calls of this model.")] = "",
    state: State = "",
    trial: Annotated[
        str,
        typer.Option("--trial", metavar="ID", help="Only calls of this trial, or of this score of one."),
    ] = "",
    limit: Annotated[int, typer.Option("--limit", metavar="N", help="List at most so many (50).")] = 50,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List the calls of models, last asked first, and what they cost.

    A call is intended before it is sent, then answered or lost; in doubt if it may have been billed and its
    answer is unknown; void once its answer was discarded. A cost that is not known is unknown, never 0. The
    totals are of all that are asked for, however many are listed.

    \b
    Examples:
      peira calls
      peira calls 3f2a91 --state in_doubt
      peira calls --model openai:gpt-5-mini --limit 200
      peira calls 8d01c4
    """
    out = Output(as_json)
    with reading(store, Project.find()) as opened:
        found = find_run_or_call(opened, which) if which else None
        if not isinstance(found, Call):
            run = found.id if found else ""
            query = CallQuery(run=run, model=model, state=_state(state), task=trial, limit=limit)
            _list(calls_of(opened, query), tally_of(opened, query), run, out)
        elif model or state or trial:
            raise Invalid("CALL: one call is shown whole; leave out --model, --state and --trial")
        else:
            record = record_of(opened, found)
            out.document(whole_document(record))
            out.text(whole(record))


def _state(text: str) -> str:
    """As it is stored, however its words are joined."""
    return text.replace("-", "_").replace(" ", "_")


def _list(found: list[ModelCall], tally: Tally, run: str, out: Output) -> None:
    sums = totals(tally)
    out.document({"run": run or None, "calls": [document(call) for call in found], "totals": sums})
    out.text(f"{table(found)}\n\n{added_up(tally)}" if found else "no calls")
    if len(found) < sums["calls"]:
        note(f"there are more: {len(found):,} of {sums['calls']:,} are listed (--limit)")
