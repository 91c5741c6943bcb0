"""The outcomes, hypotheses and analysis plans that a study declared before it was run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache

import msgspec

from peira.core.expressions import Expression
from peira.core.ids import Json
from peira.plan.conditions import LevelLabels, declared
from peira.spec.aims import CASE_NAMES, AnalysisPlan, Hypothesis, Outcome, is_output_name
from peira.spec.values import read_value


@cache
def alone() -> AnalysisPlan:
    """The plan of a hypothesis without a plan; created lazily, since that builds a validator."""
    return AnalysisPlan(name="(no plan)")


class Aims(msgspec.Struct, frozen=True):
    """The outcomes, hypotheses and analysis plans that a study declared before it was run."""

    outcomes: tuple[Outcome, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    plans: tuple[AnalysisPlan, ...] = ()
    formula: str = ""
    """The model that the design was made for, if it was stated."""
    slices: Mapping[str, str] = msgspec.field(default_factory=dict)
    """The expressions of the slices, by name."""
    levels_described: bool = False
    """Whether levels of factors have metadata."""

    @classmethod
    def of(cls, snapshot: Json) -> Aims:
        """Read the aims from the snapshot of a study that a run stores."""
        stored: Mapping[str, Json] = snapshot if isinstance(snapshot, Mapping) else {}
        labels = LevelLabels.kept(stored)
        design = stored.get("design")
        formula = design.get("formula") if isinstance(design, Mapping) else None
        levels = [one for _, spec in declared(stored, "factors") for one in spec.get("levels") or ()]
        return cls(
            tuple(read_value(Outcome, raw) for raw in stored.get("outcomes", ())),
            tuple(_as_shown(read_value(Hypothesis, raw), labels) for raw in stored.get("hypotheses", ())),
            tuple(read_value(AnalysisPlan, raw) for raw in stored.get("analysis_plans", ())),
            formula if isinstance(formula, str) and formula != "main" else "",
            stored.get("slices") or {},
            any(isinstance(one, Mapping) and "metadata" in one for one in levels),
        )

    def measure_of(self, outcome: str) -> str | None:
        """The measure of an outcome; None means the only score there is."""
        declared = {found.name: found for found in self.outcomes}
        if not outcome:
            first = [found for found in self.outcomes if found.primary] or list(self.outcomes)
            return _measure_name(first[0]) if len(first) == 1 else None
        return _measure_name(declared[outcome]) if outcome in declared else outcome

    def families(self) -> list[tuple[AnalysisPlan, list[Hypothesis]]]:
        """The hypotheses of each plan, then each hypothesis without a plan.

        A plan that names no hypotheses has those of its outcomes.
        """
        found = [(plan, [h for h in self.hypotheses if plan.tests(h)]) for plan in self.plans]
        planned = {h.id for _, family in found for h in family}
        return [*found, *((alone(), [h]) for h in self.hypotheses if h.id not in planned)]

    def declares(self, factor: str, score: str) -> bool:
        """Whether some hypothesis is about this factor and this score."""
        return any(h.factor == factor and self._is(h, score) for h in self.hypotheses)

    def correction(self, factor: str, score: str | None) -> str:
        """The correction of the first plan with a hypothesis about this factor and score.

        Empty if none.
        """
        about = [h for h in self.hypotheses if h.factor == factor and (score is None or self._is(h, score))]
        found = [plan.correction for plan in self.plans if any(plan.tests(h) for h in about)]
        return found[0] if found else ""

    @property
    def slices_by_output(self) -> tuple[str, ...]:
        """The slices that depend on what was answered."""
        return tuple(name for name, known in self._read_by_slices() if known - {*CASE_NAMES})

    @property
    def slices_read_trials(self) -> bool:
        """Whether a slice names more of a trial than the plan says: its input, or what was answered."""
        return any(known for _, known in self._read_by_slices())

    def _read_by_slices(self) -> list[tuple[str, set[str]]]:
        """Each slice, with what it names of a trial that has ended."""
        return [
            (name, set(filter(is_output_name, Expression(text).names))) for name, text in self.slices.items()
        ]

    def slice_notes(self, names: Iterable[str]) -> list[str]:
        """What must be known beside a number of these slices, if some depend on what was answered."""
        by_output = self.slices_by_output
        known = [name for name in names if name in by_output]
        if not known:
            return []
        return [f"by outputs: {', '.join(known)}; conditions are not compared on the same cases there"]

    def _is(self, hypothesis: Hypothesis, score: str) -> bool:
        """Whether a hypothesis is about this score."""
        return self.measure_of(hypothesis.outcome) in (None, score)


def _as_shown(hypothesis: Hypothesis, labels: LevelLabels) -> Hypothesis:
    """The hypothesis with its levels replaced by their labels, as in results."""
    levels = tuple(labels.of_level(hypothesis.factor, level) for level in hypothesis.levels)
    return hypothesis.model_copy(update={"levels": levels})


def _measure_name(outcome: Outcome) -> str:
    """The name of an outcome's measure."""
    parts = (outcome.judged_by, outcome.metric)
    return ".".join(part for part in parts if part)
