"""The artifact folder of the design-research tools.

In that format a trial is a run, a case a problem, and a score an evaluation. What its tables have no column
for is kept in their JSON columns. `manifest.json` has the time of the run, not of the export, so that the
same results give the same bytes.
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

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import Json
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.exports import artifact_rows as rows
from peira.report.exports.artifact_study import SCHEMA, ArtifactStudy
from peira.report.exports.study_file import study_text
from peira.results.aims import Aims
from peira.results.background import StoredRun
from peira.results.rows import line, text

FILES = (
    "study.yaml",
    "study.md",
    "manifest.json",
    "conditions.csv",
    "runs.csv",
    "events.csv",
    "evaluations.csv",
    "hypotheses.json",
    "analysis_plan.json",
)
CHUNK = 1_000
"""Problems that are written at a time."""
OWN = "peira"
NOT_PROVENANCE = {"estimate", "who"}
"""What a run keeps beside its provenance."""


class ArtifactFolder:
    """The folder that design-research-analysis reads; needs the results of a stored run."""

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
            counted = _tables(results, origin, path)
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


class ArtifactTotals:
    """Totals over all trials for the manifest, and the names that the study file lists."""

    def __init__(self, names: rows.ArtifactNames) -> None:
        self.names = names
        self.states: Counter[str] = Counter()
        self.models: set[str] = set()
        self.agents: dict[str, None] = {}
        self.problems: dict[str, None] = {}

    def seen(self, run: Mapping[str, Json]) -> None:
        """Count one trial."""
        self.states[str(run["status"])] += 1
        self.models |= {str(run["model_name"])} - {"None", ""}
        self.agents[str(run["agent_id"])] = None
        self.problems[str(run["problem_id"])] = None


def _tables(results: Results, origin: StoredRun, path: Path) -> ArtifactTotals:
    """Write the CSV files in one pass over the trials."""
    named = rows.ArtifactNames(results, origin)
    counted = ArtifactTotals(named)
    with (
        _table(path / "runs.csv", rows.RUN) as runs,
        _table(path / "events.csv", rows.EVENT) as events,
        _table(path / "evaluations.csv", rows.EVALUATION) as evaluations,
    ):
        for trial in results.stream():
            condition = named.condition(trial.agent, trial.condition)
            run = rows.run(trial, named, condition)
            counted.seen(run)
            _write(runs, rows.RUN, [run])
            _write(events, rows.EVENT, rows.events(trial, named, condition))
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


def _documents(results: Results, origin: StoredRun, counted: ArtifactTotals, path: Path) -> None:
    """Write the YAML and JSON files."""
    aims = results.aims or Aims()
    study = ArtifactStudy(origin, aims, counted.names, counted.agents)
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
            **_provenance(results),
        },
    }
    with (path / "study.yaml").open("w", encoding="utf-8") as file:
        file.writelines(_yaml(study.document(), list(counted.problems)))
    (path / "study.md").write_text(study_text(origin), encoding="utf-8")
    _json(path / "manifest.json", manifest)
    _json(path / "hypotheses.json", study.hypotheses())
    _json(path / "analysis_plan.json", study.plans())


def _yaml(study: Mapping[str, Json], problems: Sequence[str]) -> Iterator[str]:
    """The study with its problems, of which some are written at a time: each takes a kilobyte meanwhile."""
    if not problems:
        yield _dumped(study)
        return
    none = "\nproblem_ids: []\n"
    before, after = _dumped(study).split(none)
    yield before + none.replace(" []", "")
    for at in range(0, len(problems), CHUNK):
        yield _dumped(problems[at : at + CHUNK])
    yield after


def _dumped(value: Json) -> str:
    return str(yaml.safe_dump(value, sort_keys=False, allow_unicode=True))


def _provenance(results: Results) -> dict[str, Json]:
    """Where and with what the run was executed: system, packages and versions, command, commit."""
    known = results.background.provenance if results.background else None
    if known is None:
        return {}
    kept: dict[str, Json] = msgspec.to_builtins(known)
    return {name: value for name, value in kept.items() if name not in NOT_PROVENANCE}


def _json(path: Path, document: Json) -> None:
    """Write an indented JSON file."""
    path.write_bytes(msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n")


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "artifact", ArtifactFolder)
