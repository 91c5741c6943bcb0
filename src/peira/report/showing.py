"""Which trials are shown whole, and how: of a large run, those that teach most.

All of a run that is small enough, in the study's order. Else failures (up to half of what is shown), then the
cases on which conditions differ most, each under all its conditions; ties go by the study's order.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from peira.analysis.background import Exchange
from peira.analysis.measures import Measured
from peira.analysis.results import Results
from peira.analysis.trials import FAILED, TrialResult, named
from peira.core.events import Failure, State
from peira.core.ids import Json, short
from peira.core.words import counted
from peira.plan.amounts import dollars
from peira.report.labels import Labels
from peira.report.numbers import took_for
from peira.report.value import Said, Shown

MOST_CALLS = 20


def chosen(trials: Sequence[TrialResult], measured: Measured | None, most: int) -> list[TrialResult]:
    """At most so many of the trials."""
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
    """How far the values of each case lie apart."""
    ends: dict[str, tuple[float, float]] = {}
    for one in measured.observations if measured else ():
        if one.value is not None:
            low, high = ends.get(one.trial.case_id, (one.value, one.value))
            ends[one.trial.case_id] = (min(low, one.value), max(high, one.value))
    return {case: high - low for case, (low, high) in ends.items()}


def shown(results: Results, picked: Sequence[TrialResult], labels: Labels) -> tuple[Shown, ...]:
    keys = [key for trial in picked for key in trial.calls[:MOST_CALLS]]
    known = results.background
    said: Mapping[str, Exchange] = known.exchanges(keys) if known and keys else {}
    return tuple(_shown(trial, labels, said) for trial in picked)


def not_shown(results: Results, trials: int, picked: int) -> str:
    """How many are not shown, and what shows them."""
    if picked >= trials:
        return ""
    run = short(results.run_id)
    return (
        f"{picked:,} of {counted(trials, 'trial')} are shown here: failures first, then the cases on which "
        f"conditions differ most. The other {trials - picked:,}: peira show {run} --trials"
    )


def _shown(trial: TrialResult, labels: Labels, said: Mapping[str, Exchange]) -> Shown:
    failures = {score.name: score.failure for score in trial.scores.values() if score.state in FAILED}
    scores = [(name, _text(value)) for score in trial.scores.values() for name, value in named(score).items()]
    scores += [(name, f"failed: {_line(failure)}") for name, failure in failures.items()]
    return Shown(
        id=trial.id,
        condition=labels.full(trial),
        levels=labels.short(trial),
        case=trial.case_id,
        repeat=trial.repeat,
        state=trial.state.value,
        input=_text(trial.input),
        expected="" if trial.expected is None else _text(trial.expected),
        output="" if trial.output is None else _text(trial.output),
        answer=_answer(trial),
        scores=tuple(scores),
        failure=_line(trial.failure) if trial.failure else "",
        trace=trial.failure.trace if trial.failure else "",
        facts=", ".join(_facts(trial)),
        calls=tuple(_said(said[key]) for key in trial.calls[:MOST_CALLS] if key in said),
    )


def _answer(trial: TrialResult) -> str:
    """What the transform found, where there is one."""
    if trial.found is None or trial.found.state is not State.succeeded:
        return ""
    return f"none: {trial.no_answer}" if trial.no_answer else _text(trial.found.value)


def _facts(trial: TrialResult) -> Iterator[str]:
    if trial.took:
        yield took_for(trial.took)
    if trial.metrics.get("calls"):
        yield counted(int(trial.metrics["calls"]), "call")
        yield "cost unknown" if trial.cost is None else dollars(trial.cost)
    if trial.attempts > 1:
        yield counted(trial.attempts, "attempt")
    if trial.reused:
        yield "made by an earlier run"


def _said(one: Exchange) -> Said:
    tokens = [f"{n:,} tokens {way}" for n, way in ((one.input, "in"), (one.output, "out")) if n is not None]
    price = [dollars(one.cost)] if one.cost is not None else []
    return Said(one.model, ", ".join([one.status, *tokens, *price]), _asked(one.asked), one.said)


def _asked(request: Json) -> str:
    """The messages of a request as people read them."""
    if not isinstance(request, Mapping):
        return _text(request)
    lines = [f"system: {request['system']}"] if request.get("system") else []
    for message in request.get("messages", ()):
        lines.append(f"{message.get('role', '?')}: {_text(message.get('content'))}")
    rest = {k: v for k, v in request.items() if k not in ("system", "messages") and v}
    return "\n\n".join([*lines, *([_text(rest)] if rest else [])])


def _line(failure: Failure | None) -> str:
    return "no reason is recorded" if failure is None else f"{failure.type}: {failure.message}"


def _text(value: Json) -> str:
    if isinstance(value, str):
        return value
    return (
        msgspec.json.format(msgspec.json.encode(value), indent=1).decode()
        if isinstance(value, (dict, list))
        else msgspec.json.encode(value).decode()
    )
