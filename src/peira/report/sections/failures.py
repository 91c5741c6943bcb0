"""Failures by kind and condition, and worst-case bounds of the main score's means."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import islice

from peira.analysis.compare.difference import Differences
from peira.analysis.compare.sensitivity import Sensitivity, sensitivity
from peira.analysis.compare.sides import choose_pairs, levels_of
from peira.analysis.results import Results
from peira.analysis.table.groups import LOST
from peira.analysis.table.means import Loss, remarks
from peira.analysis.table.measures import Measured, Observation
from peira.core.log.events import TERMINAL, State
from peira.core.text.words import counted
from peira.report.labels import ConditionLabels, level_text
from peira.report.value import FailureKind, Failures
from peira.results.trials import FailureRow, TrialResult, end_counts
from peira.stats.intervals.means import Limits

DONE = State.succeeded
MOST_KINDS, MOST_WHERE, MOST_MESSAGE = 12, 3, 300
MOST_CURVES = 6
"""The number of differences whose sensitivity to lost trials is shown."""


def failures(
    results: Results,
    trials: Sequence[TrialResult],
    measured: Measured | None,
    labels: ConditionLabels,
    level: float,
) -> Failures:
    """The failures of the run; the means of `measured`, the main score, get worst-case bounds.

    Bounds are by condition at the confidence level; without a main score there are none. So are the
    sensitivity curves of the differences between levels.
    """
    rows = results.failures
    bounds = tuple(remarks(_losses(measured, labels), level)) if measured else ()
    curves = tuple(islice(_curves(measured, labels.by, level), MOST_CURVES)) if measured else ()
    return Failures(_sentence(trials, rows), tuple(_kinds(rows, labels)), bounds, curves)


def _curves(measured: Measured, by: Sequence[str], level: float) -> Iterator[Sensitivity]:
    """The sensitivity curves of all pairs of levels that lost trials, factor by factor."""
    differences = Differences(measured)
    for factor in by:
        for one, two in choose_pairs(levels_of(measured, factor)):
            found = sensitivity(differences.between(one, two, factor), measured.name, level)
            if found is not None:
                names = level_text(factor, found.first), level_text(factor, found.second)
                yield replace(found, first=names[0], second=names[1])


def _losses(measured: Measured, labels: ConditionLabels) -> list[Loss]:
    """The observed and lost values of each condition."""
    groups: dict[str, list[Observation]] = {}
    for one in measured.observations:
        groups.setdefault(labels.full(one.trial), []).append(one)
    return [
        _loss(label if labels.by else "", group, measured.name, measured.ends)
        for label, group in groups.items()
    ]


def _loss(label: str, group: Sequence[Observation], score: str, limits: Limits | None) -> Loss:
    """The observed and lost values of one condition."""
    known = [(one.value, one.trial.unit) for one in group if one.value is not None]
    gone = [
        one.trial.unit
        for one in group
        if one.value is None and one.trial.state in (*LOST, DONE) and not _is_to_come(one.trial, score)
    ]
    values, units = [value for value, _ in known], [unit for _, unit in known]
    return Loss(label, score, values, units, gone, limits)


def _is_to_come(trial: TrialResult, name: str) -> bool:
    """Whether the score, or the one of which it is a part, has not been made yet: then it is not lost."""
    score = trial.scores.get(name) or trial.scores.get(name.rpartition(".")[0])
    return score is not None and score.state not in TERMINAL


def _sentence(trials: Sequence[TrialResult], rows: Sequence[FailureRow]) -> str:
    """The number of failures and unfinished trials, as one sentence."""
    ends = end_counts(trial.state for trial in trials)
    failed, total = ends.pop("failed", 0), counted(len(trials), "trial")
    parts = [f"{failed:,} of {total} failed"] if failed else [f"None of {total} failed"]
    scores = sum(bool(row.score) for row in rows)
    parts += [f"{counted(scores, 'score')} of others failed"] if scores else []
    parts += [f"{n:,} {'is' if n == 1 else 'are'} {word}" for word, n in ends.items()]
    answered = (trial for trial in trials if trial.state is DONE)
    to_come = sum(score.state not in TERMINAL for trial in answered for score in trial.scores.values())
    parts += (
        [f"{counted(to_come, 'score')} {'is' if to_come == 1 else 'are'} not made yet"] if to_come else []
    )
    return f"{', '.join(parts)}." if trials else "There are no trials."


def _kinds(rows: Sequence[FailureRow], labels: ConditionLabels) -> list[FailureKind]:
    """Failures grouped by stage and kind, most frequent first."""
    groups: dict[tuple[str, str, str], list[FailureRow]] = {}
    for row in rows:
        kind = row.failure.type if row.failure else row.state.value
        groups.setdefault((row.score or row.stage, row.cause, kind), []).append(row)
    often = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    shown = [_kind(stage, kind, found, labels) for (stage, _, kind), found in often[:MOST_KINDS]]
    if rest := sum(len(found) for _, found in often[MOST_KINDS:]):
        shown.append(FailureKind("", f"{len(often) - MOST_KINDS} other kinds", rest, "", ""))
    return shown


def _kind(stage: str, kind: str, found: Sequence[FailureRow], labels: ConditionLabels) -> FailureKind:
    """One kind of failures."""
    places = Counter(labels.full(row.trial) for row in found)
    where = [f"{label} ({n:,})" for label, n in places.most_common(MOST_WHERE)] if labels.by else []
    where += [f"{len(places) - MOST_WHERE} more"] if labels.by and len(places) > MOST_WHERE else []
    message = next((row.failure.message for row in found if row.failure), "")
    return FailureKind(stage, kind, len(found), message[:MOST_MESSAGE], "; ".join(where), found[0].cause)
