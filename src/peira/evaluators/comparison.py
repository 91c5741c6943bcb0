"""What the built-in evaluators have in common: a comparison of the output with what is expected.

A comparison is a frozen value: its name and options are its identity and its repr, and a case without
an expected value makes it refuse, so that a missing reference is a failed score and not a wrong answer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from peira.core.ids import Json, canonical, normalise
from peira.core.transforms import NoAnswer
from peira.errors import Invalid
from peira.evaluators.libraries import versions

Score = bool | float | str | Mapping[str, bool | float | str]
"""What a comparison may say; `evaluators.scores` says it in full."""

VERSION = 1
"""Raised when a comparison changes its meaning: its scores are then computed anew."""


@dataclass(frozen=True, repr=False)
class Comparison:
    """An evaluator that says whether, or how far, an output agrees with what is expected.

    `compare(output, expected)` decides. Where `needs_expected` is false it is handed None, and what a
    case expects is no part of its scores' identity. No answer has the score `no_answer`, the lowest there is;
    without one it cannot be judged. The versions of `libraries`, and of the `data` that it reads, are
    part of what the evaluator is.
    """

    name: str
    compare: Callable[[Json, Json], Score] = field(compare=False)
    options: tuple[tuple[str, Json], ...] = ()
    needs_expected: bool = True
    no_answer: Score | None = field(default=False, compare=False)
    libraries: tuple[str, ...] = ()
    data: tuple[tuple[str, str], ...] = ()
    asynchronous: ClassVar[bool] = False

    @property
    def takes(self) -> frozenset[str]:
        return frozenset({"output", "expected"} if self.needs_expected else {"output"})

    @property
    def identity(self) -> Json:
        known = {"libraries": versions(self.libraries) | dict(self.data)} if self.libraries else {}
        return {"evaluator": self.name, "config": normalise(dict(self.options)), "version": VERSION, **known}

    def judge(self, facts: Mapping[str, Any]) -> Score:
        output, expected = facts["output"], facts["expected"] if self.needs_expected else None
        if self.needs_expected and expected is None:
            raise Invalid(f"{self.name} needs an expected value; this case has none")
        if not isinstance(output, NoAnswer):
            return self.compare(output, expected)
        if self.no_answer is None:
            raise Invalid(f"{self.name} cannot judge what is not there: {output}")
        return self.no_answer

    def __repr__(self) -> str:
        return f"{self.name}({', '.join(f'{key}={value!r}' for key, value in self.options)})"


def text_of(value: Json) -> str:
    """Text as it is; anything else as its canonical JSON."""
    return value if type(value) is str else canonical(value).decode()
