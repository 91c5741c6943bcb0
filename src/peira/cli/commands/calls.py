"""`peira calls` and `peira resolve`: list model calls, and decide about those in doubt."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

import typer

from peira.app.session import Session
from peira.app.store.calls import (
    DISCARD,
    RESEND,
    ModelCall,
    SettledCalls,
    calls_in_doubt,
    calls_of,
    find_run_or_call,
    record_of,
    settle,
    tally_of,
)
from peira.cli.call_render import added_up, document, table, totals, whole, whole_document
from peira.cli.options import Json, Most, OfModel, Store, Wait
from peira.cli.output import CommandOutput, note
from peira.cli.run_summary import next_command
from peira.core.contracts import CallQuery, CallTotals
from peira.core.ids import short
from peira.core.log.state import Call
from peira.core.text.words import counted
from peira.engine.stages import GENERATE
from peira.errors import Invalid

State = Annotated[
    str,
    typer.Option("--state", metavar="STATE", help="Only these: answered, in_doubt, intended, lost or void."),
]


def calls(
    which: Annotated[
        str,
        typer.Argument(
            metavar="[RUN|CALL]",
            help="A run, by its name or id: the calls it sent; or a call's id: all there is about it.",
        ),
    ] = "",
    model: OfModel = "",
    state: State = "",
    trial: Annotated[
        str,
        typer.Option("--trial", metavar="ID", help="Only calls of this trial, or of this score of one."),
    ] = "",
    limit: Most = 50,
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
    out = CommandOutput(as_json)
    with Session.find(store).reading() as opened:
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
    """A state as it is stored, however its words are joined."""
    return text.replace("-", "_").replace(" ", "_")


def _list(found: list[ModelCall], tally: CallTotals, run: str, out: CommandOutput) -> None:
    """Show a list of calls with their totals."""
    sums = totals(tally)
    out.document({"run": run or None, "calls": [document(call) for call in found], "totals": sums})
    out.text(f"{table(found)}\n\n{added_up(tally)}" if found else "no calls")
    if len(found) < sums["calls"]:
        note(f"there are more: {len(found):,} of {sums['calls']:,} are listed (--limit)")


MOST = 50
"""The number of calls that are listed."""


def resolve(
    calls: Annotated[
        list[str] | None,
        typer.Argument(metavar="[CALL...]", help="The first digits of the calls' keys (see `peira calls`)."),
    ] = None,
    resend: Annotated[bool, typer.Option("--resend", help="The next run may send them again.")] = False,
    discard: Annotated[
        bool, typer.Option("--discard", help="Their answers are bad: the next run asks anew.")
    ] = False,
    everything: Annotated[
        bool, typer.Option("--all", help="All that are in doubt; only with --resend.")
    ] = False,
    model: OfModel = "",
    by: Annotated[str, typer.Option("--by", metavar="NAME", help="Who decides, for the record.")] = "",
    wait: Wait = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Settle calls in doubt, or discard answers that are bad.

    A call is in doubt if it was sent, may have been billed, and its answer is unknown. Without --resend or
    --discard, lists them. Sent again, a call may be billed a second time. A discarded answer stays on record;
    every trial that used it, of whichever study, is done again, with all its other answers replayed.

    \b
    Examples:
      peira resolve
      peira resolve 8d01c4 --resend
      peira resolve --resend --all --model openai:gpt-5-mini
      peira resolve 8d01c4 --discard --by ada
    """
    keys = calls or []
    _check(keys, resend, discard, everything, model)
    out = CommandOutput(as_json)
    if not resend and not discard:
        with Session.find(store).reading() as opened:
            _doubts(calls_in_doubt(opened, model), store, out)
        return
    how = RESEND if resend else DISCARD
    settled = settle(how, keys, model=model, by=by, store=store, wait=None if wait else 0.0)
    further = [next_command("run", run, store) for run in settled.runs]
    documents = [document(call) for call in settled.calls]
    again = [{"task": task.id, "kind": task.kind, "run": task.run} for task in settled.again]
    out.document({"how": how, "by": settled.by, "settled": documents, "again": again, "next": further})
    out.text(_settled_text(settled, further))


def _check(keys: list[str], resend: bool, discard: bool, everything: bool, model: str) -> None:
    """Raise Invalid with everything that does not go together."""
    acts = resend or discard
    problems = {
        "--resend, --discard: choose one of them": resend and discard,
        "CALL: say what to do with them, --resend or --discard": bool(keys) and not acts,
        "--all: say what to do with them, --resend": everything and not acts,
        "--all: answers are discarded by the keys of their calls": everything and discard,
        "--all: leave out the calls, or leave out --all": everything and bool(keys),
        "--model: leave it out, the calls are named": bool(model and keys),
        "--resend: name the calls, or say --all": resend and not keys and not everything,
        "--discard: name the calls": discard and not keys and not everything,
    }
    if any(problems.values()):
        raise Invalid(problem for problem, wrong in problems.items() if wrong)


def _doubts(found: list[ModelCall], store: str | None, out: CommandOutput) -> None:
    """List the calls in doubt, and how to settle them."""
    out.document({"in_doubt": [document(call) for call in found]})
    if not found:
        out.text("no call is in doubt")
        return
    place = ["--store", store] if store else []
    out.text(
        f"{_first(found)}\n\n"
        f"in doubt: {counted(len(found), 'call')}, sent and perhaps billed, with no answer known\n"
        "to let the next run send them again, at the risk of a second bill:\n"
        f"  {shlex.join(['peira', 'resolve', short(found[0].key), '--resend', *place])}\n"
        f"  {shlex.join(['peira', 'resolve', '--resend', '--all', *place])}"
    )


def _settled_text(settled: SettledCalls, further: list[str]) -> str:
    """What was settled, and how to go on."""
    many = counted(len(settled.calls), "call")
    if not settled.calls:
        return "no call is in doubt: there is nothing to send again"
    if settled.how == RESEND:
        what = f"{many} may be sent again by the next run"
    else:
        what = f"{many}: answer void; the next run asks anew, and replays all others{_again(settled)}"
    lines = [_first(settled.calls), "", f"{what} (settled by {settled.by})", "to go on:"]
    return "\n".join([*lines, *(f"  {line}" for line in further)])


def _again(settled: SettledCalls) -> str:
    """The trials and scores that used the answers and are done again."""
    trials = sum(task.kind == GENERATE for task in settled.again)
    scores = len(settled.again) - trials
    words = [counted(n, what) for n, what in ((trials, "trial"), (scores, "score")) if n]
    verb = "is" if len(settled.again) == 1 else "are"
    return f"; {' and '.join(words)} that used it {verb} to be done again" if words else ""


def _first(calls: Sequence[ModelCall]) -> str:
    """A table of the first calls."""
    more = f"\n... and {len(calls) - MOST:,} more" if len(calls) > MOST else ""
    return f"{table(calls[:MOST])}{more}"
