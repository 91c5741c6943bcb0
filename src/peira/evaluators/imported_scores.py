"""`imported`: a score that another tool gave, recorded when its outputs were imported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from peira.core.ids import Json
from peira.core.verdicts import NoVerdict
from peira.errors import Invalid
from peira.evaluators.comparison import VERSION

KIND = "imported"


@dataclass(frozen=True)
class ImportedScore:
    """The evaluator whose scores are recorded by `peira import`; a trial without one has no verdict."""

    name: str
    asynchronous: ClassVar[bool] = False
    takes: ClassVar[frozenset[str]] = frozenset({"trial"})

    @property
    def identity(self) -> Json:
        """The name of the score."""
        return {"evaluator": KIND, "config": {"score": self.name}, "version": VERSION}

    def judge(self, facts: Mapping[str, Any]) -> NoVerdict:
        """No verdict: a score that was imported is recorded already, and never computed."""
        return NoVerdict(f"no score {self.name} was imported for this trial")


def imported(score: str) -> ImportedScore:
    """A score that came with an imported output, by its name: `inspect.match`, `lm_eval.acc`."""
    if not score:
        raise Invalid(f"imported: score={score!r} is no name of a score")
    return ImportedScore(score)
