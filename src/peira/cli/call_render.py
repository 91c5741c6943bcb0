"""Model calls as text for people, and as plain values with stable keys for programs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from peira.app.store.calls import CallRecord, ModelCall
from peira.cli.output import encoded, grid
from peira.cli.render import event_line
from peira.core.contracts import CallTotals
from peira.core.ids import Json, short
from peira.core.models import Answer
from peira.core.text.secrets import hidden_in
from peira.core.text.words import counted
from peira.engine.run_log import event_values
from peira.engine.stages import GENERATE
from peira.plan.estimate.value import dollars

COUNTED = {
    "answered": "answered",
    "in_doubt": "in doubt",
    "intended": "sent without an answer yet",
    "lost": "without an answer",
    "void": "discarded",
}
"""How totals name the states of calls."""


def document(call: ModelCall) -> dict[str, Any]:
    """A call as plain values; what is not known is null."""
    return {
        "key": call.key,
        "model": call.model,
        "served": call.served or None,
        "state": call.state,
        "status": call.status,
        "input": call.input,
        "output": call.output,
        "cost": call.cost,
        "sends": call.sends,
        "resends": call.resends,
        "run": call.run,
        "trial": call.task if call.stage == GENERATE else None,
        "task": call.task,
        "stage": call.stage,
        "why": call.why or None,
    }


def totals(tally: CallTotals) -> dict[str, Any]:
    """Totals of calls as plain values."""
    return {
        "calls": sum(tally.states.values()),
        **{state: tally.states.get(state, 0) for state in COUNTED},
        "input": tally.input,
        "output": tally.output,
        "cost": tally.cost,
        "unpriced": tally.unpriced,
    }


def added_up(tally: CallTotals) -> str:
    """Totals of calls in two lines; calls with an unknown cost are counted separately."""
    states = [f"{tally.states[state]:,} {words}" for state, words in COUNTED.items() if state in tally.states]
    answers = tally.states.get("answered", 0) + tally.states.get("void", 0)
    money = [dollars(tally.cost)] if answers > tally.unpriced or not answers else []
    unknown = [f"unknown for {tally.unpriced:,}"] if tally.unpriced else []
    return (
        f"{counted(sum(tally.states.values()), 'call')}: {', '.join(states)}\n"
        f"tokens: {tally.input:,} in, {tally.output:,} out; cost: {', '.join(money + unknown)}"
    )


def table(calls: Sequence[ModelCall]) -> str:
    """A table of calls."""
    header = ["call", "model", "status", "in", "out", "cost", "sends", "where", "why"]
    return grid(header, [_row(call) for call in calls])


def _row(call: ModelCall) -> list[Json]:
    """A call as a row of the table."""
    return [
        short(call.key),
        _model(call),
        call.status,
        call.input,
        call.output,
        _cost(call),
        call.sends,
        _where(call),
        call.why,
    ]


def _model(call: ModelCall) -> str:
    return f"{call.model} (served by {call.served})" if call.served else call.model


def _cost(call: ModelCall) -> str:
    return "unknown" if call.cost is None else dollars(call.cost)


def _where(call: ModelCall) -> str:
    """The trial or score that asked the call, and its stage."""
    return f"{'trial' if call.stage == GENERATE else 'score'} {short(call.task)}, {call.stage}"


def whole_document(found: CallRecord) -> dict[str, Any]:
    """Everything about a call, as plain values."""
    events = [{"run": record.run, **event_values(record)} for record in found.records]
    answer = _received(found.answer) if found.answer else None
    return {**document(found.call), "request": found.request, "answer": answer, "events": events}


def whole(found: CallRecord) -> str:
    """Everything about a call, as text."""
    call = found.call
    resends = f", {counted(call.resends, 'resend')}" if call.resends else ""
    facts = {
        "call": call.key,
        "model": _model(call),
        "status": f"{call.status} ({call.why})" if call.why else call.status,
        "where": f"{_where(call)}, in run {short(call.run)}",
        "sends": f"{call.sends}{resends}",
        "tokens": f"{_count(call.input)} in, {_count(call.output)} out",
        "cost": _cost(call),
        "took": f"{found.answer.latency:.3f} s" if found.answer else "",
    }
    lines = [f"{name:<8}{fact}" for name, fact in facts.items() if fact]
    lines += ["", "request", encoded(found.request)]
    if found.answer:
        lines += ["", "answer", encoded(_received(found.answer))]
    for run in dict.fromkeys(record.run for record in found.records):
        lines += ["", f"events in run {short(run)}"]
        lines += [event_line(record) for record in found.records if record.run == run]
    return "\n".join(lines)


def _count(tokens: int | None) -> str:
    return "unknown" if tokens is None else f"{tokens:,}"


def _received(answer: Answer) -> dict[str, Json]:
    """A raw answer as plain values; its body as JSON if it is, otherwise as text."""
    body: Json
    shown = hidden_in(answer.body, answer.exposed)
    try:
        body = msgspec.json.decode(shown)
    except (msgspec.DecodeError, ValueError, RecursionError):
        body = shown.decode("utf-8", "backslashreplace")
    return {
        "status": answer.status,
        "latency": answer.latency,
        "first_token": answer.first_token,
        "headers": dict(answer.headers),
        "body": body,
        **({"exposed": "a key that was sent is in this answer, and is not shown"} if answer.exposed else {}),
    }
