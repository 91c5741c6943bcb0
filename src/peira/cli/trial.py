"""One trial, whole: what it was asked, what came of it, and what it left on the way."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.analysis.export import record
from peira.analysis.trials import TrialResult
from peira.api.trial import TrialRecord
from peira.cli.output import Output, moment
from peira.cli.told import pairs, scored, shown
from peira.core.events import State
from peira.core.ids import short
from peira.engine.log import recorded


def show_trial(found: TrialRecord, out: Output) -> None:
    """Everything there is about a trial."""
    result = found.result
    out.document(
        {
            **record(result, found.run),
            "seed": found.seed,
            "executed_by": found.executed_by or None,
            "events": [recorded(one) for one in found.records],
        }
    )
    out.text("\n".join(_facts(found) + _happenings(found)))


def _facts(found: TrialRecord) -> list[str]:
    one = found.result
    reused = f", reused from run {short(found.executed_by)}" if one.reused and found.executed_by else ""
    facts = {
        "trial": one.id,
        "run": f"{short(found.run)}{reused}",
        "state": one.state.value,
        "agent": one.agent,
        "condition": pairs(one.condition),
        "case": f"{one.case_id}, repeat {one.repeat}, seed {found.seed}",
        "input": shown(one.input),
        "expected": "" if one.expected is None else shown(one.expected),
        "output": shown(one.output) if one.state is State.succeeded else "",
        "answer": _answer(one),
        "scores": scored(one) if one.scores else "",
        "metrics": pairs(one.metrics) if one.metrics else "",
        "about": pairs(one.about) if one.about else "",
        "took": f"{one.took:.3f} s in attempt {one.attempts}" if one.attempts else "",
        "failure": f"{one.failure.type}: {one.failure.message}" if one.failure else "",
    }
    lines = [f"{name:<11}{_indented(fact)}" for name, fact in facts.items() if fact]
    return lines + ([f"\n{one.failure.trace.rstrip()}"] if one.failure and one.failure.trace else [])


def _answer(one: TrialResult) -> str:
    """What the transform found; nothing, if the study has none."""
    if one.found is None or one.found.state is not State.succeeded:
        return "" if one.found is None else one.found.state.value
    return f"none ({one.no_answer})" if one.no_answer else shown(one.answer)


def _indented(text: str) -> str:
    return text.replace("\n", "\n" + " " * 11)


def _happenings(found: TrialRecord) -> list[str]:
    """Steps, observations, attachments and earlier attempts, each with its time."""
    lines: list[str] = []
    for title, rows in (
        ("steps", [[moment(r.at), r.event.name, _body(r.event.value, r.event.blob)] for r in found.steps]),  # type: ignore[union-attr]
        ("observations", [[moment(r.at), r.event.name, _body(r.event.data)] for r in found.observations]),  # type: ignore[union-attr]
        ("attachments", [[a.name, f"{a.size:,} bytes", a.media, a.digest] for a in found.result.artifacts]),
        ("attempts", [[moment(r.at), *_attempt(r.event)] for r in found.attempts]),
    ):
        if rows:
            lines += ["", title, *(f"  {'  '.join(filter(None, row))}" for row in rows)]
    return lines


def _body(value: msgspec.Raw, blob: str = "") -> str:
    return f"(blob {short(blob)})" if blob else bytes(value).decode()


def _attempt(event: Any) -> list[str]:
    failure = event.result.failure
    state = getattr(event, "state", "failed, tried again")
    return [f"attempt {event.epoch}: {state}", f"{failure.type}: {failure.message}" if failure else ""]
