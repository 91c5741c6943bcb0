"""Trials as rows and records for other tools: CSV, JSON lines, data frames.

JSON lines keep everything: one object per trial, with the same keys in each (`record`). CSV and data frames
are flat: one row per trial, first the columns of `FIXED`, then, each sorted by name, `condition.<factor>`,
`score.<name>` (or `score.<name>.<key>`) and `metric.<name>`. In CSV texts stand as they are, what is
missing is empty, and everything else is JSON. What failed says so in `state`, `failure` and `failed_scores`.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from peira.analysis.trials import Score, TrialResult, failures, named
from peira.core.events import Failure
from peira.core.ids import Json
from peira.errors import Invalid

FIXED = (
    "run",
    "trial",
    "agent",
    "case",
    "slice",
    "cluster",
    "repeat",
    "state",
    "failure",
    "failed_scores",
    "took",
    "attempts",
    "reused",
    "reused_from",
    "input",
    "expected",
    "output",
    "answer",
    "no_answer",
)
"""The columns that every CSV file and every data frame begins with."""

COMMON = (
    "slice",
    "cluster",
    "repeat",
    "state",
    "took",
    "attempts",
    "reused",
    "reused_from",
    "input",
    "expected",
    "output",
)
"""What rows and records take over from a trial unchanged."""

Load = Callable[[], Iterable[TrialResult]]
asdict = msgspec.structs.asdict


def record(trial: TrialResult, run: str) -> dict[str, Json]:
    """Everything about a trial, as one JSON object with always the same keys."""
    return {
        **_common(trial, run),
        "condition": dict(trial.condition),
        "failure": _failure(trial.failure),
        "scores": {name: _scored(score) for name, score in trial.scores.items()},
        "metrics": dict(trial.metrics),
        "about": dict(trial.about),
        "artifacts": [asdict(artifact) for artifact in trial.artifacts],
        "metadata": dict(trial.metadata),
    }


def _scored(score: Score) -> dict[str, Json]:
    return asdict(score) | {"failure": _failure(score.failure), "metrics": dict(score.metrics)}


def _common(trial: TrialResult, run: str) -> dict[str, Json]:
    names = {"run": run, "trial": trial.id, "agent": trial.agent, "case": trial.case_id}
    found = None if trial.found is None or trial.no_answer else trial.found.value
    answer = {"answer": found, "no_answer": trial.no_answer or None}
    return names | {name: getattr(trial, name) for name in COMMON} | {"state": str(trial.state)} | answer


def _failure(failure: Failure | None) -> dict[str, str] | None:
    return None if failure is None else asdict(failure)


def write_jsonl(trials: Iterable[TrialResult], run: str, path: Path) -> None:
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for trial in trials:
            # msgspec writes what JSON cannot carry (a metric of NaN) as null.
            file.write(encode(record(trial, run)) + b"\n")


def flat(trial: TrialResult, run: str) -> dict[str, Json]:
    """A trial as one row; which columns follow the fixed ones depends on its factors, scores and metrics."""
    broken = {row.score: _line(row.failure) for row in failures(trial) if row.score}
    row = _common(trial, run) | {"failure": _line(trial.failure), "failed_scores": broken or None}
    row |= {f"condition.{name}": value for name, value in trial.condition.items()}
    row |= {f"metric.{name}": value for name, value in trial.metrics.items()}
    for score in trial.scores.values():
        row |= {f"score.{name}": value for name, value in named(score).items()}
    return row


def _line(failure: Failure | None) -> str | None:
    return None if failure is None else f"{failure.type}: {failure.message}"


def columns(rows: Iterable[Mapping[str, Json]]) -> list[str]:
    """All columns of these rows, in their order."""
    found = {name for row in rows for name in row}
    kinds = ("condition.", "score.", "metric.")
    return [*FIXED, *(name for kind in kinds for name in sorted(found) if name.startswith(kind))]


def write_csv(load: Load, run: str, path: Path) -> None:
    """Reads the trials twice, for the columns and for the rows, rather than hold them all."""
    names = columns(flat(trial, run) for trial in load())
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(_cells(flat(trial, run), names) for trial in load())


def _cells(row: dict[str, Json], names: Sequence[str]) -> list[str]:
    cells = [_text(row.pop(name, None)) for name in names]
    if row:
        raise Invalid("the results changed while they were written; write them again")
    return cells


def _text(value: Json) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def to_frame(trials: Iterable[TrialResult], run: str) -> Any:
    """A pandas DataFrame with one row per trial."""
    try:
        import pandas
    except ImportError:
        raise Invalid("frame() needs pandas, which is not installed: pip install 'peira[frame]'") from None
    rows = [flat(trial, run) for trial in trials]
    return pandas.DataFrame(rows, columns=columns(rows))
