"""What the built-in evaluators have in common: a comparison of the output with what is expected.

A comparison is a frozen value: its name and options are its identity and its repr, and a case without
an expected value makes it refuse, so that a missing reference is a failed score and not a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from peira.core.ids import Json, canonical
from peira.errors import Invalid

VERSION = 1
"""Raised when a comparison changes its meaning: its scores are then computed anew."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """An evaluator that says whether an output agrees with what is expected.

    `compare(output, expected)` decides. Where `needs_expected` is false it is handed None, and what a
    case expects is no part of its scores' identity.
    """

    name: str
    compare: Callable[[Json, Json], bool] = field(compare=False)
    options: tuple[tuple[str, Json], ...] = ()
    needs_expected: bool = True
    asynchronous: ClassVar[bool] = False

    @property
    def takes(self) -> frozenset[str]:
        return frozenset({"output", "expected"} if self.needs_expected else {"output"})

    @property
    def identity(self) -> Json:
        return {"evaluator": self.name, "config": dict(self.options), "version": VERSION}

    def judge(self, facts: Mapping[str, Any]) -> bool:
        if not self.needs_expected:
            return self.compare(facts["output"], None)
        expected = facts["expected"]
        if expected is None:
            raise Invalid(f"{self.name} needs an expected value; this case has none")
        return self.compare(facts["output"], expected)

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options)})"


def text_of(value: Json) -> str:
    """Text as it is; anything else as its canonical JSON."""
    return value if type(value) is str else canonical(value).decode()
