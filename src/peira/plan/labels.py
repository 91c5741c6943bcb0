"""What people are shown for a level: its label where it has one, else its value."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from peira.core.ids import Json, canonical
from peira.spec.factors import Block, Factor
from peira.spec.values import read_value


@dataclass(frozen=True)
class Labels:
    """The labels of levels, by factor and canonical value."""

    known: Mapping[str, Mapping[bytes, str]] = field(default_factory=dict)

    @classmethod
    def of(cls, factors: Iterable[Factor | Block]) -> Labels:
        found = {
            one.name: {canonical(level.value): level.label for level in one.levels if level.label}
            for one in factors
        }
        return cls({name: labels for name, labels in found.items() if labels})

    @classmethod
    def kept(cls, snapshot: Mapping[str, Json]) -> Labels:
        """Those of a study as a run keeps it."""
        declared = [(name, spec) for kind in ("factors", "blocks") for name, spec in _said(snapshot, kind)]
        return cls.of(
            read_value(Factor, {"name": name, **spec})
            for name, spec in declared
            if any(isinstance(level, Mapping) and "label" in level for level in spec.get("levels", ()))
        )

    def shown(self, condition: Mapping[str, Json]) -> Mapping[str, Json]:
        """The condition as people are shown it."""
        if self.known.keys().isdisjoint(condition):
            return condition
        return {name: self.of_level(name, value) for name, value in condition.items()}

    def of_level(self, factor: str, value: Json) -> Json:
        return self.known[factor].get(canonical(value), value) if factor in self.known else value


def _said(snapshot: Mapping[str, Json], kind: str) -> list[tuple[str, dict[str, Json]]]:
    said = snapshot.get(kind, {})
    return [(name, spec if isinstance(spec, dict) else {"levels": spec}) for name, spec in said.items()]
