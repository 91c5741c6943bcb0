"""Expands a study into its plan: conditions, cases, agents, evaluators and trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from peira.core.contracts import Agent, Evaluator
from peira.core.expressions import Expression
from peira.core.ids import Json, digest, short
from peira.core.registry import nearest
from peira.core.transforms import Transform
from peira.errors import ExpressionError, Invalid, OverBudget
from peira.plan import subset
from peira.plan.assignment import assign
from peira.plan.conditions import Condition, shown_names
from peira.plan.stored_cases import StoredCases
from peira.plan.subset import EarlierRun
from peira.plan.trials import Layout, PlannedCase
from peira.spec.agents import made_agent
from peira.spec.case import Case, identities
from peira.spec.limits import Budget
from peira.spec.packed_cases import PackedCases
from peira.spec.plugins import as_evaluator
from peira.spec.study import Study

WHERE_NAMES = ("agent", "case", "slice", "cluster", "repeat")
"""Names other than factors that a `where` expression may use."""


class Plan(msgspec.Struct, frozen=True):
    """A layout of trials with the live agents, evaluators and transform."""

    study: Study
    layout: Layout
    """The trials."""
    agents: Mapping[str, Agent]
    evaluators: Mapping[str, Evaluator]
    """All evaluators, by digest."""
    common: tuple[str, ...]
    """The digests of the evaluators of all cases."""
    refused: tuple[Condition, ...] = ()
    """The inadmissible conditions, or the first ones."""
    refusals: int = 0
    """The number of all inadmissible conditions."""
    reasons: tuple[str, ...] = ()
    """The explanation of an automatically chosen design."""
    where: str = ""
    """The expression that selected the trials; "" if none."""
    limit: int | None = None
    """The maximum number of trials; None if unlimited."""
    earlier: str = ""
    """The run whose results selected the trials; "" if none."""
    transform: Transform | None = None

    def __len__(self) -> int:
        return len(self.layout)

    @property
    def notes(self) -> tuple[str, ...]:
        """Caveats that every result of this plan must show."""
        by = f"chosen by what run {short(self.earlier)} found ({self.where}): means over these are biased"
        return (*self.study.unexecuted(), *([by] if self.earlier else []))


def expand(
    study: Study,
    *,
    generation: int = 0,
    where: str = "",
    limit: int | None = None,
    earlier: EarlierRun | None = None,
) -> Plan:
    """The plan of a study, or the part selected by `where` and `limit`; runs and writes nothing.

    With an `earlier` run, `where` may refer to its results. Raises `Invalid` if `where` selects no trial, and
    `OverBudget` if the plan exceeds the budget.
    """
    agents = live_agents(study)
    evaluators = _EvaluatorTable()
    common = evaluators.add(study.resolved_evaluators())
    case_sets = {label: _planned(cases, evaluators) for label, cases in study.case_sets.items()}
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
        evaluators=evaluators.known,
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
    return {label: made_agent(given, label, study.version) for label, given in study.agents.items()}


def choose(
    layout: Layout,
    budget: Budget,
    where: str = "",
    limit: int | None = None,
    earlier: EarlierRun | None = None,
) -> Layout:
    """The part of the layout to run: filtered by `where`, then reduced by `limit`, then by the budget.

    Raises `OverBudget` if the budget is exceeded and does not allow a subset.
    """
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


def _predicate(where: str, layout: Layout, earlier: EarlierRun | None) -> Any:
    """Compile a `where` expression; raises `Invalid` for syntax errors and unknown names."""
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
        if found - facts.keys():  # the earlier run has no result for this trial
            return False
        try:
            return expression.evaluate({**blank, **facts})
        except ExpressionError as problem:
            if expression.names - facts.keys():  # it refers to a factor that this agent does not take
                return False
            raise Invalid(f"where: {problem}") from None

    return keeps


def evaluator_digest(evaluator: Evaluator) -> str:
    """The digest of an evaluator's name and identity."""
    return digest({"name": evaluator.name, "is": evaluator.identity})


def transform_digest(transform: Transform | None) -> str:
    """The digest of a transform's name and identity; "" if there is none."""
    return "" if transform is None else digest({"name": transform.name, "is": transform.identity})


_NO_METADATA: dict[str, Json] = {}


class _EvaluatorTable:
    """Collects distinct evaluators by digest."""

    def __init__(self) -> None:
        self.known: dict[str, Evaluator] = {}

    def add(self, evaluators: Sequence[Evaluator]) -> tuple[str, ...]:
        """Add evaluators; returns their digests in order."""
        digests = list(map(evaluator_digest, evaluators))
        self.known.update(zip(digests, evaluators, strict=True))
        return tuple(digests)


def _planned(cases: Sequence[Case], evaluators: _EvaluatorTable) -> Sequence[PlannedCase]:
    """The cases with their ids, digests and own evaluators; packed ones as they are."""
    if isinstance(cases, PackedCases):
        return StoredCases(cases.columns)
    return [
        PlannedCase(
            id=id,
            seen=seen,
            input=case.input,
            expected=case.expected,
            cluster=case.cluster,
            slice=case.slice,
            metadata=dict(case.metadata) if case.metadata else _NO_METADATA,
            judged_by=evaluators.add(list(map(as_evaluator, case.evaluators))) if case.evaluators else (),
        )
        for case, (id, seen) in zip(cases, identities(cases), strict=True)
    ]
