"""Rebuilds a plan from its manifest: study, cases and code as of the start of the run."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from peira.core.contracts import Evaluator
from peira.core.ids import Json, digest, digest_bytes
from peira.core.transforms import Transform
from peira.errors import Invalid
from peira.plan.expansion import Plan, evaluator_digest, live_agents, transform_digest
from peira.plan.manifest import EvaluatorPart, Get, Manifest, cases_of, layout_of
from peira.spec.case import with_evaluators
from peira.spec.modules import LoadedModules, reference, resolve_reference
from peira.spec.plugins import MissingEvaluator, MissingTransform
from peira.spec.study import Study
from peira.spec.study_files import restore


def rebuild(manifest: Manifest, get: Get, folder: Path, *, agents: bool = True) -> Plan:
    """Rebuild the plan of a manifest; source files that changed since are restored under `folder`.

    Raises `Invalid` if the code of an agent cannot be restored; `agents=False` skips that check, for scoring.
    """
    study = restored(manifest, get, folder)
    live = live_agents(study)
    known = {part.label: part.digest for part in manifest.agents}
    lost = [label for label, agent in live.items() if agents and digest(agent.identity) != known[label]]
    if lost:
        raise Invalid(f"agent {label}: its code as of that run cannot be had any more" for label in lost)
    judged = (case for cases in study.case_sets.values() for _, case in with_evaluators(cases))
    own = [evaluator for case in judged for evaluator in case.resolved_evaluators()]
    return Plan(
        study=study,
        layout=layout_of(manifest, get),
        agents=live,
        evaluators={evaluator_digest(e): e for e in (*study.resolved_evaluators(), *own)},
        common=manifest.common,
        transform=study.resolved_transform(),
        refused=manifest.refused,
        refusals=manifest.refusals,
        where=manifest.where,
        limit=manifest.limit,
        earlier=manifest.earlier,
    )


def restored(manifest: Manifest, get: Get, folder: Path) -> Study:
    """The study of a manifest, with the code of that time."""
    places = _source_paths(manifest, get, folder)
    snapshot = _relocated(manifest.snapshot, places)
    if not manifest.cases_inline:
        sets = {label: cases_of(blob, get) for label, blob in manifest.case_sets.items()}
        snapshot = {**snapshot, "cases": sets[""] if set(sets) == {""} else sets}
    with _without_modules(places):
        study = restore(snapshot)
        kept = {"evaluators": _evaluators(study, manifest), "transform": _transform(study, manifest)}
        return study.model_copy(update=kept)


def _transform(study: Study, manifest: Manifest) -> Transform | None:
    """The study's transform; one that cannot be loaded keeps its identity, so its answers are found."""
    part, transform = manifest.transform, study.resolved_transform()
    if part is None or not isinstance(transform, MissingTransform):
        return transform
    nearby = [found for study in _nearby(study) if (found := study.resolved_transform()) is not None]
    same = [found for found in nearby if transform_digest(found) == part.digest]
    return same[0] if same else transform.known_as(part.identity)


def _evaluators(study: Study, manifest: Manifest) -> tuple[Evaluator, ...]:
    """The study's evaluators; one without a reference is looked up in the study declared nearby."""
    parts = {part.digest: part for part in manifest.evaluators}
    nearby = {evaluator_digest(e): e for e in _declared(study)}
    return tuple(
        _loaded_or_known(evaluator, parts[digest], nearby.get(digest))
        for evaluator, digest in zip(study.resolved_evaluators(), manifest.common, strict=True)
    )


def _declared(study: Study) -> list[Evaluator]:
    """The evaluators of the studies declared in the agents' files."""
    return [e for declared in _nearby(study) for e in declared.resolved_evaluators()]


def _nearby(study: Study) -> list[Study]:
    """The studies declared in the agents' files."""
    places = [reference(fn) for fn in study.agents.values()]
    found = [resolve_reference(place, Path()) for place in places if place]
    return [declared for declared in found if isinstance(declared, Study)]


def _loaded_or_known(evaluator: Evaluator, part: EvaluatorPart, nearby: Evaluator | None) -> Evaluator:
    """The evaluator, or a placeholder with its identity, so that existing scores are found."""
    if isinstance(evaluator, MissingEvaluator):
        return nearby or evaluator.known_as(part.identity, part.takes)
    return evaluator


def _source_paths(manifest: Manifest, get: Get, folder: Path) -> dict[str, str]:
    """Where to load each source file from: its own path if all are unchanged, else under `folder`."""
    if all(_unchanged(Path(path), blob) for path, blob in manifest.sources.items()):
        return {}
    root = os.path.commonpath([str(Path(path).parent) for path in manifest.sources])
    return {
        path: _write_source(folder / os.path.relpath(path, root), get(blob))
        for path, blob in manifest.sources.items()
    }


@contextmanager
def _without_modules(files: Iterable[str]) -> Iterator[None]:
    """Temporarily remove the modules of these files from `sys.modules` while old versions load."""
    loaded = LoadedModules()
    newer = {name: module for file in files for name, module in loaded.of(file).items()}
    for name in newer:
        del sys.modules[name]
    try:
        yield
    finally:
        sys.modules.update(newer)


def _unchanged(path: Path, blob: str) -> bool:
    """Whether the file still has the stored content."""
    try:
        return digest_bytes(path.read_bytes()) == blob
    except OSError:
        return False


def _write_source(path: Path, data: bytes) -> str:
    """Write a restored file, which other processes may be reading; returns its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    draft.write_bytes(data)
    draft.replace(path)
    return str(path.resolve())


def _relocated(value: Json, places: Mapping[str, str]) -> Json:
    """The snapshot with paths and references ("file.py:name") redirected to the restored files."""
    if isinstance(value, str):
        if value in places:
            return places[value]
        file, colon, name = value.rpartition(":")
        return f"{places[file]}{colon}{name}" if file in places else value
    if isinstance(value, list):
        return [_relocated(item, places) for item in value]
    if isinstance(value, dict):
        return {key: _relocated(item, places) for key, item in value.items()}
    return value
