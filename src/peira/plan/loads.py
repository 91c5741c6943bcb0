"""Which experience, or which assumption, tells what the trials of a condition and the scores of an evaluator
will take."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import msgspec

from peira.core.ids import Json, canonical
from peira.core.models import Named
from peira.core.words import lasting
from peira.plan.amounts import FEW, NOTHING, predicted
from peira.plan.assumptions import CHARACTERS, OUTPUT, Assumptions
from peira.plan.expand import Plan
from peira.plan.experience import EVALUATE, GENERATE, Did, Experience
from peira.plan.layout import Condition, PlannedCase
from peira.plan.needs import Need, as_assumed, as_before, no_calls
from peira.plan.pace import Load
from peira.plan.workload import Workload

MEASURED = 200
"""Cases of a set whose length is looked at."""


@dataclass(frozen=True)
class Asked:
    """The models that are known to be asked: under a condition (by its key), by an evaluator (its digest); in
    batches, or each call by itself."""

    conditions: Mapping[str, Sequence[Named]]
    evaluators: Mapping[str, Sequence[Named]]
    batch: bool = False

    def __bool__(self) -> bool:
        return any(self.conditions.values()) or any(self.evaluators.values())


def trial_loads(plan: Plan, work: Workload, known: Experience, asked: Asked, said: Assumptions) -> list[Load]:
    """The trials to be generated: by condition where enough is known of it, else by the models it asks."""
    past, trials = _Past(known.trials), work.trials
    groups: dict[str, list[str]] = defaultdict(list)
    for key in trials:
        groups[past.group(key, asked.conditions.get(key, ()))].append(key)
    loads = []
    for keys in groups.values():
        n, models = sum(trials[key] for key in keys), asked.conditions.get(keys[0], ())
        seen, alike = past.like(keys[0], models)
        if seen and (said.calls is None or any(one.calls for one in seen)):
            need = _from_history(as_before(n, seen, models, alike, said, asked.batch), known.trials, "trial")
        else:
            lengths = (trials[key] * _length(plan, work.conditions[key]) for key in keys)
            need = as_assumed(n, sum(lengths) / n if models else 0.0, models, said, asked.batch)
        loads.append(Load(GENERATE, need, models))
    return loads


class _Past:
    """Finished trials, by how much they tell of others."""

    def __init__(self, trials: Sequence[Did]) -> None:
        self._all = trials
        self._own: dict[str, list[Did]] = defaultdict(list)
        for trial in trials:
            self._own[trial.under].append(trial)

    def _enough(self, key: str) -> bool:
        return bool(key) and len(self._own.get(key, ())) >= FEW

    def group(self, key: str, models: Sequence[Named]) -> str:
        """Equal for conditions of which the same is known."""
        return f"own {key}" if self._enough(key) else " ".join(model.name for model in models)

    def like(self, key: str, models: Sequence[Named]) -> tuple[Sequence[Did], bool]:
        """Those of the condition, else that asked its models, else all; and whether its models are theirs."""
        if self._enough(key):
            return self._own[key], True
        names = names_of(models)
        same = [one for one in self._all if one.served <= names and bool(one.served) == bool(names)]
        if len(same) >= FEW:
            return same, True
        others = [one for one in self._all if one.calls] if models else self._all
        return others or self._all, not models or all(one.served <= names for one in others)


def names_of(models: Iterable[Named]) -> frozenset[str]:
    """What models may be called in a record: as the project names them, and in full."""
    return frozenset(name for model in models for name in (model.name, model.model.name))


def score_loads(plan: Plan, scores: Mapping[str, float], known: Experience, asked: Asked) -> list[Load]:
    """The scores to be made, by evaluator. One that names no model, and is not known to have asked any, is
    taken to ask none."""
    loads = []
    for digest, n in scores.items():
        if n:
            models = asked.evaluators.get(digest, ())
            need = _score_need(plan, digest, n, known, models, asked.batch)
            loads.append(Load(EVALUATE, need, models))
    return loads


def _score_need(
    plan: Plan, digest: str, n: float, known: Experience, models: Sequence[Named], batch: bool
) -> Need:
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


def _from_history(need: Need, seen: Sequence[Did], what: str, of: str = "of this study") -> Need:
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
    measured = cases[:: max(1, len(cases) // MEASURED)]
    return sum(len(_text(case.input)) for case in measured) / max(1, len(measured))


def _text(value: Json) -> str:
    return value if isinstance(value, str) else canonical(value).decode()
