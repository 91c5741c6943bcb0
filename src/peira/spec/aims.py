"""Why it is asked: outcomes, hypotheses and analysis plans.

A study carries them and checks the names they refer to. This release does not execute them; a later one does.
Until then every result says so, through `Study.unexecuted`.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from peira.errors import Invalid
from peira.spec.values import Name, Plain, Texts, Value


class Outcome(Value):
    """What is measured: an evaluator's score (or one `metric` of it), or a metric that agents report.

    With neither named, the outcome is the evaluator of its own name. Carried and checked, not executed yet.
    """

    name: Name
    evaluator: str = ""
    metric: str = ""
    direction: Literal["maximize", "minimize"] = "maximize"
    primary: bool = False
    unit: str = ""
    description: str = ""

    @property
    def judged_by(self) -> str:
        """The evaluator it needs; empty for a metric that agents report."""
        return self.evaluator or ("" if self.metric else self.name)


class Hypothesis(Value):
    """What is expected: that levels of a factor differ in an outcome, in a direction.

    Carried and checked, not executed yet.
    """

    id: Name
    statement: str = ""
    outcome: str = ""
    factor: str = ""
    levels: tuple[Plain, ...] = ()
    direction: Literal["greater", "less", "different"] = "different"
    alpha: float = Field(default=0.05, gt=0, lt=1)
    description: str = ""

    @model_validator(mode="before")
    @classmethod
    def _levels_are_a_tuple(cls, raw: dict[str, object]) -> dict[str, object]:
        levels = raw.get("levels")
        return {**raw, "levels": tuple(levels)} if isinstance(levels, list) else raw

    @model_validator(mode="after")
    def _says_of_what(self) -> Hypothesis:
        if self.levels and not self.factor:
            raise Invalid("factor: is missing, and levels belong to one")
        return self


class AnalysisPlan(Value):
    """How the hypotheses will be tested. Carried and checked, not executed yet."""

    name: Name
    test: str = ""
    alpha: float = Field(default=0.05, gt=0, lt=1)
    correction: str = ""
    outcomes: Texts = ()
    hypotheses: Texts = ()
    description: str = ""
