"""`peira resolve`: what is in doubt, and deciding about it."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from typing import Annotated

import typer

from peira.api.calls import ModelCall
from peira.api.resolving import DISCARD, RESEND, Settled, doubtful, settle
from peira.api.stores import reading
from peira.cli.ledger import document, table
from peira.cli.next import command
from peira.cli.options import Json, Store, Wait
from peira.cli.output import Output
from peira.core.ids import short
from peira.core.words import counted
from peira.engine.work import GENERATE
from peira.errors import Invalid
from peira.spec.project import Project

MOST = 50


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
    model: Annotated[str, typer.Option("--model", metavar="MODEL", help="Only calls of this model.")] = "",
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
    out = Output(as_json)
    if not resend and not discard:
        with reading(store, Project.find()) as opened:
            _doubts(doubtful(opened, model), store, out)
        return
    how = RESEND if resend else DISCARD
    settled = settle(how, keys, model=model, by=by, store=store, wait=None if wait else 0.0)
    further = [command("run", run, store) for run in settled.runs]
    said = [document(call) for call in settled.calls]
    again = [{"task": task.id, "kind": task.kind, "run": task.run} for task in settled.again]
    out.document({"how": how, "by": settled.by, "settled": said, "again": again, "next": further})
    out.text(_told(settled, further))


def _check(keys: list[str], resend: bool, discard: bool, everything: bool, model: str) -> None:
    """Invalid says everything that does not go together."""
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


def _doubts(found: list[ModelCall], store: str | None, out: Output) -> None:
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


def _told(settled: Settled, further: list[str]) -> str:
    many = counted(len(settled.calls), "call")
    if not settled.calls:
        return "no call is in doubt: there is nothing to send again"
    if settled.how == RESEND:
        what = f"{many} may be sent again by the next run"
    else:
        what = f"{many}: answer void; the next run asks anew, and replays all others{_again(settled)}"
    lines = [_first(settled.calls), "", f"{what} (settled by {settled.by})", "to go on:"]
    return "\n".join([*lines, *(f"  {line}" for line in further)])


def _again(settled: Settled) -> str:
    """What used the answers, and is done again."""
    trials = sum(task.kind == GENERATE for task in settled.again)
    scores = len(settled.again) - trials
    words = [counted(n, what) for n, what in ((trials, "trial"), (scores, "score")) if n]
    verb = "is" if len(settled.again) == 1 else "are"
    return f"; {' and '.join(words)} that used it {verb} to be done again" if words else ""


def _first(calls: Sequence[ModelCall]) -> str:
    more = f"\n... and {len(calls) - MOST:,} more" if len(calls) > MOST else ""
    return f"{table(calls[:MOST])}{more}"
