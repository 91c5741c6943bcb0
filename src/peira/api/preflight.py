"""What can be known to go wrong with models before anything runs: a missing key, a price that a budget needs.

The models of a study are those among its levels, those its evaluators name, and those written out in its
agents' own code. Others show themselves when they are asked, and fail their trials then.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import CodeType
from typing import Any

from peira.api.models import is_model, named, problems_of
from peira.errors import Invalid, Unknown
from peira.plan.conditions import agents_of, values_of
from peira.plan.expand import Plan
from peira.plan.history import Readable, found
from peira.spec.project import Project


def models_in(plan: Plan, project: Project) -> list[str]:
    """The models that a plan is known to ask, in the order they are met."""
    return list(dict.fromkeys(name for name in _candidates(plan) if is_model(project, name)))


def _candidates(plan: Plan) -> Iterator[Any]:
    for values in values_of(plan.layout.conditions).values():
        yield from values.values()
    for evaluator in plan.evaluators.values():
        yield from getattr(evaluator, "models", ())
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


def check_models(plan: Plan, project: Project, store: Readable | None) -> None:
    """Invalid, with every problem, if models cannot be asked. What is all recorded needs none."""
    names = models_in(plan, project)
    problems = problems_of(project, names) + _unpriced(plan, project, names)
    if problems and found(plan, store).reused < len(plan):
        raise Invalid(problems)


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
