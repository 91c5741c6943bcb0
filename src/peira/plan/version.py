"""A plan as it stands at one moment, live or stored, to be held against another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from peira.core.ids import Json, digest_bytes
from peira.plan.expand import Plan
from peira.plan.layout import Layout, PlannedCase
from peira.plan.manifest import Get, Manifest, keep, layout_of, read
from peira.spec.factors import Factor


@dataclass(frozen=True)
class Version:
    """A manifest, and where to get what it names."""

    manifest: Manifest
    get: Get

    @cached_property
    def layout(self) -> Layout:
        return layout_of(self.manifest, self.get)

    @cached_property
    def cases(self) -> Mapping[tuple[str, str], PlannedCase]:
        """The cases by the label of their set and their id."""
        sets = self.layout.case_sets.items()
        return {(label, case.id): case for label, cases in sets for case in cases}

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """The factors as they are declared."""
        return tuple(Factor(name=name, **spec) for name, spec in self.declared("factors").items())

    def declared(self, kind: str) -> dict[str, dict[str, Json]]:
        """What the study says of its `factors` or `blocks`, by name."""
        said = self.manifest.snapshot.get(kind, {})
        return {name: spec if isinstance(spec, dict) else {"levels": spec} for name, spec in said.items()}


def version_of(plan: Plan) -> Version:
    """A live plan as it would be stored now."""
    blobs: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        digest = digest_bytes(data)
        blobs[digest] = data
        return digest

    return Version(read(keep(plan, put), blobs.__getitem__), blobs.__getitem__)
