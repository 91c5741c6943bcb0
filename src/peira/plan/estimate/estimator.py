"""Estimates calls, tokens, cost and time of a run, each with a low and a high end.

Amounts come from explicit assumptions, else from earlier runs of the study, else from the lengths of the
prompts. Recorded work costs nothing; an unknown amount is None, and `unknown` says why.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

import msgspec

from peira.core.ids import Json, canonical
from peira.core.models import NamedModel
from peira.core.text.words import lasting
from peira.plan.estimate.experience import EVALUATE, GENERATE, PastUsage, PastWork, batch_price_note
from peira.plan.estimate.needs import CHARACTERS, OUTPUT, Assumptions, Need, as_assumed, as_before, no_calls
from peira.plan.estimate.value import FEW, NOTHING, EstimatePart, Range, RunEstimate, predicted, total
from peira.plan.estimate.workload import Workload
from peira.plan.expansion import Plan
from peira.plan.trials import Condition, PlannedCase


class Load(NamedTuple):
    """Work of one kind, and the models it is known to call."""

    stage: str
    """"generate" or "evaluate"."""
    need: Need
    """What the work needs in total."""
    models: Sequence[NamedModel]
    """The models it is known to call."""


def wall_time(loads: Sequence[Load], parallel: int, overhead: float = 0.0) -> Range | None:
    """The time from start to end with `parallel` pieces at once.

    Stages overlap: at best the longest stage determines the time, at worst the stages run one after another.
    `overhead` is the serial time of each piece. None if unknown.
    """
    stages: dict[str, list[Need]] = defaultdict(list)
    for load in loads:
        stages[load.stage].append(load.need)
    times = [_stage_time(needs, parallel) for needs in stages.values()]
    together = total(times)
    if together is None:
        return None
    longest = _longest(time for time in times if time)
    least = Range.of(overhead * sum(load.need.pieces for load in loads))
    return _longest([Range(longest.low, longest.expected, together.high), least, *_floors(loads, parallel)])


def _stage_time(needs: Sequence[Need], parallel: int) -> Range | None:
    """The time of one stage with `parallel` pieces at once."""
    seconds, pieces = total(need.seconds for need in needs), sum(need.pieces for need in needs)
    return seconds and seconds.times(1 / min(parallel, max(1.0, pieces)))


def _floors(loads: Iterable[Load], parallel: int) -> list[Range]:
    """For each model, the minimum time of its calls under its rate limits."""
    shares: dict[str, list[tuple[Need, float]]] = defaultdict(list)
    known = {model.name: model for load in loads for model in load.models}
    for load in loads:
        for model in load.models:
            shares[model.name].append((load.need, 1 / len(load.models)))
    return [_floor(known[name], needs, parallel) for name, needs in shares.items()]


def _floor(model: NamedModel, shares: Iterable[tuple[Need, float]], parallel: int) -> Range:
    """The minimum time of the calls of one model under its limits."""
    calls = tokens = seconds = NOTHING
    for need, share in shares:
        calls = calls + (need.calls or NOTHING).times(share)
        tokens = tokens + ((need.input or NOTHING) + (need.output or NOTHING)).times(share)
        seconds = seconds + (need.seconds or NOTHING).times(share)
    limits, floors = model.limits, [NOTHING]
    if limits.requests:
        floors.append(calls.times(60 / limits.requests))
    if limits.tokens:
        floors.append(tokens.times(60 / limits.tokens))
    if limits.concurrency:
        floors.append(seconds.times(1 / min(limits.concurrency, parallel)))
    return _longest(floors)


def _longest(times: Iterable[Range]) -> Range:
    """The maximum of the ranges at each end."""
    longest = NOTHING
    for time in times:
        longest = longest.or_more(time)
    return longest


# Loads


MEASURED = 200
"""Approximate number of cases of a set whose length is measured."""


class KnownModels(msgspec.Struct, frozen=True):
    """The models known to be called, by condition key and by evaluator digest.

    `batch` tells whether calls are sent in batches.
    """

    conditions: Mapping[str, Sequence[NamedModel]]
    """Models by condition key (see `key_of`)."""
    evaluators: Mapping[str, Sequence[NamedModel]]
    """Models by evaluator digest."""
    batch: bool = False

    def __bool__(self) -> bool:
        return any(self.conditions.values()) or any(self.evaluators.values())


def trial_loads(
    plan: Plan, work: Workload, known: PastUsage, known_models: KnownModels, stated: Assumptions
) -> list[Load]:
    """The trials to generate, grouped by condition if enough history is known, else by models."""
    past, trials = _Past(known.trials), work.trials
    groups: dict[str, list[str]] = defaultdict(list)
    for key in trials:
        groups[past.group(key, known_models.conditions.get(key, ()))].append(key)
    loads = []
    for keys in groups.values():
        n, models = sum(trials[key] for key in keys), known_models.conditions.get(keys[0], ())
        seen, alike = past.like(keys[0], models)
        if seen and (stated.calls is None or any(one.calls for one in seen)):
            need = _from_history(
                as_before(n, seen, models, alike, stated, known_models.batch), known.trials, "trial"
            )
        else:
            lengths = (trials[key] * _length(plan, work.conditions[key]) for key in keys)
            need = as_assumed(n, sum(lengths) / n if models else 0.0, models, stated, known_models.batch)
        loads.append(Load(GENERATE, need, models))
    return loads


class _Past:
    """Finished trials, for the estimation of similar ones."""

    def __init__(self, trials: Sequence[PastWork]) -> None:
        self._all = trials
        self._own: dict[str, list[PastWork]] = defaultdict(list)
        for trial in trials:
            self._own[trial.under].append(trial)

    def _enough(self, key: str) -> bool:
        """Whether there is enough history of the condition itself."""
        return bool(key) and len(self._own.get(key, ())) >= FEW

    def group(self, key: str, models: Sequence[NamedModel]) -> str:
        """A key that is equal for conditions with the same history."""
        return f"own {key}" if self._enough(key) else " ".join(model.name for model in models)

    def like(self, key: str, models: Sequence[NamedModel]) -> tuple[Sequence[PastWork], bool]:
        """Similar finished trials, and whether they called the same models.

        Those of the condition, else those with the same models, else all.
        """
        if self._enough(key):
            return self._own[key], True
        names = names_of(models)
        same = [one for one in self._all if one.served <= names and bool(one.served) == bool(names)]
        if len(same) >= FEW:
            return same, True
        others = [one for one in self._all if one.calls] if models else self._all
        return others or self._all, not models or all(one.served <= names for one in others)


def names_of(models: Iterable[NamedModel]) -> frozenset[str]:
    """Names of the models in a record: as in the project, and in full."""
    return frozenset(name for model in models for name in (model.name, model.model.name))


def score_loads(
    plan: Plan, scores: Mapping[str, float], known: PastUsage, known_models: KnownModels
) -> list[Load]:
    """The scores to compute, by evaluator.

    An evaluator that names no model and has no recorded calls is assumed to make none.
    """
    loads = []
    for digest, n in scores.items():
        if n:
            models = known_models.evaluators.get(digest, ())
            need = _score_need(plan, digest, n, known, models, known_models.batch)
            loads.append(Load(EVALUATE, need, models))
    return loads


def _score_need(
    plan: Plan, digest: str, n: float, known: PastUsage, models: Sequence[NamedModel], batch: bool
) -> Need:
    """The need of `n` scores of one evaluator: from history, from its models, or none."""
    name = plan.evaluators[digest].name
    seen = [one for one in known.scores if one.under == name and one.calls]
    if seen:
        alike = not models or all(one.served <= names_of(models) for one in seen)
        need = as_before(n, seen, models, alike, Assumptions(), batch)
        return _from_history(need, seen, "score", f"by {name}")
    if models:
        case = max(map(_mean_length, plan.layout.case_sets.values()))
        answer = OUTPUT.expected * CHARACTERS.expected
        return as_assumed(n, case + answer, models, Assumptions(), batch)
    if name in known.evaluators:
        quick = [one.seconds for one in known.scores if not one.calls]
        return no_calls(n, predicted(quick, n) if quick else NOTHING)
    return no_calls(n, NOTHING, f"assumed: {name} asks no model and takes no time")


def _from_history(need: Need, seen: Sequence[PastWork], what: str, of: str = "of this study") -> Need:
    """The need with a line that states the history it is based on."""
    calls, seconds = (sum(getattr(one, field) for one in seen) / len(seen) for field in ("calls", "seconds"))
    took = lasting(seconds) if seconds >= 0.1 else f"{seconds:.2g} s"
    plural = "" if len(seen) == 1 else "s"
    line = f"history: {len(seen)} finished {what}{plural} {of}, {calls:.1f} calls and {took} each"
    return msgspec.structs.replace(need, basis=(line, *need.basis))


def _length(plan: Plan, condition: Condition) -> float:
    """Characters of a case and of the levels under a condition."""
    cases = plan.layout.case_sets[condition.cases]
    levels = sum(len(value) for value in condition.factors.values() if isinstance(value, str))
    return _mean_length(cases) + levels


def _mean_length(cases: Sequence[PlannedCase]) -> float:
    """The mean length of the inputs of a sample of cases."""
    measured = cases[:: max(1, len(cases) // MEASURED)]
    return sum(len(_text(case.input)) for case in measured) / max(1, len(measured))


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()


# The estimate


STAGES = (GENERATE, EVALUATE)
REPLAYED = "the agent's code changed: calls that did not are replayed for nothing, so the low end may be 0"
"""The note for runs whose recorded calls may be replayed."""


def estimate(
    plan: Plan,
    work: Workload,
    known: PastUsage,
    known_models: KnownModels,
    parallel: int,
    stated: Assumptions,
    stages: Sequence[str] = STAGES,
) -> RunEstimate:
    """The estimate of the outstanding work of a plan, for the given stages."""
    generates, evaluates = GENERATE in stages, EVALUATE in stages
    trials = trial_loads(plan, work, known, known_models, stated) if generates else []
    scores = _added(work.missing, work.fresh if generates else {}) if evaluates else {}
    loads = [*trials, *score_loads(plan, scores, known, known_models)]
    parts = _parts(loads, known.replays)
    return RunEstimate(
        new=work.new if generates else 0,
        reused=work.reused,
        scores=round(sum(scores.values())),
        parallel=parallel,
        parts=parts,
        calls=_sum(parts, "calls"),
        input_tokens=_sum(parts, "input_tokens"),
        output_tokens=_sum(parts, "output_tokens"),
        cost=_sum(parts, "cost"),
        seconds=wall_time(loads, parallel, known.overhead),
        unknown=tuple(dict.fromkeys(why for part in parts for why in part.unknown)),
        basis=_basis(plan, work, loads, stated, known.replays, known_models.batch),
        batch=known_models.batch,
    )


def _sum(some: Sequence[EstimatePart | Need], field: str) -> Range | None:
    return total(getattr(one, field) for one in some)


def _added(some: Mapping[str, float], others: Mapping[str, float]) -> dict[str, float]:
    return {key: some.get(key, 0.0) + others.get(key, 0.0) for key in {**some, **others}}


def _parts(loads: Sequence[Load], replays: bool) -> tuple[EstimatePart, ...]:
    """The loads summed by stage and model."""
    groups: dict[tuple[str, str], list[Need]] = defaultdict(list)
    for load in loads:
        groups[load.stage, load.need.model].append(load.need)
    return tuple(_part(*key, needs, replays) for key, needs in groups.items())


def _part(stage: str, model: str, needs: Sequence[Need], replays: bool) -> EstimatePart:
    """The sum of needs; amounts of replayable calls have a low end of 0."""

    def added(field: str) -> Range | None:
        amount = _sum(needs, field)
        free = replays and stage == GENERATE and field != "seconds"
        return amount.or_nothing() if amount and free else amount

    return EstimatePart(
        stage=stage,
        model=model,
        pieces=round(sum(need.pieces for need in needs)),
        calls=added("calls"),
        input_tokens=added("input"),
        output_tokens=added("output"),
        cost=added("cost"),
        seconds=added("seconds"),
        unknown=tuple(dict.fromkeys(why for need in needs for why in need.unknown)),
    )


def _basis(
    plan: Plan, work: Workload, loads: Sequence[Load], stated: Assumptions, replays: bool, batch: bool
) -> tuple[str, ...]:
    """The lines that state what the estimate is based on."""
    lines = [batch_price_note(load.models for load in loads)] if batch and loads else []
    lines += [f"said: {stated}"] if str(stated) and loads else []
    lines += [line for load in loads for line in load.need.basis]
    if replays and loads:
        lines.append(REPLAYED)
    if plan.study.stop is not None and loads:
        lines.append(f"at most: the run may stop before, by its rule ({plan.study.stop.rule})")
    if work.looked < len(plan):
        lines.append(f"looked at {work.looked:,} of {len(plan):,} trials, taken at random")
    return tuple(dict.fromkeys(lines))
