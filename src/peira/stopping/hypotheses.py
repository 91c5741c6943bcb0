"""The rule `decided`: stop when the declared hypotheses are decided, or for futility.

Each pair of levels has a confidence sequence (valid at every look) or a group-sequential interval. A
directional hypothesis is supported once all its pairs lie on its side of 0, and rejected once all lie on the
other; "different" is supported once any pair excludes 0, with alpha divided among the pairs. A pair is futile
once its difference is known to be smaller than the `margin`, the smallest that matters; and, at planned
looks, when the conditional power under the current trend falls below `futility`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from peira.core.looks import Claim, Look, Question, Standing, Unit
from peira.core.registry import Registry, nearest
from peira.errors import Invalid
from peira.spec.study import Study
from peira.spec.values import SMALLEST_SHARE, Texts, Value
from peira.stopping.rule import Range, difference


def _looks(value: Any) -> Any:
    if value == "always" or (type(value) is int and value >= 2):
        return value
    raise Invalid(f'must be "always", or a planned number of looks of at least 2, not {value!r}')


class Decided(Value):
    """`hypotheses` are those that must be decided, all of them if none is named."""

    hypotheses: Texts = ()
    margin: float | None = Field(default=None, gt=0)
    futility: float | None = Field(default=None, ge=SMALLEST_SHARE, le=1 - SMALLEST_SHARE)
    looks: Annotated[Any, BeforeValidator(_looks, json_schema_input_type=int | str)] = "always"
    spending: Literal["obrien-fleming", "pocock"] | None = None
    least: int = Field(default=10, ge=2)
    range: Range = (0.0, 1.0)

    @model_validator(mode="after")
    def _fits(self) -> Decided:
        """Check that `futility` and `spending` come with planned looks."""
        needs = [name for name in ("futility", "spending") if getattr(self, name) is not None]
        if self.looks == "always" and needs:
            raise Invalid(f"{name}: needs a planned number of looks, like looks = 5" for name in needs)
        return self

    def problems(self, study: Study) -> Iterator[str]:
        """Problems with the named hypotheses of the study."""
        known = {h.id: h for h in study.hypotheses}
        if not known:
            yield "needs a hypothesis to decide: declare one in `hypotheses`"
        for name in self.hypotheses:
            if name not in known:
                yield f"hypotheses: there is no hypothesis {name!r}{nearest(name, known)}"
        followed = [known[name] for name in self.claims(study) if name in known]
        for h in followed:
            if not h.factor or ":" in h.factor or h.factor == "cases":
                yield f"hypotheses: {h.id} cannot be followed: it must compare levels of one factor"
            elif h.margin is not None:
                yield f"hypotheses: {h.id} cannot be followed: it has a margin, which is tested at the end"
            elif h.direction != "different" and not h.levels:
                yield f"hypotheses: {h.id} does not say which level of {h.factor} is {h.direction}"
        if len({h.outcome for h in followed}) > 1:
            yield "hypotheses: they are about several outcomes; name those of one"

    def claims(self, study: Study) -> Sequence[str]:
        """The ids of the hypotheses that must be decided."""
        return self.hypotheses or [h.id for h in study.hypotheses]

    def outcome(self, study: Study) -> str:
        """The outcome that the hypotheses are about."""
        named = self.claims(study)
        return next((h.outcome for h in study.hypotheses if h.id in named), "")

    def watch(self, question: Question) -> HypothesisWatch:
        """A monitor of the hypotheses for one run."""
        return HypothesisWatch(self, question)


class HypothesisWatch:
    """Monitors the hypotheses of one run, unit by unit."""

    def __init__(self, rule: Decided, question: Question) -> None:
        self._claims = [_HypothesisMonitor(rule, claim, question.units) for claim in question.claims]
        self._units = self._looks = 0

    def take(self, unit: Unit) -> Look | None:
        """Add the results of one unit; returns a look if one is due."""
        self._units += 1
        for claim in self._claims:
            claim.take(unit)
        due = [claim.due() for claim in self._claims]
        return self._look() if any(due) else None

    def finish(self) -> Look:
        """The final look, when no more units will come."""
        return self._look()

    def _look(self) -> Look:
        """The estimates of all pairs, and the answer if every hypothesis is decided."""
        self._looks += 1
        standings = [one for claim in self._claims for one in claim.look()]
        undecided = [claim for claim in self._claims if not claim.verdict]
        answer = "" if undecided else "; ".join(f"{claim.name} {claim.verdict}" for claim in self._claims)
        return Look(self._looks, self._units, tuple(standings), answer=answer)


class _HypothesisMonitor:
    """The state of one hypothesis; a verdict is final."""

    def __init__(self, rule: Decided, claim: Claim, planned: int) -> None:
        from peira.stats.sequential.monitoring import monitor

        several = len(claim.pairs) if claim.direction == "different" else 1
        width, level = rule.range[1] - rule.range[0], 1 - claim.alpha / max(1, several)
        how = (width, level, rule.least, rule.looks, planned, rule.spending or "obrien-fleming")
        self.name, self.verdict = claim.name, ""
        self._claim, self._margin, self._futility = claim, rule.margin, rule.futility
        self._pairs = [(pair, monitor(*how)) for pair in claim.pairs]

    def take(self, unit: Unit) -> None:
        """Add the differences of one unit."""
        for pair, sequence in self._pairs:
            if (found := difference(unit, pair.groups)) is not None:
                sequence.add(*found)

    def due(self) -> bool:
        """Whether a look is due for any pair."""
        due = [sequence.due() for _, sequence in self._pairs]
        return any(due)

    def look(self) -> list[Standing]:
        """The current estimates and intervals of the pairs; updates the verdict."""
        estimates = [sequence.now() for _, sequence in self._pairs]
        conditional_powers = [one.hope for one in estimates]
        self.verdict = self.verdict or self._judge(
            [(one.low, one.high) for one in estimates], conditional_powers
        )
        return [
            Standing(self.name, pair.first, pair.second, one.mean, one.low, one.high, self.verdict)
            for (pair, _), one in zip(self._pairs, estimates, strict=True)
        ]

    def _judge(self, ends: list[tuple[float, float]], conditional_powers: list[float | None]) -> str:
        """The verdict for these intervals; "" if undecided."""
        if not ends:  # constraints or a subset of the plan leave nothing to compare
            return ""
        above, below = [low > 0 for low, _ in ends], [high < 0 for _, high in ends]
        if self._claim.direction == "different":
            if any(above) or any(below):
                return "supported"
        else:
            ahead, behind = (above, below) if self._claim.direction == "greater" else (below, above)
            if all(ahead):
                return "supported"
            if all(behind):
                return "rejected"
        return "futile" if self._futile(ends, conditional_powers) else ""

    def _futile(self, ends: list[tuple[float, float]], conditional_powers: list[float | None]) -> bool:
        """Whether to stop for futility.

        A directional hypothesis is futile if any of its pairs is, because it needs all of them; "different"
        only if all are.
        """
        enough = all if self._claim.direction == "different" else any
        small = self._margin is not None and enough([self._small(low, high) for low, high in ends])
        least = self._futility
        return small or (
            least is not None and enough([h is not None and h < least for h in conditional_powers])
        )

    def _small(self, low: float, high: float) -> bool:
        """Whether the interval excludes differences that matter."""
        assert self._margin is not None
        if self._claim.direction == "greater":
            return high < self._margin
        if self._claim.direction == "less":
            return low > -self._margin
        return -self._margin < low and high < self._margin


def register(registry: Registry) -> None:
    """Register the rule `decided`."""
    registry.add("stop", "decided", Decided)
