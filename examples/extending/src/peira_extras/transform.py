"""`yes_no`: the first yes or no in an output, as true or false."""

from __future__ import annotations

import re
from dataclasses import dataclass

from peira.core.ids import Json
from peira.core.registry import Registry
from peira.core.transforms import NoAnswer

WORD = re.compile(r"\b(yes|no)\b", re.IGNORECASE)


@dataclass(frozen=True)
class YesNo:
    name = "yes_no"

    @property
    def identity(self) -> Json:
        return {"transform": self.name, "config": {}, "version": 1}

    def apply(self, output: Json | NoAnswer) -> Json | NoAnswer:
        if isinstance(output, NoAnswer):
            return output
        found = WORD.search(output) if isinstance(output, str) else None
        return found[1].lower() == "yes" if found else NoAnswer("neither yes nor no")


def register(registry: Registry) -> None:
    registry.add("transform", "yes_no", YesNo)
