"""The purpose of a study: outcomes, hypotheses, analysis plans, and what slices may name.

A study contains them and checks the names they refer to; `Results.hypotheses` tests them as declared.
"""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from peira.core.registry import nearest
from peira.errors import Invalid
from peira.spec.values import SMALLEST_SHARE, Name, Plain, Texts, Value

TESTS = (
    *("paired t", "permutation", "wilcoxon", "sign", "mcnemar", "mcnemar conditional"),
    *("welch", "mann-whitney", "proportions"),
)
NEEDS_MARGIN = ("equivalent", "not_less", "not_greater")
"""Directions of hypotheses that say nothing without a margin."""
DIRECTED = ("greater", "less", "not_less", "not_greater")
"""Directions of hypotheses that say nothing without a level."""
CORRECTIONS = ("none", "holm", "bh", "bonferroni", "dunnett", "tukey")


OUTPUT_NAMES = ("input", "expected", "output", "answer", "state", "took", "cost")
"""What an expression may name of a trial that has ended, beside its scores and metrics."""
TRIAL_NAMES = ("agent", "case", "slice", "cluster", "repeat")
TAKEN = frozenset({*OUTPUT_NAMES, *TRIAL_NAMES, "served", "cases"})
"""Names that mean something else wherever a slice can be named."""


CASE_NAMES = ("input", "expected")
"""Those of them that the case says, whatever came of the trial."""


def is_output_name(name: str) -> bool:
    """Whether a name in an expression is read from a trial that has ended: its input, or what it gave."""
    return name in OUTPUT_NAMES or name.startswith(("score.", "metric."))


class Outcome(Value):
    """What is measured: an evaluator's score (or one `metric` of it), or a metric that agents report.

    With neither named, the outcome is the evaluator of its own name.
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
        """The evaluator whose score it is; empty for a metric that agents report."""
        return self.evaluator or ("" if self.metric else self.name)


class Hypothesis(Value):
    """What is expected: that levels of a factor differ in an outcome, in a direction.

    With a direction, each level named is greater (or less) than the next; one level alone, than all others.
    "different" holds when any two of the levels differ. Without an outcome it is the primary one. `alpha`,
    where it is said, goes before that of the plan.

    A `margin` makes "greater" and "less" claim a difference of more than that. "equivalent" claims that any
    two of the levels differ by less than the margin, "not_less" (non-inferiority) that none is less than the
    next by the margin, and "not_greater" the same for an outcome that is to be small.
    """

    id: Name
    statement: str = ""
    outcome: str = ""
    factor: str = ""
    levels: tuple[Plain, ...] = ()
    direction: Literal["greater", "less", "different", "equivalent", "not_less", "not_greater"] = "different"
    margin: float | None = Field(default=None, gt=0, allow_inf_nan=False)
    alpha: float = Field(default=0.05, ge=SMALLEST_SHARE, le=1 - SMALLEST_SHARE)
    description: str = ""

    @property
    def missing_levels(self) -> str:
        """Why it cannot be decided, if it claims a direction and does not say of which level; else ""."""
        if self.direction not in DIRECTED or not self.factor or ":" in self.factor or self.levels:
            return ""
        return f"it does not say which level of {self.factor} is {self.direction.replace('_', ' ')}"

    @model_validator(mode="before")
    @classmethod
    def _levels_are_a_tuple(cls, raw: dict[str, object]) -> dict[str, object]:
        """Accept a list of levels."""
        levels = raw.get("levels")
        return {**raw, "levels": tuple(levels)} if isinstance(levels, list) else raw

    @model_validator(mode="after")
    def _says_of_what(self) -> Hypothesis:
        """Refuse levels without a factor, and margins where there can be none or must be one."""
        problems = ["factor: is missing, and levels belong to one"] if self.levels and not self.factor else []
        if self.direction == "different" and self.margin is not None:
            problems.append("margin: goes with a direction: greater, less, equivalent, not_less, not_greater")
        if self.direction in NEEDS_MARGIN and self.margin is None:
            problems.append(f"margin: is missing; {self.direction} says by how much at most")
        if problems:
            raise Invalid(problems)
        return self


class AnalysisPlan(Value):
    """How the hypotheses are tested: all that it names are one family (without names, all of its outcomes).

    Without a test the data choose one that fits; without a correction there is none.
    """

    name: Name
    test: str = ""
    alpha: float = Field(default=0.05, ge=SMALLEST_SHARE, le=1 - SMALLEST_SHARE)
    correction: str = ""
    outcomes: Texts = ()
    hypotheses: Texts = ()
    description: str = ""

    def tests(self, hypothesis: Hypothesis) -> bool:
        """Whether the hypothesis belongs to this plan's family."""
        if self.hypotheses:
            return hypothesis.id in self.hypotheses
        return not self.outcomes or hypothesis.outcome in self.outcomes

    @model_validator(mode="after")
    def _knows_the_names(self) -> AnalysisPlan:
        """Refuse unknown tests and corrections, and combinations that exclude each other."""
        named = (("test", self.test, TESTS), ("correction", self.correction, CORRECTIONS))
        problems = [
            f"{key}: there is no {key} {name!r}{nearest(name, known)}"
            for key, name, known in named
            if name and name not in known
        ]
        if self.test and self.correction in ("dunnett", "tukey"):
            problems.append(f"test: {self.correction} is a test of its own; leave out {self.test!r}")
        if problems:
            raise Invalid(problems)
        return self
