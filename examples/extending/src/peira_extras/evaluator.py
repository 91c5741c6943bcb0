"""`at_most`: whether an output has at most so many words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.transforms import NoAnswer
from peira.errors import Invalid


@dataclass(frozen=True)
class AtMost:
    """The options of the evaluator are the parameters of its class."""

    words: int = 20

    name = "at_most"
    asynchronous = False
    takes = frozenset({"output"})

    def __post_init__(self) -> None:
        if self.words < 1:
            raise Invalid(f"at_most: words={self.words!r} must be at least 1")

    @property
    def identity(self) -> Json:
        """A score is computed again when this changes. Raise the version when the meaning changes."""
        return {"evaluator": self.name, "config": {"words": self.words}, "version": 1}

    def judge(self, facts: Mapping[str, Any]) -> bool:
        output = facts["output"]
        return not isinstance(output, NoAnswer) and len(str(output).split()) <= self.words


def register(registry: Registry) -> None:
    registry.add("evaluator", "at_most", AtMost)
