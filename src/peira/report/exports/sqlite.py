"""SQLite: the results as tables with keys to join them.

    about       facts about the export: run, study, status, number of trials
    conditions  one row per condition: its number, agent, assignment (JSON), and a column per factor
    factors     the column of `conditions` for each factor, since SQL column names are case-insensitive
    trials      one row per trial
    scores      one row per score, or per part of one; `number` is its numeric value, `text` its text
    observations  one row per entry that an agent logged, in order; `data` is JSON
    metrics     one row per number that an agent or the engine reported
    calls       one row per model call that a trial used, from the ledger, without its content

Texts are stored as they are and everything else as JSON; the `..._kind` columns say which.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import apsw

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.clock import stamp
from peira.core.ids import Json, canonical
from peira.core.registry import Registry
from peira.report.exports.csv_files import parts
from peira.results.rows import kind_of, text
from peira.results.trials import TrialResult, failures

APPLICATION = 0x70656972
"""The SQLite application id that marks such an export ("peir")."""
CHUNK = 500
TABLES = """
CREATE TABLE about (key TEXT PRIMARY KEY, value TEXT);
CREATE TABLE factors (factor TEXT PRIMARY KEY, column_name TEXT NOT NULL UNIQUE);
CREATE TABLE trials (
    trial TEXT PRIMARY KEY, condition INTEGER NOT NULL REFERENCES conditions(condition), agent TEXT NOT NULL,
    case_id TEXT NOT NULL, slice TEXT, cluster TEXT, repeat INTEGER NOT NULL, state TEXT NOT NULL,
    failure TEXT, took REAL, queued REAL NOT NULL, attempts INTEGER NOT NULL, reused INTEGER NOT NULL,
    reused_from TEXT, anchor INTEGER NOT NULL,
    input TEXT, input_kind TEXT, expected TEXT, expected_kind TEXT, output TEXT,
    output_kind TEXT, metadata TEXT NOT NULL, seed INTEGER, cost_usd REAL, started TEXT, ended TEXT,
    failure_cause TEXT
);
CREATE TABLE observations (
    trial TEXT NOT NULL REFERENCES trials(trial), number INTEGER NOT NULL, at TEXT NOT NULL,
    name TEXT NOT NULL, data TEXT, attempt INTEGER NOT NULL, PRIMARY KEY (trial, number)
);
CREATE TABLE scores (
    trial TEXT NOT NULL REFERENCES trials(trial), score TEXT NOT NULL, part TEXT NOT NULL,
    state TEXT NOT NULL, kind TEXT, number REAL, text TEXT, failure TEXT, PRIMARY KEY (trial, score, part)
);
CREATE TABLE metrics (
    trial TEXT NOT NULL REFERENCES trials(trial), metric TEXT NOT NULL, value REAL,
    PRIMARY KEY (trial, metric)
);
CREATE TABLE calls (
    trial TEXT NOT NULL REFERENCES trials(trial), call TEXT NOT NULL, place TEXT, model TEXT, served TEXT,
    state TEXT NOT NULL, sends INTEGER NOT NULL, input_tokens INTEGER, output_tokens INTEGER, cost_usd REAL,
    PRIMARY KEY (trial, call)
);
"""
INDEXES = """
CREATE INDEX trials_condition ON trials(condition);
CREATE INDEX trials_case ON trials(case_id);
CREATE INDEX trials_state ON trials(state);
CREATE INDEX scores_score ON scores(score, part);
CREATE INDEX metrics_metric ON metrics(metric);
CREATE INDEX calls_model ON calls(model);
"""


class Sqlite:
    """A SQLite database of the results."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".sqlite", ".sqlite3", ".db")

    def write(self, results: Results, path: Path) -> None:
        """Write the results to a new database, streaming the trials."""
        db = apsw.Connection(str(path))
        try:
            # A temporary file, which is discarded on failure: no journal or sync is needed.
            db.execute("PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF")
            db.execute(f"PRAGMA application_id = {APPLICATION}")
            with db:
                db.execute(TABLES)
                _fill(db, results)
                db.execute(INDEXES)
        except apsw.FullError:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC)) from None
        except apsw.IOError as problem:
            raise OSError(errno.EIO, str(problem)) from None
        finally:
            db.close()

    def owns(self, path: Path) -> bool:
        """Whether the file is a SQLite database with our application id."""
        with path.open("rb") as file:
            header = file.read(100)
        return header[:16] == b"SQLite format 3\0" and header[68:72] == APPLICATION.to_bytes(4, "big")


def _fill(db: apsw.Connection, results: Results) -> None:
    """Fill all tables in one pass over the trials."""
    conditions: dict[bytes, tuple[int, str, Mapping[str, Json]]] = {}
    keys: dict[str, Sequence[str]] = {}
    reading, trials = iter(results.stream()), 0
    while chunk := list(islice(reading, CHUNK)):
        for trial in chunk:
            known = canonical([trial.agent, dict(trial.condition)])
            number, *_ = conditions.setdefault(known, (len(conditions) + 1, trial.agent, trial.condition))
            _insert(db, "trials", [_trial(trial, number)])
            _insert(db, "scores", _scores(trial))
            _insert(db, "observations", _observations(trial))
            _insert(db, "metrics", [(trial.id, *metric) for metric in trial.metrics.items()])
        keys = {trial.id: trial.calls for trial in chunk if trial.calls}
        _insert(db, "calls", _calls(results, keys))
        trials += len(chunk)
    _conditions(db, list(conditions.values()))
    facts = {"run": results.run_id, "study": results.study, "status": results.status, "trials": trials}
    _insert(db, "about", [(key, str(value)) for key, value in facts.items()])


def _insert(db: apsw.Connection, table: str, rows: Iterable[Sequence[Any]]) -> None:
    """Insert rows into a table."""
    for row in rows:
        db.execute(f"INSERT INTO {table} VALUES ({','.join('?' * len(row))})", row)


def _trial(trial: TrialResult, condition: int) -> tuple[Any, ...]:
    """The row of a trial."""
    why = f"{trial.failure.type}: {trial.failure.message}" if trial.failure else None
    place = (trial.id, condition, trial.agent, trial.case_id, trial.slice, trial.cluster, trial.repeat)
    seconds, before = (trial.took, trial.queued), (trial.reused, trial.reused_from or None)
    end = (str(trial.state), why, *seconds, trial.attempts, *before)
    cause = next((row.cause for row in failures(trial)), None)
    texts = [part for value in (trial.input, trial.expected, trial.output) for part in _text_and_kind(value)]
    times = (None if at is None else stamp(at) for at in (trial.started, trial.ended))
    return (
        *place,
        *end,
        trial.anchor,
        *texts,
        text(dict(trial.metadata)),
        trial.seed,
        trial.cost,
        *times,
        cause,
    )


def _text_and_kind(value: Json) -> tuple[str | None, str | None]:
    """A value as text, and whether it is plain text or JSON."""
    return (None, None) if value is None else (text(value), "text" if isinstance(value, str) else "json")


def _scores(trial: TrialResult) -> Iterator[tuple[Any, ...]]:
    """The rows of a trial's scores."""
    for score in trial.scores.values():
        for part in parts(score):
            value, number = part["value"], part["number"]
            kind = None if value is None else {"str": "text", "bool": "bool"}.get(kind_of(value), "number")
            shown = value if kind == "text" else None
            place = trial.id, part["score"], part["part"] or "", part["score_state"]
            yield *place, kind, number, shown, part["score_failure"]


def _observations(trial: TrialResult) -> Iterator[tuple[Any, ...]]:
    """The rows of what a trial's agent logged."""
    for number, one in enumerate(trial.observations):
        yield trial.id, number, stamp(one.at), one.name, text(one.data), one.attempt


def _calls(results: Results, keys: Mapping[str, Sequence[str]]) -> Iterator[tuple[Any, ...]]:
    """The rows of the calls that trials used, from the ledger."""
    if not keys or results.origin is None:
        return
    with results.origin() as origin:
        found = origin.store.find("call", [key for some in keys.values() for key in some])
    for trial, some in keys.items():
        for call in (found[key] for key in dict.fromkeys(some) if key in found):
            counts = (None if n < 0 else n for n in (call.input, call.output, call.cost))
            yield trial, call.key, call.name, call.model, call.served or None, call.state, call.sends, *counts


def _conditions(db: apsw.Connection, conditions: Sequence[tuple[int, str, Mapping[str, Json]]]) -> None:
    """Create and fill the tables of conditions and factors."""
    factors = list(dict.fromkeys(name for _, _, condition in conditions for name in condition))
    named = columns_of(factors)
    wide = "".join(f", {column}" for column in map(_identifier, named.values()))
    db.execute(f"CREATE TABLE conditions (condition INTEGER PRIMARY KEY, agent, assignment{wide})")
    _insert(db, "factors", list(named.items()))
    for number, agent, condition in conditions:
        levels = [_level(condition.get(name)) for name in factors]
        _insert(db, "conditions", [(number, agent, text(dict(condition)), *levels)])


def columns_of(factors: Sequence[str]) -> dict[str, str]:
    """A unique column name for each factor; SQLite column names are case-insensitive."""
    taken, named = {"condition", "agent", "assignment"}, {}
    for factor in factors:
        plain = "".join(c if c.isprintable() else "_" for c in factor) or "factor"
        column, number = plain, 1
        while column.lower() in taken:
            number += 1
            column = f"{plain}_{number}"
        taken.add(column.lower())
        named[factor] = column
    return named


def _identifier(name: str) -> str:
    """A quoted SQL identifier."""
    return '"' + name.replace('"', '""') + '"'


def _level(value: Json) -> Any:
    """A level as a SQL value: text and numbers as they are, everything else as JSON."""
    return value if isinstance(value, (str, float)) or type(value) is int else text(value)


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "sqlite", Sqlite)
