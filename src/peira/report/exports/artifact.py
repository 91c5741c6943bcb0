"""The artifact folder of the design-research tools, with start and end times of trials.

Trial rows have durations but no times. Start and end are events of the run that executed a trial: this run's
log is read first, then those of other runs, newest first, until all ends are known.

In that format a trial is a run, a case a problem, and a score an evaluation. What its tables have no column
for is kept in their JSON columns. `manifest.json` has the time of the run, not of the export, so that the
same results give the same bytes.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import Any, TextIO

import msgspec
import numpy as np
import yaml

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.contracts import RunQuery
from peira.core.ids import Json
from peira.core.log.events import Record, TaskFinished, TaskReused, TasksClaimed
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.plan.manifest import layout_of
from peira.report.exports import artifact_rows as rows
from peira.results.aims import Aims
from peira.results.background import StoredRun
from peira.results.rows import line, text

# Times

PAGE = 5_000
"""The number of events per read."""
ALL = 2**31
"""A limit beyond any number of runs."""


class Times:
    """When trials last started and ended, in seconds since 1970; None if unknown."""

    def __init__(self, trials: Iterable[str]) -> None:
        # The first 8 bytes of the SHA-256 id suffice as a key; this takes 24 bytes per trial.
        self._keys = np.unique(np.array(array("Q", map(_key, trials)), dtype=np.uint64))
        self._began = np.full(len(self._keys), np.nan)
        self._ended = np.full(len(self._keys), np.nan)

    def read(self, origin: StoredRun) -> Times:
        """Read the times from the event logs of the store; returns itself."""
        for run in self._runs(origin):
            if not np.isnan(self._ended).any():
                break
            # Logs read earlier are newer and take precedence.
            known_began, known_ended = self._began.copy(), self._ended.copy()
            for page in _pages(origin, run):
                self._note(page)
            self._began = np.where(np.isnan(known_ended), self._began, known_began)
            self._ended = np.where(np.isnan(known_ended), self._ended, known_ended)
        return self

    def _runs(self, origin: StoredRun) -> Iterator[str]:
        """This run, then all others, newest first."""
        yield origin.run.id
        store: Any = origin.store
        yield from (run.id for run in store.runs(RunQuery(limit=ALL)) if run.id != origin.run.id)

    def _note(self, page: Sequence[Record]) -> None:
        """Record the times of a page of events."""
        began, ended = [], []
        for record in page:
            event = record.event
            if isinstance(event, TasksClaimed):
                began += [(_key(task), record.at) for task in event.tasks]
            elif isinstance(event, (TaskFinished, TaskReused)):
                ended.append((_key(event.task), record.at))
        self._put(self._began, began)
        self._put(self._ended, ended)

    def _put(self, column: Any, found: Sequence[tuple[int, float]]) -> None:
        """Store times in a column, ignoring trials of other studies."""
        if not found or not len(self._keys):
            return
        keys = np.array([key for key, _ in found], dtype=np.uint64)
        at = np.minimum(np.searchsorted(self._keys, keys), len(self._keys) - 1)
        ours = self._keys[at] == keys
        column[at[ours]] = np.array([moment for _, moment in found])[ours]

    def of(self, trial: str) -> tuple[float | None, float | None]:
        """The start and end of a trial."""
        at = min(int(np.searchsorted(self._keys, np.uint64(_key(trial)))), len(self._keys) - 1)
        if at < 0 or self._keys[at] != _key(trial):
            return None, None
        began, ended = float(self._began[at]), float(self._ended[at])
        return (None if began != began else began), (None if ended != ended else ended)


def _key(id: str) -> int:
    """The first 8 bytes of a trial id as an integer."""
    return int(id[:16], 16)


def _pages(origin: StoredRun, run: str) -> Iterator[list[Record]]:
    """The events of a run, in pages."""
    after = 0
    while records := origin.store.events(run, after, PAGE):
        yield records
        after = records[-1].seq


# Folder

FILES = (
    "study.yaml",
    "manifest.json",
    "conditions.csv",
    "runs.csv",
    "events.csv",
    "evaluations.csv",
    "hypotheses.json",
    "analysis_plan.json",
)
SCHEMA = "0.2.0"
OWN = "peira"


class ArtifactFolder:
    """The artifact folder; needs the results of a stored run."""

    makes: Makes = "folder"
    suffixes: tuple[str, ...] = ()

    def write(self, results: Results, path: Path) -> None:
        """Write all files of the folder; raises Invalid without a stored run."""
        if results.origin is None:
            raise Invalid(
                "an artifact folder says when things happened: it needs the results of a stored run"
            )
        path.mkdir()
        with results.origin() as origin:
            layout = layout_of(origin.manifest, origin.store.get)
            times = Times(map(layout.trial_id, layout.places())).read(origin)
            counted = _tables(results, origin, times, path)
            _documents(results, origin, counted, path)

    def owns(self, path: Path) -> bool:
        """Whether the folder has no other files and a manifest written by peira."""
        manifest = path / "manifest.json"
        if not manifest.is_file() or {file.name for file in path.iterdir()} - {*FILES}:
            return False
        try:
            found = msgspec.json.decode(manifest.read_bytes())
        except msgspec.DecodeError:
            return False
        provenance = found.get("provenance") if isinstance(found, dict) else None
        return isinstance(provenance, dict) and provenance.get("software") == OWN


class Counted:
    """Totals over all trials for the manifest."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.models: set[str] = set()

    def seen(self, run: Mapping[str, Json]) -> None:
        """Count one trial."""
        self.states[str(run["status"])] += 1
        self.models |= {str(run["model_name"])} - {"None", ""}


def _tables(results: Results, origin: StoredRun, times: Times, path: Path) -> Counted:
    """Write the CSV files in one pass over the trials."""
    named = rows.ArtifactNames(results, origin)
    counted = Counted()
    with (
        _table(path / "runs.csv", rows.RUN) as runs,
        _table(path / "events.csv", rows.EVENT) as events,
        _table(path / "evaluations.csv", rows.EVALUATION) as evaluations,
    ):
        for trial in results.stream():
            began, ended = times.of(trial.id)
            condition = named.condition(trial.agent, trial.condition)
            run = rows.run(trial, named, condition, began, ended)
            counted.seen(run)
            _write(runs, rows.RUN, [run])
            _write(events, rows.EVENT, rows.events(trial, named, condition, began, ended))
            _write(evaluations, rows.EVALUATION, rows.evaluations(trial, named))
    columns, conditions = rows.conditions(named)
    with _table(path / "conditions.csv", columns) as file:
        _write(file, columns, conditions)
    return counted


@contextmanager
def _table(path: Path, columns: Sequence[str]) -> Iterator[TextIO]:
    """Open a CSV file and write its header."""
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(line(columns))
        yield file


def _write(file: TextIO, columns: Sequence[str], found: Iterable[Mapping[str, Json]]) -> None:
    """Write rows to a CSV file."""
    file.writelines(line([_cell(row.get(name)) for name in columns]) for row in found)


def _cell(value: Json) -> str | None:
    """A value as the text of a cell; booleans are True and False."""
    return str(value) if isinstance(value, bool) else text(value)


def _documents(results: Results, origin: StoredRun, counted: Counted, path: Path) -> None:
    """Write the YAML and JSON files."""
    kept = origin.manifest.snapshot
    snapshot: dict[str, Json] = kept if isinstance(kept, dict) else {}
    study = {
        "schema_version": SCHEMA,
        "study_id": results.study,
        "title": snapshot.get("title") or results.study,
        "description": snapshot.get("description", ""),
        "seed": origin.manifest.seed,
        "study": snapshot,
    }
    manifest = {
        "schema_version": SCHEMA,
        "study_id": results.study,
        "generated_at": rows.moment(origin.run.finished or origin.run.started or origin.run.planned),
        "status_counts": dict(sorted(counted.states.items())),
        "model_ids": sorted(counted.models),
        "run_count": counted.states.total(),
        "provenance": {
            "software": OWN,
            "version": version(OWN),
            "run": results.run_id,
            "status": results.status,
            "notes": list(results.notes),
        },
    }
    (path / "study.yaml").write_text(
        yaml.safe_dump(study, sort_keys=False, allow_unicode=True), encoding="utf-8"
    )
    aims = results.aims or Aims()
    _json(path / "manifest.json", manifest)
    _json(path / "hypotheses.json", [one.model_dump(mode="json") for one in aims.hypotheses])
    _json(path / "analysis_plan.json", [one.model_dump(mode="json") for one in aims.plans])


def _json(path: Path, document: Json) -> None:
    """Write an indented JSON file."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "artifact", ArtifactFolder)
