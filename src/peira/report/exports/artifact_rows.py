"""The rows of an artifact folder: trials, events, scores and conditions in its terms."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from peira.analysis.results import Results
from peira.core.ids import Json, digest, short
from peira.core.log.events import State
from peira.results.aims import Aims
from peira.results.background import StoredRun
from peira.results.history import TrialHistory
from peira.results.rows import text
from peira.results.trials import FAILED, TrialResult, end_word
from peira.results.trials import named as parts

CONDITION = ("study_id", "condition_id", "admissible", "constraint_messages", "assignment_meta_json")
RUN = (
    "study_id",
    "condition_id",
    "run_id",
    "problem_id",
    "problem_family",
    "agent_id",
    "agent_kind",
    "pattern_name",
    "model_name",
    "seed",
    "replicate",
    "status",
    "start_time",
    "end_time",
    "latency_s",
    "input_tokens",
    "output_tokens",
    "cost_usd",
    "primary_outcome",
    "trace_path",
    "manifest_path",
    "error_info",
)
EVENT = (
    "timestamp",
    "record_id",
    "text",
    "session_id",
    "actor_id",
    "event_type",
    "meta_json",
    "level",
    "study_id",
    "run_id",
    "condition_id",
    "trial_id",
    "step_id",
    "tool_name",
    "evaluation_id",
)
EVALUATION = (
    "run_id",
    "evaluator_id",
    "metric_name",
    "metric_value",
    "metric_unit",
    "aggregation_level",
    "notes_json",
)
RESERVED = {*CONDITION, *RUN, *EVENT, *EVALUATION}
"""Column names that a factor cannot have: readers join the tables, and one column would hide the other."""
COUNTED = ("calls", "input_tokens", "output_tokens", "cost", "spent")
"""Metrics that have columns of their own."""


class ArtifactNames:
    """Facts about the study, and the conditions collected from its trials."""

    def __init__(self, results: Results, origin: StoredRun) -> None:
        snapshot = origin.manifest.snapshot if isinstance(origin.manifest.snapshot, dict) else {}
        self.study = results.study
        self.blocks: tuple[str, ...] = tuple(snapshot.get("blocks") or ())
        self.conditions: dict[str, dict[str, Json]] = {}
        aims = results.aims or Aims()
        self.units = {aims.measure_of(one.name): one.unit for one in aims.outcomes}
        self.primary = aims.measure_of("")
        for refused in origin.manifest.refused:
            self.condition(refused.agent, refused.shown, refused.reasons)

    @property
    def columns(self) -> dict[str, str]:
        """The column of each factor of the conditions that were registered."""
        factors = dict.fromkeys(name for one in self.conditions.values() for name in one["shown"])
        return _columns(list(factors), self.blocks)

    def condition(self, agent: str, shown: Mapping[str, Json], reasons: Sequence[str] | None = None) -> str:
        """Register a condition and return its id; one with reasons is inadmissible."""
        factors = {"agent": agent, **shown}
        id = short(digest({"agent": agent, "factors": dict(shown)}))
        self.conditions.setdefault(id, {"factors": factors, "shown": dict(shown), "reasons": reasons})
        return id


def conditions(named: ArtifactNames) -> tuple[list[str], Iterator[dict[str, Json]]]:
    """The columns and rows of conditions.csv: those of trials first, then inadmissible ones."""
    found = named.conditions
    columns = named.columns
    ordered = sorted(found, key=lambda id: found[id]["reasons"] is not None)

    def rows() -> Iterator[dict[str, Json]]:
        for id in ordered:
            yield _condition(named.study, id, found[id], columns)

    return [*CONDITION, *columns.values()], rows()


def _columns(factors: Sequence[str], blocks: Sequence[str]) -> dict[str, str]:
    """A unique column name for each factor."""
    taken, columns = {*RESERVED}, {}
    for factor in sorted(factors, key=lambda name: name in blocks):
        column = f"block_{factor}" if factor in blocks else factor or "factor_"
        while column in taken:
            column = f"factor_{column}"
        taken.add(column)
        columns[factor] = column
    return columns


def _condition(study: str, id: str, found: Mapping[str, Any], columns: Mapping[str, str]) -> dict[str, Json]:
    """A row of conditions.csv."""
    reasons, shown = found["reasons"], found["shown"]
    moved = {factor: column for factor, column in columns.items() if factor != column and factor in shown}
    about = {"factors": found["factors"], **({"columns": moved} if moved else {})}
    return {
        "study_id": study,
        "condition_id": id,
        "admissible": reasons is None,
        "constraint_messages": text(list(reasons or ())),
        "assignment_meta_json": text(about),
        **{columns[factor]: value for factor, value in shown.items()},
    }


def run(trial: TrialResult, named: ArtifactNames, condition: str) -> dict[str, Json]:
    """A row of runs.csv; `condition` is the id from `ArtifactNames.condition`.

    What the agent said of itself with `describe` fills the columns of its kind, pattern, model and trace.
    """
    about = trial.about
    model = about.get("served") or described(about, "model_name", "model") or trial.condition.get("model")
    return {
        "study_id": named.study,
        "condition_id": condition,
        "run_id": trial.id,
        "problem_id": trial.case_id,
        "problem_family": trial.slice if trial.slice is not None else trial.cluster,
        "agent_id": trial.agent,
        "agent_kind": described(about, "agent_kind", "kind") or "agent",
        "pattern_name": described(about, "pattern_name", "pattern"),
        "trace_path": described(about, "trace_path", "trace"),
        "model_name": model if isinstance(model, str) else None,
        "seed": trial.seed,
        "replicate": trial.repeat + 1,
        "status": _status(trial.state),
        "start_time": moment(trial.started),
        "end_time": moment(trial.ended),
        "latency_s": trial.took,
        "input_tokens": _tokens(trial, "input_tokens"),
        "output_tokens": _tokens(trial, "output_tokens"),
        "cost_usd": trial.cost,
        "primary_outcome": _primary(trial, named.primary),
        "manifest_path": "manifest.json",
        "error_info": _error(trial),
    }


def described(about: Mapping[str, str], *names: str) -> str | None:
    """The first of these that an agent said of itself; None if it said none."""
    return next((about[name] for name in names if about.get(name)), None)


def _tokens(trial: TrialResult, name: str) -> Json:
    """A number of tokens; None if it is unknown, as of an imported output."""
    known = trial.metrics.get(name, None if trial.imported else 0)
    return None if known is None else _whole(known)


def _whole(number: float) -> Json:
    """An integral number as an integer."""
    return int(number) if number == int(number) else number


def _status(state: State) -> str:
    """The status of a trial in the terms of the format.

    It has one word, skipped, for what did not fail and was stopped; `error_info` says how it ended.
    """
    if state in (State.succeeded, State.failed):
        return "success" if state is State.succeeded else "failed"
    return "skipped" if state in FAILED else "pending" if state is State.queued else "running"


def _error(trial: TrialResult) -> str | None:
    """Why a trial has no output: the failure, or how else it ended and why; None if it has one."""
    if trial.state not in FAILED:
        return None
    why = f"{trial.failure.type}: {trial.failure.message}" if trial.failure else ""
    return (
        why if why and trial.state is State.failed else ": ".join(filter(None, (end_word(trial.state), why)))
    )


def _primary(trial: TrialResult, name: str | None) -> Json:
    """The declared primary outcome, or else the only numeric score."""
    values = {part: value for _, part, value in _values(trial) if not isinstance(value, str)}
    values |= {} if name in values or name is None else {name: trial.metrics.get(name)}
    found = (
        values.get(name) if name is not None else next(iter(values.values())) if len(values) == 1 else None
    )
    return float(found) if isinstance(found, bool) else found


def _values(trial: TrialResult) -> Iterator[tuple[str, str, Json]]:
    """Evaluator, name and value of each part of each score."""
    for score in trial.scores.values():
        yield from ((score.name, part, value) for part, value in parts(score).items())


def evaluations(trial: TrialResult, named: ArtifactNames) -> Iterator[dict[str, Json]]:
    """The rows of evaluations.csv: scores, failures and metrics; texts are put into the notes."""
    taken = set()
    for evaluator, name, value in _values(trial):
        taken.add(name)
        note = {"text": value} if isinstance(value, str) else {}
        yield _evaluation(trial, named, evaluator, name, None if note else float(value), note)
    for score in trial.scores.values():
        if score.state in FAILED:
            why = f"{score.failure.type}: {score.failure.message}" if score.failure else str(score.state)
            yield _evaluation(trial, named, score.name, score.name, None, {"failure": why})
    for name, value in trial.metrics.items():
        if name not in COUNTED:
            name = name if name not in taken else f"reported.{name}"
            yield _evaluation(trial, named, "reported", name, value, {})


def _evaluation(
    trial: TrialResult,
    of: ArtifactNames,
    evaluator: str,
    name: str,
    value: float | None,
    notes: Mapping[str, Json],
) -> dict[str, Json]:
    """A row of evaluations.csv."""
    return {
        "run_id": trial.id,
        "evaluator_id": evaluator,
        "metric_name": name,
        "metric_value": value,
        "metric_unit": of.units.get(name) or None,
        "aggregation_level": "run",
        "notes_json": text(dict(notes)),
    }


def events(trial: TrialResult, named: ArtifactNames, condition: str) -> Iterator[dict[str, Json]]:
    """The rows of events.csv: input, what the agent logged, and output or error.

    None for a trial that has not ended. An unknown start is taken as the end minus the duration. The format
    wants a time for each event: of an imported output that is the time of the import.
    """
    history = trial.recorded or TrialHistory()
    began, ended = history.started, history.ended
    if ended is None or (trial.state not in FAILED and trial.state is not State.succeeded):
        return
    start = ended - (trial.took or 0.0) if began is None or began > ended else began
    common = {
        "session_id": trial.id,
        "meta_json": text({"attempts": trial.attempts, "reused": trial.reused, "calls": len(trial.calls)}),
        "level": "run",
        "study_id": named.study,
        "run_id": trial.id,
        "condition_id": condition,
        "trial_id": trial.id,
    }
    yield common | _event(trial.id, start, "input", "case", trial.input)
    for number, one in enumerate(history.observations):
        data: dict[str, Json] = one.data if isinstance(one.data, dict) else {}
        yield (
            common
            | _event(trial.id, one.at, one.name, str(data.get("actor") or trial.agent), one.data)
            | {
                "record_id": f"{trial.id}-observation-{number}",
                "text": str(data["text"]) if isinstance(data.get("text"), str) else text(one.data) or "",
                "meta_json": text({"attempt": one.attempt, "data": one.data}),
                "level": "step",
                "step_id": str(number),
                "tool_name": data.get("tool") if isinstance(data.get("tool"), str) else None,
            }
        )
    if trial.state in FAILED:
        yield common | _event(trial.id, ended, "error", trial.agent, _error(trial))
    else:
        yield common | _event(trial.id, ended, "assistant_output", trial.agent, trial.output)


def _event(trial: str, at: float, kind: str, actor: str, content: Json) -> dict[str, Json]:
    """The columns of an event that differ between the events of a trial."""
    return {
        "timestamp": moment(at),
        "record_id": f"{trial}-{kind}",
        "text": text(content) or "",
        "actor_id": actor,
        "event_type": kind,
    }


def moment(at: float | None) -> str | None:
    """A time as ISO 8601 text."""
    return None if at is None else datetime.fromtimestamp(at, UTC).isoformat(timespec="microseconds")
