"""Trials as rows and records for other tools: CSV, JSON lines, data frames.

JSON lines keep everything: one object per trial, with the same keys in each (`record`). CSV and data frames
are flat: one row per trial, first the columns of `FIXED`, then, each sorted by name, `condition.<factor>`,
`score.<name>` (or `score.<name>.<key>`) and `metric.<name>`. In CSV, texts are written as they are (an empty
one as ""), missing values are empty, and everything else is JSON, or NaN, inf and -inf. Failures are in
`state`, `failure` and `failed_scores`; the reason of a score without a verdict is in
`score.<name>.no_verdict`.

The columns of a flat table and their types are known only after the last trial. `Spool` therefore buffers
rows in a temporary file, so that trials are read from the store only once.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from tempfile import TemporaryFile
from types import TracebackType
from typing import Any

import msgspec

from peira.core.clock import stamp
from peira.core.ids import Json
from peira.core.log.events import Failure
from peira.core.verdicts import KEY as NO_VERDICT
from peira.errors import Invalid
from peira.results.trials import Score, TrialResult, failures, named

# Spool

WHOLE = 2**63
"""Integers of at least this size do not fit into 64 bits."""
MOST_SHAPES = 1000
"""Kinds of rows that are remembered."""
_SIZE = 8
_encode = msgspec.msgpack.Encoder().encode
_decode = msgspec.msgpack.Decoder().decode


class Spool:
    """Buffers rows in a temporary file; can be iterated over repeatedly."""

    def __init__(self) -> None:
        self._file = TemporaryFile()  # noqa: SIM115 - closed as this is
        self._whole: dict[tuple[Any, ...], list[str]] = {}
        """The columns of whole numbers, for each kind of row."""
        self.kinds: dict[str, set[str]] = {}
        """The types seen in each column: bool, int, float, str or json; None fits any."""
        self.rows = 0

    def keep(self, rows: Iterable[Mapping[str, Json]]) -> Spool:
        """Append rows and record the types of their columns; returns itself."""
        for row in rows:
            shape = *row, *map(type, row.values())
            if (whole := self._whole.get(shape)) is None:
                if len(self._whole) >= MOST_SHAPES:
                    self._whole.clear()
                whole = self._whole[shape] = self._note(row)
            for name in whole:
                if not -WHOLE <= row[name] < WHOLE:
                    self.kinds[name].add(kind_of(row[name]))
            data = _encode(row)
            self._file.write(len(data).to_bytes(_SIZE, "little") + data)
            self.rows += 1
        return self

    def _note(self, row: Mapping[str, Json]) -> list[str]:
        """Record the types of a row's columns; returns those of whole numbers, which may be too large."""
        for name, value in row.items():
            seen = self.kinds.setdefault(name, set())
            if value is not None:
                seen.add(kind_of(value))
        return [name for name, value in row.items() if isinstance(value, int)]

    def __iter__(self) -> Iterator[dict[str, Json]]:
        return (row for group in self.groups(1, 1) for row in group)

    def groups(self, most: int, most_bytes: int) -> Iterator[list[dict[str, Json]]]:
        """The rows in batches of at most `most` rows, or fewer if they exceed `most_bytes`."""
        self._file.seek(0)
        group, held = [], 0
        for _ in range(self.rows):
            size = int.from_bytes(self._file.read(_SIZE), "little")
            group.append(_decode(self._file.read(size)))
            held += size
            if len(group) >= most or held >= most_bytes:
                yield group
                group, held = [], 0
        if group:
            yield group

    def __enter__(self) -> Spool:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def kind_of(value: Json) -> str:
    """The column type of a value other than None: bool, int, float, str, or else json."""
    if isinstance(value, int) and not isinstance(value, bool):
        return "int" if -WHOLE <= value < WHOLE else "json"
    name = type(value).__name__
    return name if name in ("bool", "float", "str") else "str" if isinstance(value, str) else "json"


# Rows and records

CHUNK = 200
"""Trials whose transcripts are read from the store together."""

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
    "queued",
    "attempts",
    "reused",
    "reused_from",
    "input",
    "expected",
    "output",
    "answer",
    "no_answer",
    "seed",
    "cost",
    "started",
    "ended",
    "observations",
    "failure_cause",
)
"""The first columns of every CSV file and data frame."""
OLDEST = FIXED[: FIXED.index("seed")]
"""The columns that exports of every release begin with."""

COMMON = (
    "slice",
    "cluster",
    "repeat",
    "state",
    "took",
    "queued",
    "attempts",
    "reused",
    "reused_from",
    "input",
    "expected",
    "output",
    "seed",
    "cost",
)
"""Attributes of a trial that rows and records copy unchanged."""

asdict = msgspec.structs.asdict


def record(trial: TrialResult, run: str) -> dict[str, Json]:
    """Everything about a trial as one JSON object, with the same keys for every trial."""
    return {
        **_common(trial, run),
        "condition": dict(trial.condition),
        "failure": _failure(trial.failure),
        "failure_cause": _cause(trial),
        "scores": {name: _scored(score) for name, score in trial.scores.items()},
        "metrics": dict(trial.metrics),
        "about": dict(trial.about),
        "artifacts": [asdict(artifact) for artifact in trial.artifacts],
        "metadata": dict(trial.metadata),
        "observations": _observations(trial),
    }


def _observations(trial: TrialResult) -> list[Json]:
    """What the agent logged, as JSON objects."""
    return [asdict(one) | {"at": stamp(one.at)} for one in trial.observations]


def _scored(score: Score) -> dict[str, Json]:
    """A score as a JSON object; it says so if it was reported later."""
    row = asdict(score) | {"failure": _failure(score.failure), "metrics": dict(score.metrics)}
    return row if score.reported else {name: value for name, value in row.items() if name != "reported"}


def _common(trial: TrialResult, run: str) -> dict[str, Json]:
    """The keys that rows and records have in common."""
    names = {"run": run, "trial": trial.id, "agent": trial.agent, "case": trial.case_id}
    found = None if trial.found is None or trial.no_answer else trial.found.value
    answer = {"answer": found, "no_answer": trial.no_answer or None}
    times = {"started": _moment(trial.started), "ended": _moment(trial.ended)}
    common = {name: getattr(trial, name) for name in COMMON}
    return names | common | {"state": str(trial.state)} | answer | times


def _moment(at: float | None) -> str | None:
    """A time as ISO 8601 text in UTC."""
    return None if at is None else stamp(at)


def _failure(failure: Failure | None) -> dict[str, str] | None:
    """A failure as a JSON object."""
    return None if failure is None else asdict(failure)


Transcripts = Callable[[Sequence[TrialResult]], Iterable[Sequence[Json]]]
"""The transcript of each of some trials."""


def write_jsonl(
    trials: Iterable[TrialResult], run: str, path: Path, transcripts: Transcripts | None = None
) -> None:
    """Write one JSON object per trial; with `transcripts`, each with what its models said.

    Trials are streamed. Numbers that JSON cannot represent (NaN, infinity) become null.
    """
    encode = msgspec.json.Encoder().encode
    with path.open("wb") as file:
        for some in _chunks(trials, CHUNK if transcripts else 1):
            said = transcripts(some) if transcripts else ((),) * len(some)
            for trial, transcript in zip(some, said, strict=True):
                # msgspec writes what JSON cannot carry (a metric of NaN) as null.
                file.write(encode({**record(trial, run), "transcript": transcript}) + b"\n")


def _chunks(trials: Iterable[TrialResult], size: int) -> Iterator[list[TrialResult]]:
    """The trials in lists of at most this size."""
    rest = iter(trials)
    while some := list(islice(rest, size)):
        yield some


def flat(trial: TrialResult, run: str) -> dict[str, Json]:
    """A trial as one flat row; columns after the fixed ones depend on factors, scores and metrics."""
    broken = {row.score: _line(row.failure) for row in failures(trial) if row.score}
    row = _common(trial, run) | {"failure": _line(trial.failure), "failed_scores": broken or None}
    row["failure_cause"] = _cause(trial)
    row |= {"reused_from": trial.reused_from or None, "observations": _observations(trial) or None}
    row |= {f"condition.{name}": value for name, value in trial.condition.items()}
    row |= {f"metric.{name}": value for name, value in trial.metrics.items()}
    for score in trial.scores.values():
        row |= {f"score.{name}": value for name, value in named(score).items()}
        if score.no_verdict:
            row[f"score.{score.name}.{NO_VERDICT}"] = score.no_verdict.reason
    return row


def _cause(trial: TrialResult) -> str | None:
    """The cause of a trial's failure, or of the first of its transform and scores; None if all is well."""
    return next((row.cause for row in failures(trial)), None)


def _line(failure: Failure | None) -> str | None:
    """A failure as one line of text."""
    return None if failure is None else f"{failure.type}: {failure.message}"


def columns(found: Iterable[str]) -> list[str]:
    """All columns of a flat table in order: the fixed ones, then conditions, scores and metrics."""
    names, kinds = sorted(set(found)), ("condition.", "score.", "metric.")
    return [*FIXED, *(name for kind in kinds for name in names if name.startswith(kind))]


def write_csv(trials: Iterable[TrialResult], run: str, path: Path) -> None:
    """Write one row per trial; streams the trials through a temporary file.

    The columns are known only after the last trial, so rows are spooled and written in a second pass.
    """
    with Spool() as spool, path.open("w", newline="", encoding="utf-8") as file:
        names = columns(spool.keep(flat(trial, run) for trial in trials).kinds)
        file.write(line(names))
        file.writelines(line(list(map(text, map(row.get, names)))) for row in spool)


EMPTY = '""'
_special = re.compile('["\r\n]').search


def line(cells: Sequence[str | None]) -> str:
    """One line of CSV; None is an empty cell, an empty text a quoted one."""
    plain = ",".join(["" if cell is None else cell or EMPTY for cell in cells])
    if plain.count(",") >= len(cells) or _special(plain):  # looked at once, and not cell by cell
        return ",".join(["" if cell is None else _quoted(cell) for cell in cells]) + "\r\n"
    return plain + "\r\n"


def _quoted(cell: str) -> str:
    """A cell, quoted if necessary."""
    plain = cell and "," not in cell and not _special(cell)
    return cell if plain else '"' + cell.replace('"', '""') + '"'


def text(value: Json) -> str | None:
    """A value as the text of a CSV cell."""
    if value is None or isinstance(value, str):
        return value
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else f"{value}"
    return msgspec.json.encode(value).decode()


def to_frame(trials: Iterable[TrialResult], run: str) -> Any:
    """A pandas DataFrame with one row per trial; raises Invalid if pandas is not installed.

    A column of nested values, or of several types, holds JSON text, so that it can be written to Parquet.
    """
    try:
        import pandas
    except ImportError:
        raise Invalid("frame() needs pandas, which is not installed: pip install 'peira[frame]'") from None
    rows = [flat(trial, run) for trial in trials]
    names = columns(name for row in rows for name in row)
    return pandas.DataFrame({name: _column([row.get(name) for row in rows]) for name in names})


def _column(values: list[Json]) -> list[Json]:
    """The values of a column as they are if they have one type; else as JSON text."""
    kinds = {type(value) for value in values if value is not None}
    if (len(kinds) <= 1 and not kinds & {list, dict}) or kinds == {int, float}:
        return values
    return [None if value is None else msgspec.json.encode(value).decode() for value in values]
