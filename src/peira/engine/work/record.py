"""What is recorded of a unit, and what its dependents see of it.

The task of a unit belongs to one execution of a plan (its scope), so that every unit has one end there. What
a unit made is also recorded as a step whose key is the unit's content: its spec, the base, and what its needs
made. A later execution that comes to the same key takes that over.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec

from peira.core.ids import Json, compose, digest
from peira.engine.kinds import UNIT
from peira.sandbox.file_tree import TreeChanges, TreeFile, changes_from, changes_json, tree_digest

LOG = "log.txt"
CHANGES, HANDOVER, ARTIFACTS = "changes/", "handover/", "artifacts/"
"""What the names of a unit's artifacts begin with."""
REUSED = "reused"
"""The fact about a task whose result was taken over."""


def unit_task(scope: str, name: str) -> str:
    """The id of the task of a unit in one execution of a plan."""
    return compose(UNIT, scope, name)


class UnitResult(msgspec.Struct, frozen=True):
    """What a unit made: a value, changes of files, files for its dependents, and further units."""

    value: Any = None
    changes: TreeChanges = {}
    handover: Mapping[str, TreeFile] = {}
    units: Mapping[str, Json] = {}

    def document(self) -> dict[str, Json]:
        """The result as JSON; what is empty is left out."""
        parts = {
            "value": self.value,
            "changes": changes_json(self.changes),
            "handover": changes_json(self.handover),
            "units": dict(self.units),
        }
        return {name: part for name, part in parts.items() if part not in (None, {})}


def result_of(document: Mapping[str, Any]) -> UnitResult:
    """The result of a JSON document."""
    handover = {name: TreeFile(*one) for name, one in document.get("handover", {}).items()}
    return UnitResult(
        document.get("value"),
        changes_from(document.get("changes", {})),
        handover,
        document.get("units", {}),
    )


class LayerFile(NamedTuple):
    """A changed file, and the number of the unit that changed it last, in the order of their ends."""

    file: TreeFile | None
    by: int


class Layer:
    """All changes on top of the base that a unit and those before it made."""

    def __init__(self, files: dict[str, LayerFile] | None = None) -> None:
        self.files = files or {}
        self.digest = tree_digest(self.changes)

    @property
    def changes(self) -> dict[str, TreeFile | None]:
        """The changes, by path."""
        return {path: one.file for path, one in self.files.items()}

    def plus(self, changes: TreeChanges, by: int) -> Layer:
        """This layer with the changes of one more unit."""
        if not changes:
            return self
        return Layer({**self.files, **{path: LayerFile(one, by) for path, one in changes.items()}})


EMPTY = Layer()


def merged(layers: Iterable[Layer]) -> Layer:
    """Several layers as one. Of a file that several have, the last change counts: those who may change the
    same file are ordered by their needs."""
    different = list({id(layer): layer for layer in layers if layer.files}.values())
    if len(different) < 2:
        return different[0] if different else EMPTY
    files: dict[str, LayerFile] = {}
    for layer in different:
        for path, one in layer.files.items():
            if path not in files or files[path].by < one.by:
                files[path] = one
    return Layer(files)


class EndedUnit(NamedTuple):
    """A unit that succeeded, as its dependents see it."""

    layer: Layer
    result: UnitResult
    digest: str


class UnitInputs(NamedTuple):
    """What a unit starts from: the changes of those before it, and what each need made."""

    key: str
    layer: Layer
    needs: Mapping[str, UnitResult]


def ended_unit(layer: Layer, result: UnitResult) -> EndedUnit:
    """A unit that succeeded, with the digest of all that dependents see of it."""
    seen = [layer.digest, result.value, changes_json(result.handover)]
    return EndedUnit(layer, result, digest(seen))
