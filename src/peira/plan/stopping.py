"""The question that a study's stopping rule answers: hypotheses as pairs of levels, conditions, units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from peira.core.contracts import StopRule
from peira.core.ids import Json, canonical
from peira.core.looks import Arm, Claim, Pair, Question, arms_of
from peira.errors import Invalid
from peira.plan.conditions import Crossed
from peira.plan.expansion import Plan
from peira.plan.trials import Layout
from peira.spec.aims import Hypothesis
from peira.spec.stopping import followed
from peira.spec.study import Study


@dataclass(frozen=True)
class StopQuestion:
    """A stopping rule with its question, and where to find the scores that it monitors."""

    rule: StopRule
    question: Question
    score: tuple[str, str]
    """The monitored evaluator and metric; without an evaluator, a metric that agents report."""
    places: dict[int, int]
    """The number of each condition of the layout, by its `id()`."""
    unit: str
    """"cluster" or "case"."""
    anchored: int
    """The index of the first anchor."""
    name: str
    """The name of the rule."""


def stop_question(plan: Plan) -> StopQuestion | None:
    """The stopping question of a plan; None if the study has no rule.

    Raises `Invalid` if there are too many conditions to monitor.
    """
    study, layout = plan.study, plan.layout
    if study.stop is None:
        return None
    if isinstance(layout.conditions, Crossed):
        raise Invalid(f"stop: cannot follow {len(layout.conditions):,} conditions; vary fewer levels")
    rule = study.stop.made()
    shown: dict[bytes, int] = {}
    places = {id(one): shown.setdefault(canonical(one.shown), len(shown)) for one in layout.conditions}
    conditions = tuple({places[id(one)]: one.shown for one in layout.conditions}.values())
    outcome = next((one for one in study.outcomes if one.name == followed(study, rule)), None)
    clustered = any(case.cluster is not None for cases in layout.case_sets.values() for case in cases)
    question = Question(
        conditions,
        _units(layout),
        tuple(_claim(study, h, conditions) for h in study.hypotheses if h.id in rule.claims(study)),
        outcome is None or outcome.direction == "maximize",
    )
    unit = "cluster" if clustered else "case"
    return StopQuestion(rule, question, _score(plan, rule), places, unit, layout.anchored, study.stop.rule)


def _units(layout: Layout) -> int:
    """The number of cases, or clusters of cases, in the plan."""
    if layout.chosen is None:
        cases = ((label, one) for label, some in layout.case_sets.items() for one in some)
        return len({unit_of(label, one.id, one.cluster) for label, one in cases})
    places = (place for place in layout.places() if place.number < layout.anchored)
    return len({unit_of(p.condition.cases, p.case.id, p.case.cluster) for p in places})


def unit_of(label: str, case: str, cluster: str | None) -> str | tuple[str, str]:
    """The independent unit of a case: its cluster, or the case itself."""
    return (label, case) if cluster is None else cluster


def _score(plan: Plan, rule: StopRule) -> tuple[str, str]:
    """The evaluator and metric that the rule monitors."""
    name = followed(plan.study, rule)
    for outcome in plan.study.outcomes:
        if outcome.name == name:
            return outcome.judged_by, outcome.metric
    return name or next(iter(plan.evaluators.values())).name, ""


def _claim(study: Study, hypothesis: Hypothesis, conditions: Sequence[dict[str, Json]]) -> Claim:
    """A hypothesis as comparisons of pairs of levels at its significance level."""
    arms = arms_of(conditions, hypothesis.factor)
    pairs = tuple(Pair(one.label, two.label, one.against(two)) for one, two in _pairs(hypothesis, arms))
    return Claim(hypothesis.id, hypothesis.direction, _alpha(study, hypothesis), pairs)


def _pairs(hypothesis: Hypothesis, arms: list[Arm]) -> list[tuple[Arm, Arm]]:
    """The pairs of arms that a hypothesis compares.

    One named level with all others; all pairs, for a difference; with a direction, each level with the next.
    """
    by_level = {canonical(arm.level): arm for arm in arms}
    wanted = [canonical(level) for level in hypothesis.levels]
    named = [by_level[key] for key in wanted if key in by_level]
    if len(named) < len(wanted):
        return []  # constraints or a subset of the plan exclude a level
    if len(named) == 1:
        return [(named[0], other) for other in arms if other is not named[0]]
    if hypothesis.direction == "different":
        return list(combinations(named or arms, 2))
    return list(pairwise(named))


def _alpha(study: Study, hypothesis: Hypothesis) -> float:
    """The significance level of a hypothesis: its own or its analysis plan's, corrected for the family.

    Any correction becomes an equal (Bonferroni) share, which holds at every look; step-wise corrections of
    ordered p-values do not.
    """
    for plan in study.analysis_plans:
        if plan.tests(hypothesis):
            family = sum(map(plan.tests, study.hypotheses))
            own = "alpha" in hypothesis.model_fields_set
            alpha = hypothesis.alpha if own else plan.alpha
            return alpha / family if plan.correction not in ("", "none") else alpha
    return hypothesis.alpha
