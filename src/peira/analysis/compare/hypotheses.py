"""Tests the declared hypotheses by their analysis plans: verdict and evidence for each.

A hypothesis is supported (the evidence shows it), rejected (the evidence shows the opposite) or undecided. A
hypothesis of a mere difference cannot be rejected, since a test that is not significant does not show that
there is no difference. Comparisons that the study does not declare are exploratory.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import combinations, pairwise
from typing import Any, Literal

from peira.analysis.compare._margins import claim, margin_evidence
from peira.analysis.compare.comparison import Contrast, doubt_of
from peira.analysis.compare.contrasts import ComparisonOptions, contrast
from peira.analysis.compare.difference import Difference, Differences
from peira.analysis.compare.family import ADJUST, Family
from peira.analysis.compare.sides import Levels, Pair, levels_of
from peira.analysis.table.measures import Measured, measure
from peira.core.looks import Look, Standing
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.words import counted
from peira.errors import Invalid, PeiraError, Unknown
from peira.results.aims import Aims, alone
from peira.results.trials import TrialResult
from peira.spec.aims import AnalysisPlan, Hypothesis
from peira.stats.values import Alternative, Estimate, remark_of

# Findings

Verdict = Literal["supported", "rejected", "undecided"]
"""The verdict on a hypothesis."""


@dataclass(frozen=True)
class Finding:
    """The result for one hypothesis.

    `adjusted` is the p-value after the declared correction, `opposite` that of the opposite direction (None
    for a hypothesis without a direction); `reason` says why it could not be tested.
    """

    hypothesis: str
    statement: str
    plan: str
    alpha: float
    correction: str
    outcome: str = ""
    verdict: Verdict = "undecided"
    p: float | None = None
    adjusted: float | None = None
    opposite: float | None = None
    reason: str = ""
    contrasts: tuple[Contrast, ...] = ()
    claim: str = ""
    """What is claimed of a margin, as text."""
    at_worst: tuple[float | None, float | None] | None = None
    """Of a margin, if trials were lost: the adjusted p-values for and against it at worst."""
    tailed: tuple[float | None, float | None] | None = None
    """If few units may hide a long tail: the adjusted p-values for and against it then."""

    @property
    def sentence(self) -> str:
        """The verdict and its reason, as one sentence; if lost trials could overturn it, that comes first."""
        said = ", ".join(filter(None, (self.statement, self.claim)))
        detail = f" ({said})" if said else ""
        return f"{self.doubt}{self.hypothesis}{detail} is {self.verdict}: {self._why()}."

    @property
    def doubt(self) -> str:
        """What could overturn the verdict, to be said before it: lost trials, a tail that few units hide.

        A verdict in a direction needs every contrast, one of a difference any that is clear. A verdict about
        a margin is tested with the lost trials at either end.
        """
        if self.verdict == "undecided":
            return ""
        units = self._units if self.hides_tail else ""
        lost = 0
        if self.at_worst is not None:
            p = self.at_worst[0 if self.verdict == "supported" else 1]
            if p is None or p > self.alpha:
                lost = max((one.bounds.lost for one in self.contrasts if one.bounds is not None), default=0)
        if self.at_worst is not None or self.claim:
            return doubt_of(lost, units)
        clear = [one for one in self.contrasts if one.clear(self.alpha)] or self.contrasts
        weak = [one for one in clear if one.overturnable]
        needed = len(clear) if self.opposite is None else 1
        lost = max((one.bounds.lost for one in weak if one.bounds is not None), default=0)
        return doubt_of(lost if len(weak) >= max(1, needed) else 0, units)

    @property
    def hides_tail(self) -> bool:
        """Whether the verdict holds only if few units do not hide a long tail."""
        if self.tailed is None or self.verdict == "undecided":
            return False
        p = self.tailed[0 if self.verdict == "supported" else 1]
        return p is None or p > self.alpha

    @property
    def _units(self) -> str:
        """The fewest units of a contrast, as text."""
        fewest = min(self.contrasts, key=lambda one: one.units)
        return counted(fewest.units, fewest.unit)

    def _why(self) -> str:
        """The p-value, or the reason why there is none."""
        if self.reason:
            return self.reason
        corrected = f", {self.correction} over the plan" if self.correction not in ("", "none") else ""
        how = "; ".join(dict.fromkeys(one.test for one in self.contrasts if one.test))
        how = "one-sided tests of the margin" if self.claim else how
        return f"p = {self.adjusted:.3g} at alpha {self.alpha:g} ({how}{corrected})"


@dataclass(frozen=True)
class Findings(ResultValue):
    """The findings for all declared hypotheses."""

    found: tuple[Finding, ...]
    notes: tuple[str, ...] = ()

    @property
    def sentence(self) -> str:
        """One sentence for each hypothesis."""
        return "\n".join(one.sentence for one in self.found) or "The study declares no hypothesis."

    def grids(self) -> list[TextGrid]:
        """One row per hypothesis."""
        header = ["hypothesis", "plan", "verdict", "difference", "p", "alpha"]
        rows = [
            [
                layout.cell(one.hypothesis),
                layout.cell(one.plan or None),
                one.verdict,
                "; ".join(map(_difference, one.contrasts)) or "-",
                layout.number(one.adjusted),
                f"{one.alpha:g}",
            ]
            for one in self.found
        ]
        return [TextGrid(header, rows)] if rows else []

    def document(self) -> dict[str, Any]:
        """The JSON document: found (each with its sentence), sentence, notes."""
        found = [{**asdict(one), "sentence": one.sentence} for one in self.found]
        return {"found": found, "sentence": self.sentence, "notes": self.notes}


def _difference(one: Contrast) -> str:
    """A contrast with its interval, as text; marked if the interval may be too narrow."""
    found = one.difference
    if found is None:
        return f"{one.first} - {one.second} -"
    shown = f"{layout.interval(found.mean, found.low, found.high)}{remark_of(found.method)}"
    return f"{one.first} - {one.second} {shown}"


# Verdicts of a stopping rule

VERDICTS: Mapping[str, Verdict] = {"supported": "supported", "rejected": "rejected"}
"""Verdicts of the stopping rule that are also verdicts on a hypothesis."""


def with_sequential_verdicts(findings: Findings, look: Look | None) -> Findings:
    """Replace findings that the stopping rule monitored by the rule's sequential verdicts."""
    if look is None:
        return findings
    followed: dict[str, list[Standing]] = {}
    for standing in look.standings:
        followed.setdefault(standing.about, []).append(standing)
    found = [_from_look(one, followed[one.hypothesis], look) if one.hypothesis in followed else one
             for one in findings.found]  # fmt: skip
    return replace(findings, found=tuple(found))


def _from_look(finding: Finding, standings: Sequence[Standing], look: Look) -> Finding:
    """The finding with the verdict and intervals of the stopping rule's last look."""
    verdict = standings[0].verdict
    futile = ", and going on is futile" if verdict == "futile" else ""
    shown = "; ".join(map(str, standings))
    return replace(
        finding,
        verdict=VERDICTS.get(verdict, "undecided"),
        p=None,
        adjusted=None,
        opposite=None,
        reason=f"{shown} after {counted(look.units, look.unit)}, which holds at every look{futile}",
        contrasts=tuple(_contrast(one, look) for one in standings),
    )


def _contrast(one: Standing, look: Look) -> Contrast:
    """A contrast from one of the monitored differences."""
    mean = one.mean if one.mean is not None else (one.low + one.high) / 2
    return Contrast(
        first=one.first,
        second=one.second,
        paired=True,
        pairing=look.unit,
        n=look.units,
        units=look.units,
        unit=look.unit,
        unmatched=0,
        shared=0.0,
        shared_what="",
        difference=Estimate(mean, one.low, one.high, look.units, "sequential"),
        test="sequential",
    )


# Tests

JOINT = ("dunnett", "tukey")
"""Corrections that test all pairs of a plan jointly."""
SIDES: dict[str, tuple[Alternative, Alternative | None]] = {
    "different": ("two-sided", None),
    "greater": ("greater", "less"),
    "less": ("less", "greater"),
}
"""The alternative of each direction, and the opposite one."""


def decide(trials: Iterable[TrialResult], aims: Aims, notes: Sequence[str] = ()) -> Findings:
    """Test every declared hypothesis.

    Hypotheses of a plan form one family, corrected as the plan says; a hypothesis without a plan is tested
    alone. A hypothesis that cannot be tested is undecided, with a reason.
    """
    kept = list(trials)
    found = [one for plan, family in aims.families() for one in _family(kept, aims, plan, family)]
    return Findings(tuple(found), tuple(notes))


def _family(
    trials: list[TrialResult], aims: Aims, plan: AnalysisPlan, family: Sequence[Hypothesis]
) -> list[Finding]:
    """Test the hypotheses of one plan and adjust them as one family."""
    questions = [_resolve(trials, aims, plan, hypothesis) for hypothesis in family]
    joint = plan.correction in JOINT and all(one.margin is None for one in questions)
    tested = _jointly(questions, plan) if joint else [_test(one, plan) for one in questions]
    if adjust := ADJUST.get(plan.correction):
        for_it, against = adjust([one.p for one in tested]), adjust([one.opposite for one in tested])
        worst = [adjust([_side(one, one.at_worst, side) for one in tested]) for side in (0, 1)]
        tailed = [adjust([_side(one, one.tailed, side) for one in tested]) for side in (0, 1)]
        tested = [
            replace(
                one,
                adjusted=p,
                opposite=q,
                at_worst=None if one.at_worst is None else (r, s),
                tailed=None if one.tailed is None else (t, u),
            )
            for one, p, q, r, s, t, u in zip(tested, for_it, against, *worst, *tailed, strict=True)
        ]
    return [replace(one, verdict=_verdict(one)) for one in tested]


def _side(found: Finding, doubted: tuple[float | None, float | None] | None, side: int) -> float | None:
    """The p-value for the claim (side 0) or against it: of those in doubt, or without any the plain one."""
    return ((found.p, found.opposite) if doubted is None else doubted)[side]


def _verdict(found: Finding) -> Verdict:
    """Supported or rejected at alpha, else undecided."""
    if found.adjusted is not None and found.adjusted <= found.alpha:
        return "supported"
    return "rejected" if found.opposite is not None and found.opposite <= found.alpha else "undecided"


@dataclass(frozen=True)
class HypothesisPairs:
    """A hypothesis as pairs of sides; `empty` is the finding to complete with test results."""

    empty: Finding
    direction: str = "different"
    factor: str = ""
    measured: Measured | None = None
    pairs: tuple[Pair, ...] = ()
    margin: float | None = None


def _resolve(
    trials: list[TrialResult], aims: Aims, plan: AnalysisPlan, hypothesis: Hypothesis
) -> HypothesisPairs:
    """The pairs of sides that a hypothesis is about, or the reason why there are none."""
    alpha = hypothesis.alpha if plan is alone() or "alpha" in hypothesis.model_fields_set else plan.alpha
    name = "" if plan is alone() else plan.name
    empty = Finding(hypothesis.id, hypothesis.statement, name, alpha, plan.correction)
    empty = replace(empty, claim=claim(hypothesis.direction, hypothesis.margin))
    if not hypothesis.factor:
        return HypothesisPairs(replace(empty, reason="it names no factor, so there is nothing to compare"))
    try:
        measured = measure(trials, aims.measure_of(hypothesis.outcome))
        pairs = tuple(_pairs(hypothesis, levels_of(measured, hypothesis.factor)))
    except (Invalid, Unknown) as error:
        return HypothesisPairs(replace(empty, reason=_line(error)))
    empty = replace(empty, outcome=measured.name)
    margin = hypothesis.margin
    return HypothesisPairs(empty, hypothesis.direction, hypothesis.factor, measured, pairs, margin)


def _line(error: PeiraError) -> str:
    """The error message on one line."""
    return str(error).replace("\n", "; ")


def _pairs(hypothesis: Hypothesis, there: Levels) -> list[Pair]:
    """The pairs of levels: one with all others; any two for a difference.

    Neighbours for a direction.
    """
    named, every = [there.named(level) for level in hypothesis.levels], list(there.sides.values())
    if len(named) == 1:
        return [(named[0], other) for other in every if other is not named[0]]
    if hypothesis.direction in ("different", "equivalent"):
        return list(combinations(named or every, 2))
    if not named:
        raise Invalid(f"it does not say which level of {hypothesis.factor} is {hypothesis.direction}")
    return list(pairwise(named))


def _test(question: HypothesisPairs, plan: AnalysisPlan) -> Finding:
    """Test one hypothesis by the plan's test.

    A direction must hold for every pair, so the largest p-value decides; a difference must hold for one pair,
    so the smallest p-value does, after Holm's correction among the pairs.
    """
    if question.measured is None or not question.pairs:
        return replace(question.empty, reason=question.empty.reason or "there are no two levels to compare")
    if question.margin is not None:
        return _margin_test(question, plan, question.margin)
    for_it, against = SIDES[question.direction]
    try:
        found = _contrasts(question, plan, for_it)
        other = [] if against is None else _contrasts(question, plan, against)
    except Invalid as error:
        return replace(question.empty, reason=_line(error))
    p, opposite = (_decisive(each, question.direction) for each in (found, other))
    done = _completed(question, found, p, opposite)
    if all(one.tailed is None for one in found):
        return done
    p, opposite = (_decisive(_with_tails(each), question.direction) for each in (found, other))
    return replace(done, tailed=(p, opposite))


def _with_tails(found: Sequence[Contrast]) -> list[Contrast]:
    """The contrasts with the p-values that they have if few units hide a long tail."""
    return [one if one.tailed is None else replace(one, adjusted=one.tailed) for one in found]


def _margin_test(question: HypothesisPairs, plan: AnalysisPlan, margin: float) -> Finding:
    """Test a hypothesis with a margin; it must hold for every pair, so the largest p-value decides."""
    if plan.test or plan.correction in JOINT:
        way = plan.test or plan.correction
        why = f"a margin is tested by the interval that fits the data, and not by {way}"
        return replace(question.empty, reason=why)
    assert question.measured is not None
    found = _contrasts(question, plan, "two-sided")
    differences, alpha = Differences(question.measured), question.empty.alpha
    sides = [differences.between(*pair, question.factor) for pair in question.pairs]
    chances = [margin_evidence(one, question.direction, margin, alpha) for one in sides]
    for_it, against = ([one[at] for one in chances] for at in (0, 1))
    done = _completed(question, found, _largest(for_it), _largest(against))
    if any(one.tailed_spread is not None for one in sides):
        then = [margin_evidence(one, question.direction, margin, alpha, tailed=True) for one in sides]
        done = replace(done, tailed=(_largest([p for p, _ in then]), _largest([p for _, p in then])))
    if not any(one.found.one.lost + one.found.two.lost for one in sides):
        return done
    return replace(done, at_worst=_margin_at_worst(question, sides, margin, alpha))


def _margin_at_worst(
    question: HypothesisPairs, sides: Sequence[Difference], margin: float, alpha: float
) -> tuple[float | None, float | None]:
    """The largest p-values for and against a margin, with the lost trials at either end of the score."""
    assert question.measured is not None
    ends = question.measured.ends
    if ends is None:
        return None, None
    chances = [
        margin_evidence(one.imputed(each), question.direction, margin, alpha)
        for one in sides
        for each in (ends, ends[::-1])
    ]
    return _largest([one[0] for one in chances]), _largest([one[1] for one in chances])


def _largest(chances: Sequence[float | None]) -> float | None:
    """The largest p-value; None if one is unknown."""
    known = [p for p in chances if p is not None]
    return max(known) if known and len(known) == len(chances) else None


def _contrasts(
    question: HypothesisPairs, plan: AnalysisPlan, alternative: Alternative, level: float | None = None
) -> list[Contrast]:
    """The contrasts of all pairs of a hypothesis; `level` is that of intervals, if not that of the test."""
    assert question.measured is not None
    alpha = question.empty.alpha
    wish = ComparisonOptions(
        level=level or 1 - alpha, test=plan.test, correction=None, alternative=alternative
    )
    differences = Differences(question.measured)
    found = [contrast(differences, *pair, wish, alpha, question.factor) for pair in question.pairs]
    several = question.direction == "different" and len(found) > 1
    return Family(question.pairs, "holm", wish.level).adjusted(found) if several else found


def _decisive(found: Sequence[Contrast], direction: str) -> float | None:
    """The p-value that decides: the smallest for a difference, the largest for a direction."""
    chances = [one.adjusted for one in found]
    known = [p for p in chances if p is not None]
    if not known or (direction != "different" and len(known) < len(chances)):
        return None
    return min(known) if direction == "different" else max(known)


def _completed(
    question: HypothesisPairs, found: Sequence[Contrast], p: float | None, opposite: float | None
) -> Finding:
    """The finding completed with contrasts and p-values."""
    reason = "" if p is not None else "the data do not allow the test"
    return replace(question.empty, contrasts=tuple(found), p=p, adjusted=p, opposite=opposite, reason=reason)


def _jointly(questions: Sequence[HypothesisPairs], plan: AnalysisPlan) -> list[Finding]:
    """Test all pairs of the plan jointly by Dunnett or Tukey; two-sided for every direction."""
    able = [one for one in questions if one.pairs and one.measured is not None]
    if len({(one.factor, one.empty.outcome) for one in able}) > 1:
        why = f"{plan.correction} needs hypotheses about one factor and one outcome"
        return [replace(one.empty, reason=one.empty.reason or why) for one in questions]
    pairs = {(one.label, two.label): (one, two) for each in able for one, two in each.pairs}
    whole = HypothesisPairs(replace(questions[0].empty, alpha=plan.alpha), "")
    if able:
        whole = replace(whole, factor=able[0].factor, measured=able[0].measured, pairs=tuple(pairs.values()))
    reach = Differences(whole.measured).reach if whole.measured else None
    try:
        family = Family(whole.pairs, plan.correction, 1 - plan.alpha)
        found = _contrasts(whole, plan, "two-sided", family.own_level) if pairs else []
        found = family.adjusted(found, reach=reach)
    except Invalid as error:
        return [replace(one.empty, reason=one.empty.reason or _line(error)) for one in questions]
    joint = {(one.first, one.second): one for one in found}
    return [_directed(one, [joint[a.label, b.label] for a, b in one.pairs]) for one in questions]


def _directed(question: HypothesisPairs, found: Sequence[Contrast]) -> Finding:
    """The finding of one hypothesis from the joint two-sided tests and its direction."""
    if not found:
        return replace(question.empty, reason=question.empty.reason or "there are no two levels to compare")
    p = _decisive(found, question.direction)
    if question.direction == "different":
        tail = (
            None
            if all(one.tailed is None for one in found)
            else (_decisive(_with_tails(found), "different"), None)
        )
        return replace(_completed(question, found, p, None), tailed=tail)
    sign = 1 if question.direction == "greater" else -1
    ways = {one.difference is not None and sign * one.difference.mean > 0 for one in found}
    done = _completed(question, found, p if ways == {True} else 1.0, p if ways == {False} else None)
    if all(one.tailed is None for one in found):
        return done
    q = _decisive(_with_tails(found), question.direction)
    return replace(done, tailed=(q if ways == {True} else 1.0, q if ways == {False} else None))
