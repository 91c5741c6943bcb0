"""Failures: how many of which kind, under which conditions, and what they could have changed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from peira.analysis.results import Results
from peira.analysis.table import Table
from peira.analysis.trials import FAILED, FailureRow, TrialResult
from peira.core.events import State
from peira.core.words import counted
from peira.report.numbers import condition_of
from peira.report.value import FailureKind, Lost

MOST_KINDS, MOST_WHERE, MOST_MESSAGE = 12, 3, 300


def lost(
    results: Results, trials: Sequence[TrialResult], table: Table, by: Sequence[str], score: str
) -> Lost:
    """`score` is the one that the answer is about: its means are bounded, by the groups of the table."""
    rows = results.failures
    missing = any(trial.state is not State.succeeded for trial in trials) or rows
    bounds = tuple(_bounds(results, table, score)) if missing and score in _scores(table) else ()
    return Lost(_sentence(trials, rows), tuple(_kinds(rows, by)), bounds)


def _scores(table: Table) -> set[str | None]:
    return {row.score for row in table.body}


def _bounds(results: Results, table: Table, score: str) -> list[str]:
    own = results.table(*table.by, score=score.partition("=")[0], level=table.level)
    return [note for note in own.notes if " lost trial" in note or "more means with lost" in note]


def _sentence(trials: Sequence[TrialResult], rows: Sequence[FailureRow]) -> str:
    failed = sum(trial.state in FAILED for trial in trials)
    left = sum(trial.state not in FAILED and trial.state is not State.succeeded for trial in trials)
    total = counted(len(trials), "trial")
    said = [f"{failed:,} of {total} failed"] if failed else [f"None of {total} failed"]
    scores = sum(bool(row.score) for row in rows)
    said += [f"{counted(scores, 'score')} of others failed"] if scores else []
    said += [f"{left:,} have not ended"] if left else []
    return f"{', '.join(said)}." if trials else "There are no trials."


def _kinds(rows: Sequence[FailureRow], by: Sequence[str]) -> list[FailureKind]:
    groups: dict[tuple[str, str], list[FailureRow]] = {}
    for row in rows:
        kind = row.failure.type if row.failure else row.state.value
        groups.setdefault((row.score or row.stage, kind), []).append(row)
    often = sorted(groups.items(), key=lambda item: (-len(item[1]), item[0]))
    told = [_kind(stage, kind, found, by) for (stage, kind), found in often[:MOST_KINDS]]
    if rest := sum(len(found) for _, found in often[MOST_KINDS:]):
        told.append(FailureKind("", f"{len(often) - MOST_KINDS} other kinds", rest, "", ""))
    return told


def _kind(stage: str, kind: str, found: Sequence[FailureRow], by: Sequence[str]) -> FailureKind:
    places = Counter(condition_of(row.trial, by) for row in found)
    where = [f"{label} ({n:,})" for label, n in places.most_common(MOST_WHERE)] if by else []
    where += [f"{len(places) - MOST_WHERE} more"] if by and len(places) > MOST_WHERE else []
    message = next((row.failure.message for row in found if row.failure), "")
    return FailureKind(stage, kind, len(found), message[:MOST_MESSAGE], "; ".join(where))
