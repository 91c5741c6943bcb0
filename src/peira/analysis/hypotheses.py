"""Declared hypotheses, tested as declared: by the plan's test, at its alpha, corrected over its family.

A hypothesis ends as supported (the evidence shows it), rejected (the evidence shows the opposite) or
undecided (neither). That levels are merely different cannot be rejected: not to see a difference is not to
have shown that there is none. Whatever the study does not declare is exploratory.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

from peira.analysis.aims import Aims, alone
from peira.analysis.contrast import Contrast
from peira.analysis.contrasts import Wish, contrast
from peira.analysis.family import ADJUST, simultaneous
from peira.analysis.findings import Finding, Findings, Verdict
from peira.analysis.levels import Levels, Pair, levels_of
from peira.analysis.measures import Measured, measure
from peira.analysis.sides import match
from peira.analysis.trials import TrialResult
from peira.errors import Invalid, PeiraError, Unknown
from peira.spec.aims import AnalysisPlan, Hypothesis
from peira.stats.values import Alternative

JOINT = ("dunnett", "tukey")
SIDES: dict[str, tuple[Alternative, Alternative | None]] = {
    "different": ("two-sided", None),
    "greater": ("greater", "less"),
    "less": ("less", "greater"),
}
"""The alternative that a direction is tested against the null with, and the opposite one."""


def decide(trials: Iterable[TrialResult], aims: Aims, notes: Sequence[str] = ()) -> Findings:
    """What became of every declared hypothesis."""
    kept = list(trials)
    found = [one for plan, family in aims.families() for one in _family(kept, aims, plan, family)]
    return Findings(tuple(found), tuple(notes))


def _family(
    trials: list[TrialResult], aims: Aims, plan: AnalysisPlan, family: Sequence[Hypothesis]
) -> list[Finding]:
    asked = [_asked(trials, aims, plan, hypothesis) for hypothesis in family]
    tested = _jointly(asked, plan) if plan.correction in JOINT else [_tested(one, plan) for one in asked]
    if adjust := ADJUST.get(plan.correction):
        for_it, against = adjust([one.p for one in tested]), adjust([one.opposite for one in tested])
        tested = [
            replace(one, adjusted=p, opposite=q) for one, p, q in zip(tested, for_it, against, strict=True)
        ]
    return [replace(one, verdict=_verdict(one)) for one in tested]


def _verdict(found: Finding) -> Verdict:
    if found.adjusted is not None and found.adjusted <= found.alpha:
        return "supported"
    return "rejected" if found.opposite is not None and found.opposite <= found.alpha else "undecided"


@dataclass(frozen=True)
class Asked:
    """A hypothesis made into pairs of sides; `empty` is what is said of it before it is tested."""

    empty: Finding
    direction: str = "different"
    factor: str = ""
    measured: Measured | None = None
    pairs: tuple[Pair, ...] = ()


def _asked(trials: list[TrialResult], aims: Aims, plan: AnalysisPlan, hypothesis: Hypothesis) -> Asked:
    alpha = hypothesis.alpha if plan is alone() or "alpha" in hypothesis.model_fields_set else plan.alpha
    name = "" if plan is alone() else plan.name
    empty = Finding(hypothesis.id, hypothesis.statement, name, alpha, plan.correction)
    if not hypothesis.factor:
        return Asked(replace(empty, reason="it names no factor, so there is nothing to compare"))
    try:
        measured = measure(trials, aims.measure_of(hypothesis.outcome))
        pairs = tuple(_pairs(hypothesis, levels_of(measured, hypothesis.factor)))
    except (Invalid, Unknown) as error:
        return Asked(replace(empty, reason=_line(error)))
    empty = replace(empty, outcome=measured.name)
    return Asked(empty, hypothesis.direction, hypothesis.factor, measured, pairs)


def _line(error: PeiraError) -> str:
    return str(error).replace("\n", "; ")


def _pairs(hypothesis: Hypothesis, there: Levels) -> list[Pair]:
    """One level with all others; any two, for a difference; in a direction, each with the next."""
    named, every = [there.named(level) for level in hypothesis.levels], list(there.sides.values())
    if len(named) == 1:
        return [(named[0], other) for other in every if other is not named[0]]
    if hypothesis.direction == "different":
        return list(combinations(named or every, 2))
    if not named:
        raise Invalid(f"it does not say which level of {hypothesis.factor} is {hypothesis.direction}")
    return list(pairwise(named))


def _tested(asked: Asked, plan: AnalysisPlan) -> Finding:
    """By the plan's test. A direction must hold for every pair: the largest p decides. A difference need hold
    for one: the smallest does, corrected among them."""
    if asked.measured is None or not asked.pairs:
        return replace(asked.empty, reason=asked.empty.reason or "there are no two levels to compare")
    for_it, against = SIDES[asked.direction]
    try:
        found = _contrasts(asked, plan, for_it)
        opposite = None if against is None else _decisive(_contrasts(asked, plan, against), asked.direction)
    except Invalid as error:
        return replace(asked.empty, reason=_line(error))
    return _told(asked, found, _decisive(found, asked.direction), opposite)


def _contrasts(asked: Asked, plan: AnalysisPlan, alternative: Alternative) -> list[Contrast]:
    assert asked.measured is not None
    alpha = asked.empty.alpha
    wish = Wish(level=1 - alpha, test=plan.test, correction=None, alternative=alternative)
    found = [contrast(match(*pair), asked.measured, wish, alpha) for pair in asked.pairs]
    several = asked.direction == "different" and len(found) > 1
    return simultaneous(found, asked.pairs, "holm", wish.level) if several else found


def _decisive(found: Sequence[Contrast], direction: str) -> float | None:
    chances = [one.adjusted for one in found]
    known = [p for p in chances if p is not None]
    if not known or (direction != "different" and len(known) < len(chances)):
        return None
    return min(known) if direction == "different" else max(known)


def _told(asked: Asked, found: Sequence[Contrast], p: float | None, opposite: float | None) -> Finding:
    reason = "" if p is not None else "the data do not allow the test"
    return replace(asked.empty, contrasts=tuple(found), p=p, adjusted=p, opposite=opposite, reason=reason)


def _jointly(asked: Sequence[Asked], plan: AnalysisPlan) -> list[Finding]:
    """All pairs of the plan at once, by the largest t among them; two-sided, whichever way each points."""
    able = [one for one in asked if one.pairs and one.measured is not None]
    if len({(one.factor, one.empty.outcome) for one in able}) > 1:
        why = f"{plan.correction} needs hypotheses about one factor and one outcome"
        return [replace(one.empty, reason=one.empty.reason or why) for one in asked]
    pairs = {(one.label, two.label): (one, two) for each in able for one, two in each.pairs}
    whole = Asked(replace(asked[0].empty, alpha=plan.alpha), "", "", able[0].measured if able else None)
    whole = replace(whole, pairs=tuple(pairs.values()))
    try:
        found = _contrasts(whole, plan, "two-sided") if pairs else []
        found = simultaneous(found, whole.pairs, plan.correction, 1 - plan.alpha)
    except Invalid as error:
        return [replace(one.empty, reason=one.empty.reason or _line(error)) for one in asked]
    joint = {(one.first, one.second): one for one in found}
    return [_pointed(one, [joint[a.label, b.label] for a, b in one.pairs]) for one in asked]


def _pointed(asked: Asked, found: Sequence[Contrast]) -> Finding:
    if not found:
        return replace(asked.empty, reason=asked.empty.reason or "there are no two levels to compare")
    p = _decisive(found, asked.direction)
    if asked.direction == "different":
        return _told(asked, found, p, None)
    sign = 1 if asked.direction == "greater" else -1
    ways = {one.difference is not None and sign * one.difference.mean > 0 for one in found}
    return _told(asked, found, p if ways == {True} else 1.0, p if ways == {False} else None)
