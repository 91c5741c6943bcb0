"""From a study to its plan: which conditions, which cases, which agents and evaluators, which trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from peira.core.contracts import Agent, Evaluator
from peira.core.expressions import Expression, ExpressionError
from peira.core.ids import Json, digest, short
from peira.core.registry import nearest, registry
from peira.core.transforms import Transform
from peira.errors import Invalid, OverBudget
from peira.plan import subset
from peira.plan.assign import assign
from peira.plan.conditions import Condition, shown_names
from peira.plan.earlier import Earlier
from peira.plan.layout import Layout, PlannedCase
from peira.spec.case import Case, case_ids, seen_digest
from peira.spec.evaluators import as_evaluator
from peira.spec.limits import Budget
from peira.spec.study import Study

WHERE_NAMES = ("agent", "case", "slice", "cluster", "repeat")


@dataclass(frozen=True)
class Plan:
    """A layout with its live parts. `refused` are the conditions that constraints exclude: all `refusals` of
    them, or the first few. `earlier` is the run by whose results its trials were chosen."""

    study: Study
    layout: Layout
    agents: Mapping[str, Agent]
    evaluators: Mapping[str, Evaluator]
    common: tuple[str, ...]
    refused: tuple[Condition, ...] = ()
    refusals: int = 0
    reasons: tuple[str, ...] = ()
    where: str = ""
    limit: int | None = None
    earlier: str = ""
    transform: Transform | None = None

    def __len__(self) -> int:
        return len(self.layout)

    @property
    def notes(self) -> tuple[str, ...]:
        """What every result has to say beside its numbers."""
        by = f"chosen by what run {short(self.earlier)} found ({self.where}): means over these are biased"
        return (*self.study.unexecuted(), *([by] if self.earlier else []))


def expand(
    study: Study,
    *,
    generation: int = 0,
    where: str = "",
    limit: int | None = None,
    earlier: Earlier | None = None,
) -> Plan:
    """The whole plan of a study, or the part that `where` and `limit` leave. Runs nothing, writes nothing.

    Where there is an `earlier` run, `where` may name what that found."""
    agents = live_agents(study)
    judges = _Judges()
    common = judges.add(study.resolved_evaluators())
    case_sets = {label: _planned(cases, judges) for label, cases in study.case_sets.items()}
    found = assign(study, agents)
    layout = Layout(
        found.admitted,
        case_sets,
        study.repeats,
        study.seed,
        generation,
        order=study.run_order,
        anchors=study.anchors,
        sequences=found.sequences,
    )
    plan = Plan(
        study=study,
        layout=layout,
        agents=agents,
        transform=study.resolved_transform(),
        evaluators=judges.known,
        common=common,
        refused=found.refused,
        refusals=found.refusals,
        reasons=found.reasons,
        where=where,
        limit=limit,
        earlier=earlier.run if earlier else "",
    )
    chosen = choose(layout, study.budget, where, limit, earlier)
    if where and not len(chosen):
        raise Invalid(f"where: {where!r} fits none of the {len(layout)} trials")
    return replace(plan, layout=chosen)


def live_agents(study: Study) -> dict[str, Agent]:
    """The agents under test, by label."""
    version = study.version
    return {
        label: registry.make("agent", "function", fn=fn, label=label, version=version)
        for label, fn in study.agents.items()
    }


def choose(
    layout: Layout,
    budget: Budget,
    where: str = "",
    limit: int | None = None,
    earlier: Earlier | None = None,
) -> Layout:
    """The part of the layout that is to be run: by `where`, then by `limit`, then within the budget."""
    if where:
        layout = subset.where(layout, _predicate(where, layout, earlier), earlier.facts if earlier else None)
    if limit is not None:
        layout = subset.limited(layout, limit)
    most = budget.trials
    if most is None or len(layout) <= most:
        return layout
    if budget.excess == "subset":
        return subset.limited(layout, most)
    raise OverBudget(
        f"the plan has {len(layout)} trials and the budget allows {most}: raise budget.trials, "
        'or set budget.excess = "subset" for a balanced subset'
    )


def _predicate(where: str, layout: Layout, earlier: Earlier | None) -> Any:
    try:
        expression = Expression(where)
    except ExpressionError as problem:
        raise Invalid(f"where: {problem}") from None
    known = {*WHERE_NAMES, *shown_names(layout.conditions), *(earlier.names if earlier else ())}
    unknown = sorted(expression.names - known)
    if unknown:
        place = "this study or that run" if earlier else "this study"
        raise Invalid(f"where: no {name!r} in {place}{nearest(name, known)}" for name in unknown)
    blank = dict.fromkeys(known)
    found = expression.names & earlier.names if earlier else frozenset()

    def keeps(facts: Mapping[str, Json]) -> bool:
        if found - facts.keys():  # that run says nothing of it
            return False
        try:
            return expression.evaluate({**blank, **facts})
        except ExpressionError as problem:
            if expression.names - facts.keys():  # it asks about a factor that this agent does not take
                return False
            raise Invalid(f"where: {problem}") from None

    return keeps


def evaluator_digest(evaluator: Evaluator) -> str:
    return digest({"name": evaluator.name, "is": evaluator.identity})


def transform_digest(transform: Transform | None) -> str:
    """What a transform is known by; "" if there is none."""
    return "" if transform is None else digest({"name": transform.name, "is": transform.identity})


class _Judges:
    """Every evaluator once, by its digest."""

    def __init__(self) -> None:
        self.known: dict[str, Evaluator] = {}

    def add(self, evaluators: Sequence[Evaluator]) -> tuple[str, ...]:
        digests = list(map(evaluator_digest, evaluators))
        self.known.update(zip(digests, evaluators, strict=True))
        return tuple(digests)


def _planned(cases: Sequence[Case], judges: _Judges) -> list[PlannedCase]:
    return [
        PlannedCase(
            id=id,
            seen=seen_digest(case, id),
            input=case.input,
            expected=case.expected,
            cluster=case.cluster,
            slice=case.slice,
            metadata=dict(case.metadata),
            judged_by=judges.add(list(map(as_evaluator, case.evaluators))) if case.evaluators else (),
        )
        for case, id in zip(cases, case_ids(cases), strict=True)
    ]
