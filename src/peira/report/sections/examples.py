"""Trials that are shown in full: which ones of a large run, and their texts.

A small run is shown completely, in the study's order. Of a large one, failures come first (up to half), then
the cases on which conditions differ most, each under all its conditions; ties are broken by the study's
order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from peira.analysis.results import Results
from peira.analysis.table.measures import Measured
from peira.core.chat.transcript import CallSummary, Transcript, TranscriptNote, tool_line
from peira.core.ids import Json, short
from peira.core.log.events import Failure, State
from peira.core.text.words import counted
from peira.plan.estimate.value import dollars
from peira.report.labels import ConditionLabels, duration_text
from peira.report.value import CallText, TrialExample
from peira.results.trials import FAILED, TrialResult, end_word, is_correct, named

MOST_CALLS = 20
"""The largest number of calls shown per trial."""
MOST_ENTRIES = 200
"""The largest number of entries of a transcript shown per trial."""


def chosen_examples(trials: Sequence[TrialResult], measured: Measured | None, most: int) -> list[TrialResult]:
    """The trials to show in full, at most `most`.

    All trials of a small run. Otherwise failures, up to half of them, then the trials of the cases whose
    values of `measured` differ most.
    """
    if len(trials) <= most:
        return list(trials)
    failed = [trial for trial in trials if trial.state in FAILED][: most // 2]
    picked = {trial.id for trial in failed}
    by_case: dict[str, list[TrialResult]] = {}
    for trial in trials:
        if trial.id not in picked:
            by_case.setdefault(trial.case_id, []).append(trial)
    differ = _differing(measured)
    order = sorted(by_case, key=lambda case: -differ.get(case, -1.0))
    rest = (trial for case in order for trial in by_case[case])
    return [*failed, *(trial for trial, _ in zip(rest, range(most - len(failed)), strict=False))]


def _differing(measured: Measured | None) -> dict[str, float]:
    """The range of each case's values."""
    ends: dict[str, tuple[float, float]] = {}
    for one in measured.observations if measured else ():
        if one.value is not None:
            low, high = ends.get(one.trial.case_id, (one.value, one.value))
            ends[one.trial.case_id] = (min(low, one.value), max(high, one.value))
    return {case: high - low for case, (low, high) in ends.items()}


def trial_example(
    results: Results, picked: Sequence[TrialResult], labels: ConditionLabels, score: str = ""
) -> tuple[TrialExample, ...]:
    """The texts of these trials with their calls; `score` says which of them are right.

    Calls are read from the store in one query, up to `MOST_CALLS` per trial.
    """
    keys = [key for trial in picked for key in trial.calls[:MOST_CALLS]]
    known = results.background
    calls_by_key: Mapping[str, CallSummary] = known.exchanges(keys) if known and keys else {}
    ids = [trial.id for trial in picked]
    transcripts: Mapping[str, Transcript] = known.transcripts(ids) if known and ids else {}
    return tuple(_shown(trial, labels, calls_by_key, transcripts.get(trial.id), score) for trial in picked)


def omitted_examples(results: Results, trials: int, picked: int) -> str:
    """How many trials are not shown, and the command that shows them; empty if all are."""
    if picked >= trials:
        return ""
    run = short(results.run_id)
    return (
        f"{picked:,} of {counted(trials, 'trial')} are shown here: failures first, then the cases on which "
        f"conditions differ most. The other {trials - picked:,}: peira show {run} --trials"
    )


def _shown(
    trial: TrialResult,
    labels: ConditionLabels,
    calls_by_key: Mapping[str, CallSummary],
    transcript: Transcript | None,
    score: str,
) -> TrialExample:
    """The texts of one trial."""
    failures = {score.name: score.failure for score in trial.scores.values() if score.state in FAILED}
    scores = [(name, _text(value)) for score in trial.scores.values() for name, value in named(score).items()]
    scores += [(name, f"failed: {_line(failure)}") for name, failure in failures.items()]
    return TrialExample(
        id=trial.id,
        condition=labels.full(trial),
        levels=labels.short(trial),
        case=trial.case_label,
        repeat=trial.repeat,
        state=trial.state.value,
        verdict=_verdict(trial, score),
        input=_text(trial.input),
        expected="" if trial.expected is None else _text(trial.expected),
        output="" if trial.output is None else _text(trial.output),
        answer=_answer(trial),
        scores=tuple(scores),
        failure=_line(trial.failure) if trial.failure else "",
        trace=trial.failure.trace if trial.failure else "",
        facts=", ".join(_facts(trial)),
        calls=tuple(_call_text(calls_by_key[key]) for key in trial.calls[:MOST_CALLS] if key in calls_by_key),
        transcript=_shortened(transcript),
    )


def _shortened(transcript: Transcript | None) -> Transcript | None:
    """The first entries of a transcript; None if it has none."""
    if transcript is None or not transcript.entries:
        return None
    left = len(transcript.entries) - MOST_ENTRIES
    if left <= 0:
        return transcript
    more = TranscriptNote(f"({left:,} more are not shown: peira show RUN {short(transcript.trial)})")
    return msgspec.structs.replace(transcript, entries=(*transcript.entries[:MOST_ENTRIES], more))


def _verdict(trial: TrialResult, score: str) -> str:
    """Whether a trial is right, as one word; one without such a score is only said to be answered."""
    right = is_correct(trial, score)
    if right is None:
        return "answered" if trial.state is State.succeeded else end_word(trial.state)
    return "correct" if right else "wrong"


def _answer(trial: TrialResult) -> str:
    """The transform's answer, if there is a transform."""
    if trial.found is None or trial.found.state is not State.succeeded:
        return ""
    return f"none: {trial.no_answer}" if trial.no_answer else _text(trial.found.value)


def _facts(trial: TrialResult) -> Iterator[str]:
    """Duration, calls, cost, attempts and reuse, as texts."""
    if trial.took:
        yield duration_text(trial.took)
    if trial.metrics.get("calls"):
        yield counted(int(trial.metrics["calls"]), "call")
        yield "cost unknown" if trial.cost is None else dollars(trial.cost)
    if trial.attempts > 1:
        yield counted(trial.attempts, "attempt")
    if trial.reused:
        yield "made by an earlier run"


def _call_text(one: CallSummary) -> CallText:
    """A call as texts."""
    tokens = [f"{n:,} tokens {way}" for n, way in ((one.input, "in"), (one.output, "out")) if n is not None]
    price = [dollars(one.cost)] if one.cost is not None else []
    said = "\n\n".join(filter(None, [one.said, *(f"calls {tool_line(call)}" for call in one.tool_calls)]))
    return CallText(one.model, ", ".join([one.status, *tokens, *price]), _request_text(one.asked), said)


def _request_text(request: Json) -> str:
    """The messages of a request, as text."""
    if not isinstance(request, Mapping):
        return _text(request)
    lines = [f"system: {request['system']}"] if request.get("system") else []
    for message in request.get("messages", ()):
        of = f" ({message['id']})" if message.get("role") == "tool" and message.get("id") else ""
        lines.append(f"{message.get('role', '?')}{of}: {_text(message.get('content'))}")
        lines += [f"calls {tool_line(call)}" for call in message.get("tool_calls") or ()]
    rest = {k: v for k, v in request.items() if k not in ("system", "messages") and v}
    return "\n\n".join([*lines, *([_text(rest)] if rest else [])])


def _line(failure: Failure | None) -> str:
    """A failure as one line."""
    return "no reason is recorded" if failure is None else f"{failure.type}: {failure.message}"


def _text(value: Json) -> str:
    """A value as text: JSON unless it is one."""
    if isinstance(value, str):
        return value
    return (
        msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
        if isinstance(value, (dict, list))
        else msgspec.json.encode(value).decode()
    )
