"""The artifact folder that the design-research tools read: the same file names, the same columns.

A trial is a run there, a case a problem, a score an evaluation. What their tables have no place for stays
exact in their JSON columns. The moment in `manifest.json` is that of the run, so that the same results give
the same bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import version
from pathlib import Path
from typing import TextIO

import msgspec
import yaml

from peira.analysis.aims import Aims
from peira.analysis.export import line, text
from peira.analysis.exporting import Makes
from peira.analysis.origin import Origin
from peira.analysis.results import Results
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.plan.manifest import layout_of
from peira.report.exports import artifact_rows as rows
from peira.report.exports.times import Times

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
    makes: Makes = "folder"
    suffixes: tuple[str, ...] = ()

    def write(self, results: Results, path: Path) -> None:
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
    """What the manifest says of all runs."""

    def __init__(self) -> None:
        self.states: Counter[str] = Counter()
        self.models: set[str] = set()

    def seen(self, run: Mapping[str, Json]) -> None:
        self.states[str(run["status"])] += 1
        self.models |= {str(run["model_name"])} - {"None", ""}


def _tables(results: Results, origin: Origin, times: Times, path: Path) -> Counted:
    """The trials are read once, and everything about each is written at once."""
    named = rows.Named(results, origin)
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
    with path.open("w", newline="", encoding="utf-8") as file:
        file.write(line(columns))
        yield file


def _write(file: TextIO, columns: Sequence[str], found: Iterable[Mapping[str, Json]]) -> None:
    file.writelines(line([_cell(row.get(name)) for name in columns]) for row in found)


def _cell(value: Json) -> str | None:
    return str(value) if isinstance(value, bool) else text(value)


def _documents(results: Results, origin: Origin, counted: Counted, path: Path) -> None:
    kept = origin.manifest.snapshot
    asked: dict[str, Json] = kept if isinstance(kept, dict) else {}
    study = {
        "schema_version": SCHEMA,
        "study_id": results.study,
        "title": asked.get("title") or results.study,
        "description": asked.get("description", ""),
        "seed": origin.manifest.seed,
        "study": asked,
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
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def register(registry: Registry) -> None:
    registry.add("export", "artifact", ArtifactFolder)
