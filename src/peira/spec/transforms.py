"""Transforms as a study writes them: a name, a name with options, a function, or a list of these (a chain).

What they are made of is `core.transforms`; here they are written down again, and stood in for when their code
cannot be had any more.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from peira.core.ids import Json
from peira.core.registry import registry
from peira.core.transforms import NoAnswer, Transform
from peira.core.transforms import as_transform as make
from peira.spec.modules import Missing, reference


def as_transform(given: Any) -> Transform:
    """The transform that is meant; Invalid says why there is none."""
    return MissingTransform(given) if isinstance(given, Missing) else make(given)


class MissingTransform:
    """Stands for a transform that cannot be had any more; applying it says why."""

    def __init__(self, missing: Missing, identity: Json = None) -> None:
        """`identity` is that of the transform itself, so that its recorded answers are found."""
        self.name = missing.__name__
        self.identity = {"missing": self.name} if identity is None else identity
        self._missing = missing

    def known_as(self, identity: Json) -> MissingTransform:
        return MissingTransform(self._missing, identity)

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        found: Json = self._missing()
        return found


def write_transform(given: Any, base: Path | None) -> Json:
    """What `as_transform` reads; None for what cannot be named in a file."""
    if isinstance(given, list | tuple):
        steps = [write_transform(step, base) for step in given]
        return None if None in steps else steps
    if isinstance(given, str | Mapping):
        return given if isinstance(given, str) else dict(given)
    if not isinstance(given, Transform):
        return reference(given, base)
    config = given.identity.get("config") if isinstance(given.identity, Mapping) else None
    if isinstance(config, Mapping) and given.name in registry.names("transform"):
        return {"name": given.name, **config} if config else given.name
    return reference(getattr(given, "fn", given), base)
