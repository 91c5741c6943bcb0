"""CSV as other programs read it: one row per trial, or one row per score ("csv-long")."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from peira.analysis.export import FIXED, flat, line, text, write_csv
from peira.analysis.exporting import Makes
from peira.analysis.results import Results
from peira.analysis.spool import Spool
from peira.analysis.trials import Score, TrialResult, named
from peira.core.ids import Json
from peira.core.registry import Registry

LONG = ("run", "trial", "agent", "case", "slice", "cluster", "repeat", "state")
"""What a row of a score says of its trial, before the factors."""
OF_SCORE = ("score", "part", "value", "number", "score_state", "score_failure")


class Csv:
    """One row per trial, with the columns that `peira.analysis.export` describes."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".csv",)

    def write(self, results: Results, path: Path) -> None:
        write_csv(results.stream(), results.run_id, path)

    def owns(self, path: Path) -> bool:
        return begins(path, line(FIXED).rstrip())


class LongCsv:
    """One row per score, or per part of one: `LONG`, then the factors, then `OF_SCORE`.

    `value` is the score itself, `number` what is counted: 1 and 0 for yes and no, nothing for a text. A trial
    without scores has no row."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = ()

    def write(self, results: Results, path: Path) -> None:
        with Spool() as spool, path.open("w", newline="", encoding="utf-8") as file:
            rows = (row for trial in results.stream() for row in score_rows(trial, results.run_id))
            found = spool.keep(rows).kinds
            factors = sorted(name for name in found if name.startswith("condition."))
            names = [*LONG, *factors, *OF_SCORE]
            file.write(line(names))
            file.writelines(line([text(row.get(name)) for name in names]) for row in spool)

    def owns(self, path: Path) -> bool:
        return begins(path, line(LONG).rstrip())


def score_rows(trial: TrialResult, run: str) -> Iterator[dict[str, Json]]:
    whole = flat(trial, run)
    common = {name: whole[name] for name in whole if name in LONG or name.startswith("condition.")}
    for score in trial.scores.values():
        for part in parts(score):
            yield common | part


def parts(score: Score) -> Iterator[dict[str, Json]]:
    """What a score says, part by part; a plain one has one part without a name, a failed one no value."""
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
    """Whether a file begins so."""
    data = start.encode()
    with path.open("rb") as file:
        return file.read(len(data)) == data


def register(registry: Registry) -> None:
    registry.add("export", "csv", Csv)
    registry.add("export", "csv-long", LongCsv)
