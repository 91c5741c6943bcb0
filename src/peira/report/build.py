"""From results to a report: every part worked out once, whatever is then written."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from peira.analysis.drift import drift
from peira.analysis.layout import cell
from peira.analysis.measures import Measured, measure
from peira.analysis.money import Bill
from peira.analysis.ranking import varying
from peira.analysis.results import Results
from peira.analysis.table import Table
from peira.analysis.trials import FAILED, TrialResult
from peira.core.clock import stamp
from peira.core.events import State
from peira.core.ids import Json
from peira.errors import Invalid, Unknown
from peira.report.answer import answer, question
from peira.report.curves import calibration, convergence, heat_map
from peira.report.labels import Labels
from peira.report.lost import lost
from peira.report.methods import methods, versions
from peira.report.numbers import spread
from peira.report.scores import Asked, scored, table_of
from peira.report.showing import chosen, not_shown, shown
from peira.report.spending import spending
from peira.report.threats import Seen, threats
from peira.report.value import Condition, Convergence, Point, Report, Scored

MOST_CONDITIONS = 60
Tell = Callable[[str], None]


def build(
    results: Results,
    *,
    level: float = 0.95,
    trials: int = 200,
    score: str | None = None,
    tell: Tell = lambda stage: None,
) -> Report:
    """The report of these results; `trials` of them are shown whole; `score`, if it is named, comes first.
    `tell` hears what is being worked out."""
    _check(level, trials)
    tell("reading the trials")
    every = [trial for trial in results.trials if not trial.anchor]
    by = varying(every) if every else ()
    labels = Labels(by)
    asked = Asked(by, len(set(map(labels.levels, every))), level)
    tell("estimating means and effects")
    findings = results.hypotheses().found
    table = table_of(results, asked)
    scores = scored(results, table, findings, asked, score)
    measured = _measured(every, scores)
    tell("choosing trials to show")
    picked = chosen(every, measured, trials)
    bill = results.cost
    drifted = tuple(drift(results.trials))
    known, snapshot = results.background, _snapshot(results)
    return Report(
        study=results.study,
        title=str(snapshot.get("title") or results.study),
        run=results.run_id,
        status=results.status,
        when=stamp(known.run.finished or known.run.planned)[:19].replace("T", " ") + " UTC" if known else "",
        level=level,
        question=question(results, snapshot, scores, by),
        answer=answer(results, findings, scores),
        declared=bool(findings),
        facts=tuple(_facts(bill, every, asked)),
        findings=findings,
        scores=scores,
        spending=spending(results, every, bill),
        lost=lost(results, every, measured, labels, level),
        deviations=known.standing if known else (),
        drift=drifted,
        methods=methods(results, every, findings, scores, level),
        versions=versions(known),
        threats=threats(Seen(results, every, findings, scores, drifted)),
        conditions=_conditions(every, table, labels),
        conditions_left=max(0, asked.conditions - MOST_CONDITIONS),
        trials=shown(results, picked, labels),
        not_shown=not_shown(results, len(every), len(picked)),
        convergence=_convergence(results, measured, scores, level),
        calibration=calibration(every, level),
        heat=heat_map(measured, labels) if measured else None,
        notes=_notes(results),
    )


def _notes(results: Results) -> tuple[str, ...]:
    """What must be said beside every number, but for how the run stands to its plan: that has a place."""
    known = results.background
    elsewhere = set(known.standing) if known else set()
    return tuple(note for note in dict.fromkeys(results.notes) if note not in elsewhere)


def _check(level: float, trials: int) -> None:
    problems = [f"level: must lie between 0 and 1, not {level!r}"] if not 0 < level < 1 else []
    problems += [f"trials: must be at least 0, not {trials!r}"] if trials < 0 else []
    if problems:
        raise Invalid(problems)


def _snapshot(results: Results) -> Mapping[str, Json]:
    said = results.background.manifest.snapshot if results.background else None
    return said if isinstance(said, Mapping) else {}


def _measured(trials: list[TrialResult], scores: tuple[Scored, ...]) -> Measured | None:
    try:
        return measure(trials, scores[0].name) if scores else None
    except (Invalid, Unknown):
        return None  # said already, where its effects are


def _facts(bill: Bill, trials: list[TrialResult], asked: Asked) -> list[tuple[str, str]]:
    failed = sum(trial.state in FAILED for trial in trials)
    left = sum(trial.state not in FAILED and trial.state is not State.succeeded for trial in trials)
    facts = [
        ("trials", f"{len(trials):,}"),
        ("cases", f"{len({trial.case_id for trial in trials}):,}"),
        ("conditions", f"{asked.conditions:,}"),
        ("failed", f"{failed:,}"),
    ]
    facts += [("not ended", f"{left:,}")] if left else []
    return [*facts, ("cost", bill.price)] if bill.calls else facts


def _conditions(trials: list[TrialResult], table: Table, labels: Labels) -> tuple[Condition, ...]:
    """What became of each condition; of very many, the first."""
    counts: dict[str, list[int]] = {}
    for trial in trials:
        count = counts.setdefault(labels.full(trial), [0, 0])
        count[0] += 1
        count[1] += trial.state in FAILED
    means: dict[str, list[tuple[str, str]]] = {}
    for row in table.body if table.by == labels.by else ():
        label = labels.named([cell(value) for value in row.labels])
        point = Point("", row.mean, row.low, row.high)
        means.setdefault(label, []).append((row.score or "", spread(point)))
    some = list(counts.items())[:MOST_CONDITIONS]
    return tuple(Condition(label, n, failed, tuple(means.get(label, ()))) for label, (n, failed) in some)


def _convergence(
    results: Results, measured: Measured | None, scores: tuple[Scored, ...], level: float
) -> Convergence | None:
    """Of the largest difference between two levels, if there is one; else of the mean."""
    if measured is None:
        return None
    found = scores[0].effects
    two = [e for e in found.effects if " x " not in e.term and " - " in e.label] if found else []
    if found is None or not two:
        return convergence(results, measured, "", ("", ""), level)
    term = max(two, key=lambda effect: abs(effect.estimate.mean)).term
    first, second = (one.level for one in found.means if one.factor == term)
    return convergence(results, measured, term, (first, second), level)
