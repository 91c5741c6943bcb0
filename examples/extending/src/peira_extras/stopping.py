"""`enough`: a run has seen enough after a number of cases that was fixed before."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from peira.core.looks import Look, Question, Unit
from peira.core.registry import Registry


class Enough:
    range = (0.0, 1.0)

    def __init__(self, cases: int = 10) -> None:
        self.cases = cases

    def problems(self, study: Any) -> Iterator[str]:
        if self.cases < 1:
            yield f"cases: must be at least 1, not {self.cases}"

    def claims(self, study: Any) -> Sequence[str]:
        """It follows no hypothesis."""
        return ()

    def outcome(self, study: Any) -> str:
        """It follows the primary outcome."""
        return ""

    def watch(self, question: Question) -> CaseCount:
        return CaseCount(self.cases)


class CaseCount:
    """The rule in one run: it is handed every case once, in the planned order."""

    def __init__(self, cases: int) -> None:
        self._cases, self._seen = cases, 0

    def take(self, unit: Unit) -> Look | None:
        self._seen += 1
        return self.finish() if self._seen == self._cases else None

    def finish(self) -> Look:
        answer = f"{self._seen} cases were enough" if self._seen >= self._cases else ""
        return Look(number=1, units=self._seen, answer=answer)


def register(registry: Registry) -> None:
    registry.add("stop", "enough", Enough)
