"""What a study's stopping rule is asked: its hypotheses as pairs of levels, its conditions, its units."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

from peira.core.arms import Arm, arms_of
from peira.core.contracts import StopRule
from peira.core.ids import Json, canonical
from peira.core.looks import Claim, Pair, Question
from peira.errors import Invalid
from peira.plan.conditions import Crossed
from peira.plan.expand import Plan
from peira.plan.layout import Layout
from peira.spec.aims import Hypothesis
from peira.spec.stopping import followed
from peira.spec.study import Study


@dataclass(frozen=True)
class Asked:
    """A rule and its question. `score` is the evaluator and the part of its score that is followed (or, with
    no evaluator, the metric that agents report); `places` gives each condition of the layout its number, and
    from `anchored` on trials are anchors."""

    rule: StopRule
    question: Question
    score: tuple[str, str]
    places: dict[int, int]
    unit: str
    anchored: int
    name: str


def asked(plan: Plan) -> Asked | None:
    """None if the study has no rule. Invalid if there are too many conditions to follow."""
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
    return Asked(rule, question, _score(plan, rule), places, unit, layout.anchored, study.stop.rule)


def _units(layout: Layout) -> int:
    """How many cases, or clusters of cases, the plan has."""
    if layout.chosen is None:
        cases = ((label, one) for label, some in layout.case_sets.items() for one in some)
        return len({unit_of(label, one.id, one.cluster) for label, one in cases})
    places = (place for place in layout.places() if place.number < layout.anchored)
    return len({unit_of(p.condition.cases, p.case.id, p.case.cluster) for p in places})


def unit_of(label: str, case: str, cluster: str | None) -> str | tuple[str, str]:
    """The unit of evidence that a case belongs to."""
    return (label, case) if cluster is None else cluster


def _score(plan: Plan, rule: StopRule) -> tuple[str, str]:
    name = followed(plan.study, rule)
    for outcome in plan.study.outcomes:
        if outcome.name == name:
            return outcome.judged_by, outcome.metric
    return name or next(iter(plan.evaluators.values())).name, ""


def _claim(study: Study, hypothesis: Hypothesis, conditions: Sequence[dict[str, Json]]) -> Claim:
    arms = arms_of(conditions, hypothesis.factor)
    pairs = tuple(Pair(one.label, two.label, one.against(two)) for one, two in _pairs(hypothesis, arms))
    return Claim(hypothesis.id, hypothesis.direction, _alpha(study, hypothesis), pairs)


def _pairs(hypothesis: Hypothesis, arms: list[Arm]) -> list[tuple[Arm, Arm]]:
    """One level with all others; any two, for a difference; in a direction, each with the next."""
    by_level = {canonical(arm.level): arm for arm in arms}
    wanted = [canonical(level) for level in hypothesis.levels]
    named = [by_level[key] for key in wanted if key in by_level]
    if len(named) < len(wanted):
        return []  # constraints, or a part of the plan, leave a level out
    if len(named) == 1:
        return [(named[0], other) for other in arms if other is not named[0]]
    if hypothesis.direction == "different":
        return list(combinations(named or arms, 2))
    return list(pairwise(named))


def _alpha(study: Study, hypothesis: Hypothesis) -> float:
    """Its plan's, or its own; shared evenly with its family if the plan corrects for that. Whatever the
    correction is called: an even share holds at every look, where steps through ordered p do not."""
    for plan in study.analysis_plans:
        if plan.tests(hypothesis):
            family = sum(map(plan.tests, study.hypotheses))
            own = "alpha" in hypothesis.model_fields_set
            alpha = hypothesis.alpha if own else plan.alpha
            return alpha / family if plan.correction not in ("", "none") else alpha
    return hypothesis.alpha
