"""The question of a study, and its answer in one sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from peira.analysis.compare.hypotheses import Finding
from peira.analysis.compare.sensitivity import Sensitivity
from peira.analysis.effects.factor_effects import Effect, Effects, TermTest
from peira.analysis.results import Results
from peira.core.ids import Json
from peira.core.log.events import State
from peira.core.text.words import counted
from peira.report.labels import change, level_text, listed, p_value_text, spread
from peira.report.value import Scored
from peira.results.trials import end_counts

MOST_TOLD = 3
"""The largest number of findings or effects in the answer."""


def question(
    results: Results, snapshot: Mapping[str, Json], scores: Sequence[Scored], by: Sequence[str]
) -> str:
    """The question of the study.

    In this order: a title that is a question, the first paragraph of its rationale or description, its
    hypotheses' statements, or a generated question.
    """
    title = str(snapshot.get("title") or "").strip()
    texts = [
        str(snapshot.get(name) or "").strip().partition("\n\n")[0] for name in ("rationale", "description")
    ]
    for text in (title if title.endswith("?") else "", *texts):
        if text:
            return text
    stated = [h.statement for h in results.aims.hypotheses if h.statement] if results.aims else []
    if stated:
        return " ".join(f"{one.rstrip('.?!')}?" for one in stated)
    what = scores[0].name if scores else "the outcome"
    if by:
        return f"What {'does' if len(by) == 1 else 'do'} {listed(list(by))} do to {what}?"
    return f"How well does {results.study} do, by {what}?"


def answer(
    results: Results,
    findings: Sequence[Finding],
    scores: Sequence[Scored],
    curves: Sequence[Sensitivity] = (),
) -> str:
    """The answer in one sentence, claiming no more than the numbers support.

    By the verdicts if hypotheses were declared, else by the effects of the main score, else by its means.
    Says so if there are no results or no scores. What lost trials could overturn, by the sensitivity
    `curves`, is said first.
    """
    if findings:
        return _decided(findings)
    states = [trial.state for trial in results.trials if not trial.anchor]
    done = states.count(State.succeeded)
    if not done:
        return _nothing(len(states), end_counts(states))
    if not scores:
        outputs = f"{done:,} of {counted(len(states), 'trial')} have an output"
        return f"Nothing was measured: {outputs}, and the study has no score for them."
    main = scores[0]
    if results.live is not None and main.sentences:
        return " ".join(main.sentences[:MOST_TOLD])
    if main.effects is not None and main.effects.effects:
        return f"{doubt(curves)}{lost_terms(main.effects)}{hidden(main.effects)}{_effects(main.effects)}"
    return _means(main)


def doubt(curves: Sequence[Sensitivity]) -> str:
    """Which differences the lost trials could overturn, to be said before the answer; empty if none."""
    weak = [one for one in curves if one.overturnable]
    if not weak:
        return ""
    shown = [f"{one.first} - {one.second} (if they differ by {one.tipping:.2g})" for one in weak[:MOST_TOLD]]
    more = [f"{len(weak) - MOST_TOLD} more"] if len(weak) > MOST_TOLD else []
    return f"Lost trials could overturn {listed([*shown, *more])}: "


def lost_terms(found: Effects) -> str:
    """Which interactions lost trials could overturn, to be said before the answer; empty if none.

    What they could do to differences of levels, curves say.
    """
    weak = [test for test in found.tests if test.lost and " x " in test.term]
    if not weak:
        return ""
    more = [f"{len(weak) - MOST_TOLD} more"] if len(weak) > MOST_TOLD else []
    named = listed([*(test.term for test in weak[:MOST_TOLD]), *more])
    return f"{counted(weak[0].lost, 'lost trial')} could overturn {named}: "


def hidden(found: Effects) -> str:
    """Which effects a tail that few units hide could overturn, to be said before the answer."""
    weak = [test.term for test in found.tests if test.hides_tail(round(1 - found.level, 12))]
    if not weak:
        return ""
    more = [f"{len(weak) - MOST_TOLD} more"] if len(weak) > MOST_TOLD else []
    units = counted(found.units, "unit")
    return f"A long tail that {units} may hide could overturn {listed([*weak[:MOST_TOLD], *more])}: "


def _nothing(trials: int, ends: Mapping[str, int]) -> str:
    """The answer if no trial has succeeded."""
    if not trials:
        return "There is no answer: the run has no trials."
    if ends.get("failed") == trials:
        return f"There is no answer: all {counted(trials, 'trial')} failed."
    words = ", ".join(f"{n:,} {word}" for word, n in {"failed": 0, **ends}.items())
    return f"There is no answer yet: of {counted(trials, 'trial')} none has succeeded ({words})."


def _decided(findings: Sequence[Finding]) -> str:
    """The answer by the verdicts on the hypotheses."""
    if len(findings) <= MOST_TOLD:
        return f"{'; '.join(map(_finding, findings))}."
    verdicts = ("supported", "rejected", "undecided")
    groups = {verdict: [one.hypothesis for one in findings if one.verdict == verdict] for verdict in verdicts}
    counts = [f"{len(ids):,} {verdict} ({', '.join(ids)})" for verdict, ids in groups.items() if ids]
    return f"Of {len(findings)} hypotheses {listed(counts)}."


def _finding(one: Finding) -> str:
    """One verdict with its evidence, as text."""
    name = f"{one.hypothesis} ({one.statement.rstrip('.')})" if one.statement else one.hypothesis
    name = f"{one.doubt}{name}"
    if one.reason:
        return f"{name} is {one.verdict}: {one.reason}"
    shown = [f"{c.first} - {c.second} {change(c.difference)}" for c in one.contrasts[:MOST_TOLD]]
    more = len(one.contrasts) - len(shown)
    shown += [f"{more} more"] if more > 0 else []
    return f"{name} is {one.verdict}: {', '.join(shown)} in {one.outcome}, {p_value_text(one.adjusted)}"


def _effects(found: Effects) -> str:
    """The answer by effects: what is clear, the largest first, and then how much is not.

    What is not clear has its estimate where it is all there is to say; many of them are only counted.
    """
    alone = [one for one in found.effects if " x " not in one.term and " - " in one.label]
    if len(alone) > MOST_TOLD:
        return _many(found, alone)
    clear, unclear, unknown = (
        [one for one in alone if _verdict(one.p, found) == verdict] for verdict in (True, False, None)
    )
    several = [test for test in found.tests if _is_several(test.term, found)]
    together = [one for one in found.effects if " x " in one.term and " - " in one.label]
    joint = [one for one in together if _verdict(one.p, found)]
    parts = []
    if clear:
        said = listed([f"by {change(e.estimate)} with {rather(e, found)}" for e in _largest(clear)], ", and")
        parts.append(f"changes {said}")
    parts += [_several(test, found) for test in several if _verdict(test.p, found)]
    parts += [f"changes by {change(one.estimate)} with the interaction {one.term}" for one in _largest(joint)]
    if len(joint) > MOST_TOLD:
        parts.append(f"{counted(len(joint) - MOST_TOLD, 'more interaction')} are clear")
    rest = [test for test in several if not _verdict(test.p, found)]
    open_together = len(together) - len(joint)
    if not parts and len(unclear) + len(unknown) + len(rest) == 1:
        parts += [f"does not clearly change with {_aside(one, found)}" for one in unclear]
        parts += [f"cannot be judged, as too little varies, for {_aside(one, found)}" for one in unknown]
        parts += [_several(test, found) for test in rest]
        unclear, unknown, rest = [], [], []
    left = [one.term for one in unclear] + [test.term for test in rest if test.p is not None]
    if open_together == 1:
        left += [f"the interaction {one.term}" for one in together if not _verdict(one.p, found)]
    elif open_together:
        left.append(counted(open_together, "interaction"))
    vague = [one.term for one in unknown] + [test.term for test in rest if test.p is None]
    sentences = [f"{found.score} {'; '.join(parts)}."] if parts else []
    if left and parts:
        sentences.append(f"Not clear: {listed(left)}.")
    elif left:
        sentences.append(f"{found.score} does not clearly change with {listed(left, 'or')}.")
    if vague:
        sentences.append(f"{found.score} cannot be judged, as too little varies, for {listed(vague)}.")
    return " ".join(sentences)


def _largest(effects: Sequence[Effect]) -> list[Effect]:
    """The largest effects, at most `MOST_TOLD`."""
    return sorted(effects, key=lambda one: -abs(one.estimate.mean))[:MOST_TOLD]


def _verdict(p: float | None, found: Effects) -> bool | None:
    """Whether an effect is significant; None if unknown."""
    return None if p is None else p <= 1 - found.level


def rather(one: Effect, found: Effects) -> str:
    """A two-level effect as "factor=second rather than factor=first"."""
    first, second = (level_text(one.term, m.level) for m in found.means if m.factor == one.term)
    return f"{second} rather than {first}"


def _aside(one: Effect, found: Effects) -> str:
    """A two-level effect with its estimate, as text."""
    return f"{rather(one, found)}: {change(one.estimate)}"


def _is_several(term: str, found: Effects) -> bool:
    """Whether the term is a factor with more than two levels."""
    return " x " not in term and not any(e.term == term and " - " in e.label for e in found.effects)


def _several(test: TermTest, found: Effects) -> str:
    """The test of a factor with more than two levels, as text."""
    clear = {True: "differs", False: "does not clearly differ", None: "cannot be judged"}
    return f"{clear[_verdict(test.p, found)]} between the levels of {test.term} ({p_value_text(test.p)})"


def _many(found: Effects, alone: Sequence[Effect]) -> str:
    """The answer if there are many factors: the largest significant effects."""
    known = [one for one in alone if one.p is not None and one.p <= 1 - found.level]
    largest_first = sorted(known, key=lambda one: -abs(one.estimate.mean))[:MOST_TOLD]
    if not largest_first:
        return f"None of {len(alone)} factors clearly changes {found.score}."
    largest = listed([f"{rather(one, found)} {change(one.estimate)}" for one in largest_first])
    return f"{len(known)} of {len(alone)} factors clearly change {found.score}, most of all {largest}."


def _means(main: Scored) -> str:
    """The answer by means, if there are no effects."""
    rows = main.table.body if main.table else ()
    known = [row for row in rows if row.mean is not None]
    if not known:
        return f"There is no answer: no trial has the score {main.name}."
    if len(known) == 1:
        row, cases = known[0], counted(known[0].cases, "case")
        mean = spread(main.points[0]) if main.points else "-"
        return (
            f"{main.name} is {mean} on {cases}."
            if row.low is not None
            else (f"{main.name} is {mean} on {cases}, which says nothing about other cases.")
        )
    low, high = min(r.mean or 0.0 for r in known), max(r.mean or 0.0 for r in known)
    return (
        f"{main.name} lies between {low:.3g} and {high:.3g} in {len(known)} groups; see the "
        "table for intervals."
    )
