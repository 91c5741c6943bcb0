"""CSV: one row per trial, or one row per score ("csv-long")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.results.rows import OLDEST, Spool, flat, line, text, write_csv
from peira.results.trials import Score, TrialResult, named

LONG = ("run", "trial", "agent", "case", "slice", "cluster", "repeat", "state")
"""The columns of a score row that describe its trial, before the factors."""
OF_SCORE = ("score", "part", "value", "number", "score_state", "score_failure")
"""The columns of a score row that describe the score, after the factors."""


class Csv:
    """CSV with one row per trial."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".csv",)

    def write(self, results: Results, path: Path) -> None:
        """Write the results, streaming the trials."""
        write_csv(results.stream(), results.run_id, path)

    def owns(self, path: Path) -> bool:
        """Whether the file begins with the fixed columns."""
        return begins(path, line(OLDEST).rstrip())


class LongCsv:
    """CSV with one row per score, or per part of one.

    The columns are `LONG`, then the factors, then `OF_SCORE`. `value` is the score itself, `number` its
    numeric value: 1 and 0 for yes and no, none for a text. A trial without scores has no row.
    """

    makes: Makes = "file"
    suffixes: tuple[str, ...] = ()

    def write(self, results: Results, path: Path) -> None:
        """Write the results, streaming the trials through a temporary file."""
        with Spool() as spool, path.open("w", newline="", encoding="utf-8") as file:
            rows = (row for trial in results.stream() for row in score_rows(trial, results.run_id))
            found = spool.keep(rows).kinds
            factors = sorted(name for name in found if name.startswith("condition."))
            names = [*LONG, *factors, *OF_SCORE]
            file.write(line(names))
            file.writelines(line([text(row.get(name)) for name in names]) for row in spool)

    def owns(self, path: Path) -> bool:
        """Whether the file begins with the columns of a score row."""
        return begins(path, line(LONG).rstrip())


def score_rows(trial: TrialResult, run: str) -> Iterator[dict[str, Json]]:
    """The rows of a trial's scores."""
    whole = flat(trial, run)
    common = {name: whole[name] for name in whole if name in LONG or name.startswith("condition.")}
    for score in trial.scores.values():
        for part in parts(score):
            yield common | part


def parts(score: Score) -> Iterator[dict[str, Json]]:
    """The rows of a score's parts; a plain score has one unnamed part, a failed one no value."""
    why = f"{score.failure.type}: {score.failure.message}" if score.failure else None
    common = {"score": score.name, "score_state": str(score.state), "score_failure": why}
    found = named(score)
    if not found:
        yield common | {"part": None, "value": None, "number": None}
    for name, value in found.items():
        part = None if name == score.name else name.removeprefix(f"{score.name}.")
        number = None if isinstance(value, str) or value is None else float(value)
        yield common | {"part": part, "value": value, "number": number}


def begins(path: Path, start: str) -> bool:
    """Whether a file begins with this text."""
    data = start.encode()
    with path.open("rb") as file:
        return file.read(len(data)) == data


def register(registry: Registry) -> None:
    """Register both formats."""
    registry.add("export", "csv", Csv)
    registry.add("export", "csv-long", LongCsv)
