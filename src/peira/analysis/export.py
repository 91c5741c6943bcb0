"""Trials as rows and records for other tools: CSV, JSON lines, data frames.

JSON lines keep everything: one object per trial, with the same keys in each (`record`). CSV and data frames
are flat: one row per trial, first the columns of `FIXED`, then, each sorted by name, `condition.<factor>`,
`score.<name>` (or `score.<name>.<key>`) and `metric.<name>`. In CSV texts stand as they are (an empty one as
""), what is missing is empty, and everything else is JSON, or NaN, inf and -inf. What failed says so in
`state`, `failure` and `failed_scores`; a score without a verdict says why in `score.<name>.no_verdict`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from peira.analysis.spool import Spool
from peira.analysis.trials import Score, TrialResult, failures, named
from peira.core.events import Failure
from peira.core.ids import Json
from peira.core.verdicts import KEY as NO_VERDICT
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
    row["reused_from"] = trial.reused_from or None
    row |= {f"condition.{name}": value for name, value in trial.condition.items()}
    row |= {f"metric.{name}": value for name, value in trial.metrics.items()}
    for score in trial.scores.values():
        row |= {f"score.{name}": value for name, value in named(score).items()}
        if score.no_verdict:
            row[f"score.{score.name}.{NO_VERDICT}"] = score.no_verdict.reason
    return row


def _line(failure: Failure | None) -> str | None:
    return None if failure is None else f"{failure.type}: {failure.message}"


def columns(found: Iterable[str]) -> list[str]:
    """These columns of flat rows in their order, after the fixed ones."""
    names, kinds = sorted(set(found)), ("condition.", "score.", "metric.")
    return [*FIXED, *(name for kind in kinds for name in names if name.startswith(kind))]


def write_csv(trials: Iterable[TrialResult], run: str, path: Path) -> None:
    """The trials are read once and not held: their rows wait in a file until all columns are known."""
    with Spool() as spool, path.open("w", newline="", encoding="utf-8") as file:
        names = columns(spool.keep(flat(trial, run) for trial in trials).kinds)
        file.write(line(names))
        file.writelines(line([text(row.get(name)) for name in names]) for row in spool)


def line(cells: Sequence[str | None]) -> str:
    """A line of CSV. None is an empty cell, and an empty text a quoted one: readers who look can tell."""
    return ",".join(["" if cell is None else _quoted(cell) for cell in cells]) + "\r\n"


def _quoted(cell: str) -> str:
    plain = cell and not any(mark in cell for mark in ',"\r\n')
    return cell if plain else '"' + cell.replace('"', '""') + '"'


def text(value: Json) -> str | None:
    """A value as the text of a cell."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value}"
    return msgspec.json.encode(value).decode()


def to_frame(trials: Iterable[TrialResult], run: str) -> Any:
    """A pandas DataFrame with one row per trial."""
    try:
        import pandas
    except ImportError:
        raise Invalid("frame() needs pandas, which is not installed: pip install 'peira[frame]'") from None
    rows = [flat(trial, run) for trial in trials]
    return pandas.DataFrame(rows, columns=columns(name for row in rows for name in row))
