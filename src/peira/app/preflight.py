"""Checks and estimates before a run: models, keys, prices; expected calls, cost and time."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Iterator, Mapping, Sequence
from functools import cache, partial
from types import CodeType
from typing import Any

from msgspec.structs import replace

import peira.engine.batch as batches
import peira.engine.calls as model_calls
from peira.agents.recorded_outputs import recorded
from peira.app.models import is_model, named, problems_of
from peira.core.models import NamedModel, Usage
from peira.engine.stages import EVALUATE, GENERATE
from peira.errors import Invalid, Unknown
from peira.plan.conditions import agents_of, values_of
from peira.plan.diff.history import Readable, StoredCounts, stored_counts
from peira.plan.estimate.estimator import STAGES, KnownModels, estimate
from peira.plan.estimate.experience import experience
from peira.plan.estimate.needs import assumptions
from peira.plan.estimate.value import RunEstimate
from peira.plan.estimate.workload import workload
from peira.plan.expansion import Plan
from peira.plan.trials import Condition
from peira.spec.project import Project


def models_in(plan: Plan, project: Project, stages: Sequence[str] = (GENERATE, EVALUATE)) -> list[str]:
    """The models that these stages of a plan are known to call, in order of appearance.

    They are found in the levels of factors, in string constants of the agents' code, and in the `models` of
    agents and evaluators; names that are computed at run time are not found.
    """
    called = [name for name in (_agent_models(plan) if GENERATE in stages else ()) if is_model(project, name)]
    judging = plan.evaluators.values() if EVALUATE in stages else ()
    asked = (name for evaluator in judging for name in getattr(evaluator, "models", ()))
    return list(dict.fromkeys([*called, *asked]))


def _agent_models(plan: Plan) -> Iterator[Any]:
    """Candidates for models of agents: levels of factors, and constants in the code of agents."""
    if all(getattr(fn, "__code__", None) == recorded.__code__ for fn in plan.study.agents.values()):
        return  # recorded outputs: no model is called
    for values in values_of(plan.layout.conditions).values():
        yield from values.values()
    for label in agents_of(plan.layout.conditions):
        code = getattr(plan.study.agents.get(label), "__code__", None)
        if code is not None:
            yield from _constants(code)
        yield from getattr(plan.agents.get(label), "models", ())


def _constants(code: CodeType) -> Iterator[Any]:
    """The constants in a code object, with those of nested functions."""
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _constants(constant)
        else:
            yield constant


def check_models(
    plan: Plan,
    project: Project,
    store: Readable | None,
    stages: Sequence[str] = (GENERATE, EVALUATE),
    batch: bool = False,
) -> None:
    """Raise Invalid, with every problem, if models cannot be called that these stages need, or agents cannot
    work here: a command whose program is missing.

    A stage in which everything is recorded needs none. With `batch`, models need a batch endpoint.
    """
    if _problems(plan, project, stages, batch):
        due = _due(plan, store, stages)
        if due and (problems := _problems(plan, project, due, batch)):
            raise Invalid(problems)


def _agent_problems(plan: Plan) -> Iterator[str]:
    """Why agents that check themselves cannot work here."""
    for label in agents_of(plan.layout.conditions):
        check = getattr(plan.agents.get(label), "check", None)
        try:
            if check is not None:
                check()
        except Invalid as error:
            path = f"agents.{label}" if plan.study.labelled else "agent"
            yield from (f"{path}: {problem}" for problem in error.problems)


def _problems(plan: Plan, project: Project, stages: Sequence[str], batch: bool) -> list[str]:
    """All problems with the models of these stages."""
    names = models_in(plan, project, stages)
    problems = problems_of(project, names) + _unpriced(plan, project, names)
    problems += _agent_problems(plan) if GENERATE in stages else ()
    return problems + (_unbatched(project, list(names)) if batch else [])


def _due(plan: Plan, store: Readable | None, stages: Sequence[str]) -> Sequence[str]:
    """The stages in which something is left to do."""
    if GENERATE in stages and stored_counts(plan, store).reused < len(plan):
        return stages
    left = EVALUATE in stages and any(workload(plan, store).missing.values())
    return (EVALUATE,) if left else ()


def check_batches(plan: Plan, project: Project, store: Readable | None) -> None:
    """Raise Invalid, with each of them, if needed models have no batch endpoint."""
    problems = _unbatched(project, list(models_in(plan, project)))
    if problems and _due(plan, store, (GENERATE, EVALUATE)):
        raise Invalid(problems)


def _unbatched(project: Project, names: list[str]) -> list[str]:
    """Problems with models, including fallbacks, that have no batch endpoint."""
    problems: list[str] = []
    for name in names:  # grows during iteration
        try:
            model = named(project, name)
        except (Invalid, Unknown):
            continue  # reported already
        names += [one for one in model.fallbacks if one not in names]
        try:
            batches.batches_of(model)
        except Invalid as problem:
            problems += problem.problems
    return problems


def _unpriced(plan: Plan, project: Project, names: list[str]) -> list[str]:
    """Problems with models of unknown price whose cost is limited by the budget."""
    budget, problems = plan.study.budget, []
    for name in dict.fromkeys([*names, *budget.per_model]):
        try:
            model = named(project, name)
        except (Invalid, Unknown) as problem:
            problems += [f"budget.per_model: {problem}"] if name in budget.per_model else []
            continue
        allowances = (budget, budget.per_trial, budget.per_model.get(name))
        if model.price is None and any(one is not None and one.money is not None for one in allowances):
            problems.append(
                f"{name}: its price is unknown, so budget.money cannot be kept; say it in peira.toml: "
                f'[models."{name}"] price = {{input = ..., output = ...}} (dollars for a million tokens)'
            )
    return problems


def budget_notes(plan: Plan, project: Project, stages: Sequence[str] = (GENERATE, EVALUATE)) -> list[str]:
    """What a budget of money or tokens reserves for calls whose output has no limit, one line per model.

    Nothing is said of models whose output is limited, nor if the agents' code names such a limit.
    """
    budget, notes = plan.study.budget, []
    kinds = (budget, budget.per_trial, *budget.per_model.values())
    if not any(one.money or one.tokens for one in kinds) or _limits_output(plan):
        return []
    for name in models_in(plan, project, stages):
        model = named(project, name)
        limited = [one for one in (budget, budget.per_trial, budget.per_model.get(name)) if one is not None]
        free = model.price is None or not model.price.cost(Usage(input=0, output=1_000_000))
        counted = any(one.tokens or (one.money and not free) for one in limited)
        if counted and not (model.output or model.limits.output):
            notes.append(
                f"budget: {name}: {_unlimited(model)}; state max_tokens, or declare it in peira.toml: "
                f'[models."{name}"] limits = {{max_output_tokens = ...}}'
            )
    return notes


def agent_notes(plan: Plan, project: Project) -> list[str]:
    """What is probably wrong with functions under test: a line for each that returns nothing, wherever it
    ends, though it is judged; and for each level of a factor `model` that cannot be asked, if they ask."""
    codes = {
        label: getattr(inspect.unwrap(agent) if callable(agent) else None, "__code__", None)
        for label, agent in plan.study.agents.items()
    }
    silent = [
        f"agent {label} returns nothing: what is judged is what it returns"
        for label, code in codes.items()
        if plan.study.evaluators and code is not None and _returns_nothing(code)
    ]
    if not any(code is not None and "ask" in code.co_names for code in codes.values()):
        return silent
    return [*silent, *_unaskable_levels(plan, project)]


def _unaskable_levels(plan: Plan, project: Project) -> Iterator[str]:
    """Why levels of the factor `model` are no models."""
    for level in values_of(plan.layout.conditions).get("model", {}).values():
        try:
            if isinstance(level, str):
                named(project, level)
        except (Invalid, Unknown) as problem:
            yield f"factors.model: {problem}"


def _returns_nothing(code: CodeType) -> bool:
    """Whether a function returns None wherever it returns; not if it is a generator, or always raises."""
    if code.co_flags & (inspect.CO_GENERATOR | inspect.CO_ASYNC_GENERATOR):
        return False
    before, ends = None, []
    for one in dis.get_instructions(code):
        if one.opname == "RETURN_CONST":
            ends.append(one.argval is None)
        elif one.opname == "RETURN_VALUE":
            none = before is not None and before.opname == "LOAD_CONST" and before.argval is None
            ends.append(none and not one.is_jump_target)  # else another value may get here
        before = one
    return bool(ends) and all(ends)


def _limits_output(plan: Plan) -> bool:
    """Whether the code of an agent names a limit on output tokens."""
    codes = (getattr(agent, "__code__", None) for agent in plan.study.agents.values())
    constants = [constant for code in codes if code is not None for constant in _constants(code)]
    names = {name for one in constants for name in (one if isinstance(one, tuple) else (one,))}
    return any(limit in names for limit in model_calls.LIMITS)


def _unlimited(model: NamedModel) -> str:
    """What is reserved for a call of a model whose output has no limit."""
    if model.window is None:
        return (
            "its largest output is not known, so calls without a limit of output go one at a time near the "
            "end of the budget, and the last of them may exceed it"
        )
    cost = model.price.cost(Usage(input=0, output=model.window)) if model.price else None
    money = f" (${cost:.3g})" if cost else ""
    return (
        f"a call without a limit of output reserves {model.window:,} tokens{money}, the context window; "
        "where that does not fit, calls go one at a time, and the last of them may exceed the budget"
    )


def estimate_of(
    plan: Plan,
    store: Readable | None,
    project: Project,
    parallel: int,
    *,
    assume: Mapping[str, Any] | None = None,
    stages: Sequence[str] = STAGES,
    counts: StoredCounts | None = None,
    batch: bool = False,
) -> RunEstimate:
    """An estimate of a run of the plan, from a bounded number of reads of the store.

    All trials are looked up only if `counts` are given, or if models are called.
    """
    assumed = assumptions(assume)
    known = experience(plan, store)
    work = workload(plan, store, counts)
    called = replace(models_asked(plan, work.conditions, project, assumed.model), batch=batch)
    if counts is None and (called or known.asks):
        sure: dict[str, Any] = {"counts": stored_counts(plan, store), "batch": batch}
        return estimate_of(plan, store, project, parallel, assume=assume, stages=stages, **sure)
    return estimate(plan, work, known, called, parallel, assumed, stages)


def models_asked(
    plan: Plan, conditions: Mapping[str, Condition], project: Project, model: str | None = None
) -> KnownModels:
    """The models known to be called under these conditions and by each evaluator.

    `model`, if given, replaces those of every condition.
    """
    make, is_name = cache(partial(named, project)), cache(partial(is_model, project))
    in_code = cache(partial(_models_in_code, plan, project))
    under, by = dict[str, list[NamedModel]](), dict[str, list[NamedModel]]()
    for key, condition in conditions.items():
        levels = (value for value in condition.factors.values() if isinstance(value, str))
        names = [model] if model else [*filter(is_name, levels), *in_code(condition.agent)]
        under[key] = list(map(make, dict.fromkeys(names)))
    for digest, evaluator in plan.evaluators.items():
        by[digest] = list(map(make, filter(is_name, getattr(evaluator, "models", ()))))
    return KnownModels(under, by)


def _models_in_code(plan: Plan, project: Project, agent: str) -> list[str]:
    """The names of models in the code of an agent."""
    bare = Condition(agent, "", {}, "")
    return models_in(replace(plan, evaluators={}, layout=replace(plan.layout, conditions=[bare])), project)
