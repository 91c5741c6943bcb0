"""What a study declared before it was run, as far as it is to be tested."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from peira.core.ids import Json
from peira.plan.labels import Labels
from peira.spec.aims import AnalysisPlan, Hypothesis, Outcome
from peira.spec.values import read_value


@cache
def alone() -> AnalysisPlan:
    """The plan of a hypothesis that is in none; made when one is met, because that builds its validator."""
    return AnalysisPlan(name="(no plan)")


@dataclass(frozen=True)
class Aims:
    """What a study declared before it was run."""

    outcomes: tuple[Outcome, ...] = ()
    hypotheses: tuple[Hypothesis, ...] = ()
    plans: tuple[AnalysisPlan, ...] = ()

    @classmethod
    def of(cls, snapshot: Json) -> Aims:
        """The aims of a study as a run keeps it."""
        kept: Mapping[str, Json] = snapshot if isinstance(snapshot, Mapping) else {}
        labels = Labels.kept(kept)
        return cls(
            tuple(read_value(Outcome, raw) for raw in kept.get("outcomes", ())),
            tuple(_as_shown(read_value(Hypothesis, raw), labels) for raw in kept.get("hypotheses", ())),
            tuple(read_value(AnalysisPlan, raw) for raw in kept.get("analysis_plans", ())),
        )

    def measure_of(self, outcome: str) -> str | None:
        """The name of the number that an outcome is; None if the only score there is will do."""
        declared = {found.name: found for found in self.outcomes}
        if not outcome:
            first = [found for found in self.outcomes if found.primary] or list(self.outcomes)
            return _number(first[0]) if len(first) == 1 else None
        return _number(declared[outcome]) if outcome in declared else outcome

    def families(self) -> list[tuple[AnalysisPlan, list[Hypothesis]]]:
        """The hypotheses of each plan (without names: those of its outcomes), then each that no plan has."""
        found = [(plan, [h for h in self.hypotheses if plan.tests(h)]) for plan in self.plans]
        planned = {h.id for _, family in found for h in family}
        return [*found, *((alone(), [h]) for h in self.hypotheses if h.id not in planned)]

    def declares(self, factor: str, score: str) -> bool:
        """Whether some hypothesis is about this factor and this number."""
        return any(h.factor == factor and self._is(h, score) for h in self.hypotheses)

    def correction(self, factor: str, score: str | None) -> str:
        """The correction of the first plan that tests a hypothesis about this; empty where there is none."""
        about = [h for h in self.hypotheses if h.factor == factor and (score is None or self._is(h, score))]
        found = [plan.correction for plan in self.plans if any(plan.tests(h) for h in about)]
        return found[0] if found else ""

    def _is(self, hypothesis: Hypothesis, score: str) -> bool:
        return self.measure_of(hypothesis.outcome) in (None, score)


def _as_shown(hypothesis: Hypothesis, labels: Labels) -> Hypothesis:
    """Its levels by their labels, as results have them."""
    levels = tuple(labels.of_level(hypothesis.factor, level) for level in hypothesis.levels)
    return hypothesis.model_copy(update={"levels": levels})


def _number(outcome: Outcome) -> str:
    parts = (outcome.judged_by, outcome.metric)
    return ".".join(part for part in parts if part)
