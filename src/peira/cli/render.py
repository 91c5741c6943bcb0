"""Runs, events and trials as text for people, and as plain values with stable keys for programs."""

from __future__ import annotations

import shlex
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

import peira.analysis as analysis
from peira.app.store.runs import UNDER_WAY, readable_counts
from peira.cli.output import fitted, moment, program
from peira.cli.run_summary import limits_in, money, next_command, tally
from peira.core.clock import stamp
from peira.core.ids import canonical, short
from peira.core.log.events import Record, State, Status
from peira.core.log.state import Run
from peira.core.registry import nearest
from peira.core.text.words import lasting
from peira.engine.run_log import event_values
from peira.errors import Invalid
from peira.report.progress import describe

if TYPE_CHECKING:
    from peira.app.store.follower import Follower
    from peira.app.store.spending import RunAccount
    from peira.results.trials import Score, TrialResult


def status_of(text: str) -> str:
    """The value of a status, given by its value or by its short name; Invalid if unknown."""
    known = {status.name: status.value for status in Status}
    if text and text not in known and text not in known.values():
        raise Invalid(f"status: {text!r} is not known{nearest(text, known)}")
    return known.get(text, text)


def run_document(run: Run) -> dict[str, Any]:
    """A run as plain values."""
    return {
        "run": run.id,
        "name": run.name or None,
        "study": run.study,
        "status": run.status.value,
        "reason": run.reason,
        "trials": run.trials,
        "counts": readable_counts(run.counts),
        "tags": list(run.tags),
        "planned": _stamp(run.planned),
        "started": _stamp(run.started),
        "finished": _stamp(run.finished),
        "resumes": run.resumes or None,
        "manifest": run.manifest,
        "evaluation": run.evaluation or None,
        "look": msgspec.to_builtins(run.look),
    }


def _stamp(at: float) -> str | None:
    return stamp(at) if at else None


def status_document(follower: Follower) -> dict[str, Any]:
    """The progress of a run as plain values; `left` is seconds to go, null once it is over."""
    progress = follower.look()
    names = ("total", "done", "reused", "failed", "exhausted", "cancelled", "running", "elapsed", "rate")
    left = None if follower.over else progress.left
    return {**{name: getattr(progress, name) for name in names}, "left": left}


def status_text(follower: Follower, size: int, account: RunAccount, store: str | None) -> str:
    """The status of a run, one fact per line."""
    progress, run = follower.look(), follower.run
    why = f" ({run.reason})" if run.reason and run.reason != run.status else ""
    facts = {
        "run": f"{short(run.id)} ({run.name})" if run.name else short(run.id),
        "study": run.study,
        "status": f"{run.status}{why}",
        "trials": tally(readable_counts(run.counts or follower.counts()))
        if follower.over
        else describe(progress),
        "rule": str(run.look) if run.look else "",
        "begun": moment(run.planned),
        "took": lasting(progress.elapsed) if run.started else "-",
        "money": money(account),
        "tags": ", ".join(run.tags),
        "kept": f"{size:,} bytes",
        "next": _next(run, store),
    }
    return "\n".join(f"{name:<8}{fact}" for name, fact in facts.items() if fact)


def _next(run: Run, store: str | None) -> str:
    """The command to type next, by the run's status."""
    if "work" in run.tags:
        where = f" --store {shlex.quote(store)}" if store else ""
        return f"{program()} work show --run {short(run.id)}{where}"
    if run.status in UNDER_WAY:
        return next_command("watch", run.id, store)
    if run.status is Status.frozen:
        return next_command("run", run.id, store)
    if run.status is Status.waiting:
        where = f" --store {shlex.quote(store)}" if store else ""
        return f"{program()} inbox{where}, then {next_command('run', run.id, store)}"
    if run.status is Status.stopped and (limits := limits_in(run.reason)):
        return f"raise {limits} in the study, then run it again (it goes on where it stopped)"
    if run.status in (Status.interrupted, Status.stopped, Status.cancelled):
        return f"{next_command('run', run.id, store)}  (goes on where it stopped)"
    return next_command("show", run.id, store) + (" --failures" if run.status is Status.failures else "")


def event_line(record: Record) -> str:
    """An event on one line."""
    body = event_values(record)
    seq, at, kind = body.pop("seq"), body.pop("at"), body.pop("kind")
    facts = " ".join(f"{name}={_fact(name, value)}" for name, value in body.items())
    return fitted(f"{seq:>6}  {at[11:23]}  {kind:<17}  {facts}")


def _fact(name: str, value: Any) -> str:
    """A field of an event as text; ids are shortened."""
    if name == "tasks":
        ids = [task if isinstance(task, str) else task["id"] for task in value]
        return ",".join(map(short, ids[:3])) + (f" and {len(ids) - 3} more" if len(ids) > 3 else "")
    if isinstance(value, str):
        return short(value) if len(value) == 64 else value
    return msgspec.json.encode(value).decode()


def pairs(facts: Mapping[str, Any]) -> str:
    """Facts as name=value pairs."""
    return " ".join(f"{name}={shown(value)}" for name, value in facts.items()) or "-"


def shown(value: Any) -> str:
    """Text as it is, any other value as JSON."""
    return value if isinstance(value, str) else canonical(value).decode()


def scored(trial: TrialResult) -> str:
    """The scores of a trial, or its state if it has none."""
    if trial.state is not State.succeeded:
        return trial.state.value
    return " ".join(map(_score, trial.scores.values())) or "-"


def _score(score: Score) -> str:
    """A score as text, or why there is none."""
    if score.no_verdict:
        return f"{score.name}: {score.no_verdict}"
    if score.state is not State.succeeded:
        return f"{score.name}: {score.state}"
    return pairs(analysis.trials.named(score))
