"""What can be known to go wrong with models before anything runs: a missing key, a price that a budget needs.

The models of a study are those among its levels, those its evaluators name, and those written out in its
agents' own code. Others show themselves when they are asked, and fail their trials then.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from types import CodeType
from typing import Any

from peira.agents.recorded import recorded
from peira.api.models import is_model, named, problems_of
from peira.engine.slips import batches_of
from peira.engine.work import EVALUATE, GENERATE
from peira.errors import Invalid, Unknown
from peira.plan.conditions import agents_of, values_of
from peira.plan.expand import Plan
from peira.plan.history import Readable, found
from peira.plan.workload import workload
from peira.spec.project import Project


def models_in(plan: Plan, project: Project, stages: Sequence[str] = (GENERATE, EVALUATE)) -> list[str]:
    """The models that these stages of a plan are known to ask, in the order they are met."""
    asked = [name for name in (_asked(plan) if GENERATE in stages else ()) if is_model(project, name)]
    return list(dict.fromkeys([*asked, *(_judging(plan) if EVALUATE in stages else ())]))


def _judging(plan: Plan) -> Iterator[Any]:
    for evaluator in plan.evaluators.values():
        yield from getattr(evaluator, "models", ())


def _asked(plan: Plan) -> Iterator[Any]:
    if all(getattr(fn, "__code__", None) == recorded.__code__ for fn in plan.study.agents.values()):
        return  # whatever models made these outputs, nobody asks them here
    for values in values_of(plan.layout.conditions).values():
        yield from values.values()
    for label in agents_of(plan.layout.conditions):
        code = getattr(plan.study.agents.get(label), "__code__", None)
        if code is not None:
            yield from _written(code)


def _written(code: CodeType) -> Iterator[Any]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _written(constant)
        else:
            yield constant


def check_models(
    plan: Plan,
    project: Project,
    store: Readable | None,
    stages: Sequence[str] = (GENERATE, EVALUATE),
    batch: bool = False,
) -> None:
    """Invalid, with every problem, if models cannot be asked that these stages are going to ask: a stage of
    which all is recorded asks none. With `batch`, calls are to be handed in as batches."""
    if _problems(plan, project, stages, batch):
        due = _due(plan, store, stages)
        if due and (problems := _problems(plan, project, due, batch)):
            raise Invalid(problems)


def _problems(plan: Plan, project: Project, stages: Sequence[str], batch: bool) -> list[str]:
    names = models_in(plan, project, stages)
    problems = problems_of(project, names) + _unpriced(plan, project, names)
    return problems + (_unbatched(project, list(names)) if batch else [])


def _due(plan: Plan, store: Readable | None, stages: Sequence[str]) -> Sequence[str]:
    """The stages in which something is left to be done."""
    if GENERATE in stages and found(plan, store).reused < len(plan):
        return stages
    left = EVALUATE in stages and any(workload(plan, store).missing.values())
    return (EVALUATE,) if left else ()


def check_batches(plan: Plan, project: Project, store: Readable | None) -> None:
    """Invalid, with each of them, if models are going to be asked that have no batch endpoint."""
    problems = _unbatched(project, list(models_in(plan, project)))
    if problems and _due(plan, store, (GENERATE, EVALUATE)):
        raise Invalid(problems)


def _unbatched(project: Project, names: list[str]) -> list[str]:
    """Models that have no batch endpoint, fallbacks included."""
    problems: list[str] = []
    for name in names:  # grows while it is walked
        try:
            model = named(project, name)
        except (Invalid, Unknown):
            continue  # told already
        names += [one for one in model.fallbacks if one not in names]
        try:
            batches_of(model)
        except Invalid as problem:
            problems += problem.problems
    return problems


def _unpriced(plan: Plan, project: Project, names: list[str]) -> list[str]:
    """Models whose cost a budget is to keep, and nobody knows."""
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
