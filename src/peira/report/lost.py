"""Failures: how many of which kind, under which conditions, and what they could have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from peira.analysis.measures import Measured, Observation
from peira.analysis.missing import Loss, remarks
from peira.analysis.results import Results
from peira.analysis.trials import FAILED, FailureRow, TrialResult
from peira.core.events import State
from peira.core.words import counted
from peira.report.labels import Labels
from peira.report.value import FailureKind, Lost

MOST_KINDS, MOST_WHERE, MOST_MESSAGE = 12, 3, 300


def lost(
    results: Results, trials: Sequence[TrialResult], measured: Measured | None, labels: Labels, level: float
) -> Lost:
    """`measured` is what the answer is about: its means are bounded, by condition."""
    rows = results.failures
    bounds = tuple(remarks(_losses(measured, labels), level)) if measured else ()
    return Lost(_sentence(trials, rows), tuple(_kinds(rows, labels)), bounds)


def _losses(measured: Measured, labels: Labels) -> list[Loss]:
    groups: dict[str, list[Observation]] = {}
    for one in measured.observations:
        groups.setdefault(labels.short(one.trial), []).append(one)
    return [_loss(label if labels.by else "", group, measured.name) for label, group in groups.items()]


def _loss(label: str, group: Sequence[Observation], score: str) -> Loss:
    known = [(one.value, one.trial.unit) for one in group if one.value is not None]
    gone = [one.trial.unit for one in group if one.value is None]
    names = (label,) if label else ()
    return Loss(names, score, [value for value, _ in known], [unit for _, unit in known], gone)


def _sentence(trials: Sequence[TrialResult], rows: Sequence[FailureRow]) -> str:
    failed = sum(trial.state in FAILED for trial in trials)
    left = sum(trial.state not in FAILED and trial.state is not State.succeeded for trial in trials)
    total = counted(len(trials), "trial")
    said = [f"{failed:,} of {total} failed"] if failed else [f"None of {total} failed"]
    scores = sum(bool(row.score) for row in rows)
    said += [f"{counted(scores, 'score')} of others failed"] if scores else []
    said += [f"{left:,} have not ended"] if left else []
    return f"{', '.join(said)}." if trials else "There are no trials."


def _kinds(rows: Sequence[FailureRow], labels: Labels) -> list[FailureKind]:
    groups: dict[tuple[str, str], list[FailureRow]] = {}
    for row in rows:
        kind = row.failure.type if row.failure else row.state.value
        groups.setdefault((row.score or row.stage, kind), []).append(row)
    often = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    told = [_kind(stage, kind, found, labels) for (stage, kind), found in often[:MOST_KINDS]]
    if rest := sum(len(found) for _, found in often[MOST_KINDS:]):
        told.append(FailureKind("", f"{len(often) - MOST_KINDS} other kinds", rest, "", ""))
    return told


def _kind(stage: str, kind: str, found: Sequence[FailureRow], labels: Labels) -> FailureKind:
    places = Counter(labels.full(row.trial) for row in found)
    where = [f"{label} ({n:,})" for label, n in places.most_common(MOST_WHERE)] if labels.by else []
    where += [f"{len(places) - MOST_WHERE} more"] if labels.by and len(places) > MOST_WHERE else []
    message = next((row.failure.message for row in found if row.failure), "")
    return FailureKind(stage, kind, len(found), message[:MOST_MESSAGE], "; ".join(where))
