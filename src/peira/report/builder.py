"""Builds the report of a run as one value, independent of the output format."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from peira.analysis.compare.hypotheses import Finding
from peira.analysis.cost import Bill
from peira.analysis.results import Results
from peira.analysis.table.groups import varying
from peira.analysis.table.measures import Measured, measure
from peira.analysis.table.reliability import drift
from peira.analysis.table.slices import Slices
from peira.analysis.table.value import Table
from peira.core.clock import stamp
from peira.core.ids import Json
from peira.core.text.grid import cell
from peira.errors import Invalid, Unknown
from peira.report.labels import ConditionLabels, level_text, spread
from peira.report.sections.answer import answer, question
from peira.report.sections.curves import calibration, convergence, distributions, heat_map
from peira.report.sections.examples import chosen_examples, omitted_examples, trial_example
from peira.report.sections.failures import failures
from peira.report.sections.methods import methods, versions
from peira.report.sections.scores import ScoreQuery, scored, table_of
from peira.report.sections.spending import spending
from peira.report.sections.threats import ThreatEvidence, threats
from peira.report.value import Convergence, PlotPoint, Report, ReportedCondition, Scored
from peira.results.trials import TrialResult, end_counts, end_word

MOST_CONDITIONS = 60
"""The largest number of conditions that are listed."""
Tell = Callable[[str], None]
"""A callback that receives the name of each stage of the work."""


def build(
    results: Results,
    *,
    level: float = 0.95,
    trials: int = 200,
    score: str | None = None,
    tell: Tell = lambda stage: None,
) -> Report:
    """Build the report of these results.

    `trials` is the number of trials shown in full. `score`, if given, becomes the main score. `tell` is a
    progress callback. Raises Invalid for a level outside (0, 1) or a negative number of trials.
    """
    _check(level, trials)
    tell("reading the trials")
    every = [trial for trial in results.trials if not trial.anchor]
    by = varying(every) if every else ()
    labels = ConditionLabels(by)
    query = ScoreQuery(by, len(set(map(labels.levels, every))), level)
    tell("estimating means and effects")
    findings = _named(results)
    table = table_of(results, query)
    scores = scored(results, table, findings, query, score)
    measured = _measured(every, scores)
    tell("choosing trials to show")
    picked = chosen_examples(every, measured, trials)
    bill = results.cost
    drifted = tuple(drift(results.trials))
    known, snapshot = results.background, _snapshot(results)
    lost = failures(results, every, measured, labels, level)
    return Report(
        study=results.study,
        title=str(snapshot.get("title") or results.study),
        run=results.run_id,
        status=results.status,
        when=stamp(known.run.finished or known.run.planned)[:19].replace("T", " ") + " UTC" if known else "",
        level=level,
        question=question(results, snapshot, scores, by),
        answer=answer(results, findings, scores, lost.curves),
        declared=bool(findings) or (results.live is not None and results.live.compares),
        facts=tuple(_facts(bill, every, query)),
        findings=findings,
        scores=scores,
        spending=spending(results, every, bill),
        lost=lost,
        deviations=known.standing if known else (),
        drift=drifted,
        methods=methods(results, every, findings, scores, level),
        versions=versions(known),
        threats=threats(ThreatEvidence(results, every, findings, scores, drifted, lost.curves)),
        conditions=_conditions(every, table, labels),
        conditions_left=max(0, query.conditions - MOST_CONDITIONS),
        trials=trial_example(results, picked, labels, scores[0].name if scores else ""),
        not_shown=omitted_examples(results, len(every), len(picked)),
        convergence=_convergence(results, measured, scores, level),
        calibration=calibration(every, level),
        heat=heat_map(measured, labels) if measured else None,
        distributions=distributions(every, measured, labels),
        slices=_slices(results, every, scores, level),
        notes=_notes(results),
    )


def _named(results: Results) -> tuple[Finding, ...]:
    """The verdicts on the hypotheses; the levels that they compare carry the names of their factors."""
    factors = {one.id: one.factor for one in results.aims.hypotheses} if results.aims else {}
    named = []
    for finding in results.hypotheses().found:
        factor = factors.get(finding.hypothesis, "")
        contrasts = (
            replace(one, first=level_text(factor, one.first), second=level_text(factor, one.second))
            for one in finding.contrasts
        )
        named.append(replace(finding, contrasts=tuple(contrasts)))
    return tuple(named)


def _notes(results: Results) -> tuple[str, ...]:
    """The notes that apply to every number, without those on the frozen plan, which have a section."""
    known = results.background
    elsewhere = set(known.standing) if known else set()
    return tuple(note for note in dict.fromkeys(results.notes) if note not in elsewhere)


def _check(level: float, trials: int) -> None:
    """Raise Invalid for a level or a number of trials out of range."""
    problems = [f"level: must lie between 0 and 1, not {level!r}"] if not 0 < level < 1 else []
    problems += [f"trials: must be at least 0, not {trials!r}"] if trials < 0 else []
    if problems:
        raise Invalid(problems)


def _snapshot(results: Results) -> Mapping[str, Json]:
    """The study as stored with the run; empty if unknown."""
    stored = results.background.manifest.snapshot if results.background else None
    return stored if isinstance(stored, Mapping) else {}


def _measured(trials: list[TrialResult], scores: tuple[Scored, ...]) -> Measured | None:
    """The observations of the main score; None if there are none."""
    try:
        return measure(trials, scores[0].name) if scores else None
    except (Invalid, Unknown):
        return None  # reported with its effects already


def _slices(
    results: Results, trials: list[TrialResult], scores: tuple[Scored, ...], level: float
) -> Slices | None:
    """The means of slices by the main score; None if there are fewer than two slices, or no score."""
    named = {trial.slice for trial in trials if trial.slice is not None}
    declared = results.aims.slices if results.aims else ()
    if not scores or (len(named) < 2 and not declared):
        return None
    try:
        return results.slices(score=scores[0].name, level=level)
    except (Invalid, Unknown):
        return None  # a score without a mean, reported with its effects already


def _facts(bill: Bill, trials: list[TrialResult], query: ScoreQuery) -> list[tuple[str, str]]:
    """The key figures of the run."""
    ends = {"failed": 0, **end_counts(trial.state for trial in trials)}
    facts = [
        ("trials", f"{len(trials):,}"),
        ("cases", f"{len({trial.case_id for trial in trials}):,}"),
        ("conditions", f"{query.conditions:,}"),
        *((word, f"{n:,}") for word, n in ends.items()),
    ]
    return [*facts, ("cost", bill.price)] if bill.calls else facts


def _conditions(
    trials: list[TrialResult], table: Table, labels: ConditionLabels
) -> tuple[ReportedCondition, ...]:
    """The counts and means of each condition, up to `MOST_CONDITIONS`."""
    counts: dict[str, list[int]] = {}
    for trial in trials:
        count = counts.setdefault(labels.full(trial), [0, 0])
        count[0] += 1
        count[1] += end_word(trial.state) == "failed"
    means: dict[str, list[tuple[str, str]]] = {}
    for row in table.body if table.by == labels.by else ():
        label = labels.named([cell(value) for value in row.labels])
        point = PlotPoint("", row.mean, row.low, row.high, method=row.method)
        means.setdefault(label, []).append((row.score or "", spread(point)))
    some = list(counts.items())[:MOST_CONDITIONS]
    return tuple(
        ReportedCondition(label, n, failed, tuple(means.get(label, ()))) for label, (n, failed) in some
    )


def _convergence(
    results: Results, measured: Measured | None, scores: tuple[Scored, ...], level: float
) -> Convergence | None:
    """The convergence of the largest difference between two levels, or else of the mean."""
    if measured is None:
        return None
    found = scores[0].effects
    two = [e for e in found.effects if " x " not in e.term and " - " in e.label] if found else []
    if found is None or not two:
        return convergence(results, measured, "", ("", ""), level)
    term = max(two, key=lambda effect: abs(effect.estimate.mean)).term
    first, second = (one.level for one in found.means if one.factor == term)
    return convergence(results, measured, term, (first, second), level)
