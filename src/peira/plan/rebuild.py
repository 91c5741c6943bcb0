"""A stored plan made live again: its study, its cases and its code as they were when the run began."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from peira.core.ids import Json, digest, digest_bytes
from peira.errors import Invalid
from peira.plan.expand import Plan, expand
from peira.plan.manifest import Get, Manifest, cases_of
from peira.spec.load import restore
from peira.spec.study import Study


def rebuild(manifest: Manifest, get: Get, folder: Path) -> Plan:
    """The plan of a manifest. Files that have changed or gone since are laid out anew under `folder`."""
    plan = expand(
        restored(manifest, get, folder),
        generation=manifest.generation,
        where=manifest.where,
        limit=manifest.limit,
    )
    known = {part.label: part.digest for part in manifest.agents}
    lost = [label for label, agent in plan.agents.items() if digest(agent.identity) != known[label]]
    if lost:
        raise Invalid(f"agent {label}: its code as of that run cannot be had any more" for label in lost)
    return plan


def restored(manifest: Manifest, get: Get, folder: Path) -> Study:
    """The study of a manifest, with the code it had."""
    snapshot = _relocated(manifest.snapshot, _places(manifest, get, folder))
    if not manifest.cases_inline:
        sets = {label: cases_of(blob, get) for label, blob in manifest.case_sets.items()}
        snapshot = {**snapshot, "cases": sets[""] if set(sets) == {""} else sets}
    return restore(snapshot)


def _places(manifest: Manifest, get: Get, folder: Path) -> dict[str, str]:
    """Where to read each source file: in its own place if all are unchanged, else under `folder`."""
    if all(_unchanged(Path(path), blob) for path, blob in manifest.sources.items()):
        return {}
    root = os.path.commonpath([str(Path(path).parent) for path in manifest.sources])
    return {
        path: _lay_out(folder / os.path.relpath(path, root), get(blob))
        for path, blob in manifest.sources.items()
    }


def _unchanged(path: Path, blob: str) -> bool:
    try:
        return digest_bytes(path.read_bytes()) == blob
    except OSError:
        return False


def _lay_out(path: Path, data: bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return str(path.resolve())


def _relocated(value: Json, places: Mapping[str, str]) -> Json:
    """The snapshot with references ("file.py:name") pointing to where the files now are."""
    if isinstance(value, str):
        file, colon, name = value.rpartition(":")
        return f"{places[file]}{colon}{name}" if file in places else value
    if isinstance(value, list):
        return [_relocated(item, places) for item in value]
    if isinstance(value, dict):
        return {key: _relocated(item, places) for key, item in value.items()}
    return value
