"""Live experiments as streams declare them: how arms are drawn, and when the experiment has its answer."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from peira.core.ids import Json, digest
from peira.spec.values import SMALLEST_SHARE, Range, Value

Assign = Literal["one", "random", "all", "thompson", "successive rejects"]
"""Which conditions a job gets: the first; one drawn with equal probabilities; all, of which the first answers
and the others are shadows; or one drawn with probabilities that follow the evidence."""
DRAWN = ("random", "thompson", "successive rejects")
"""Those that draw one condition for each job."""
ADAPTIVE = ("thompson", "successive rejects")
"""Those whose probabilities follow the evidence."""
WHEN_DECIDED = "when decided"
JOBS_PER_ARM = 250
"""Jobs for each arm after which successive rejects has one left, where nothing else is said."""


class Experiment(Value):
    """How the arms of a stream are compared while it is served.

    `score` is what decides: an evaluator's score (or part of one, as "judge.clarity"), a metric that agents
    report, or an outcome that is reported later; if it is not named, the primary outcome, or the only
    evaluator. More of it is better unless `minimize`. `range` are its least and its greatest possible value.
    No arm is drawn with a probability below `floor` (half of an equal share, if nothing is said), so that
    the comparison stays valid. With `assign` "successive rejects" one arm is left after `jobs`.

    An arm has won when it is better than every other, which goes wrong with probability `alpha` at most, at
    whatever look; with a `margin` also when no other can be better by that much.
    """

    score: str = ""
    minimize: bool = False
    range: Range = (0.0, 1.0)
    floor: float | None = Field(default=None, ge=SMALLEST_SHARE, le=0.5)
    jobs: int | None = Field(default=None, ge=2)
    alpha: float = Field(default=0.05, ge=SMALLEST_SHARE, le=1 - SMALLEST_SHARE)
    margin: float | None = Field(default=None, gt=0)
    least: int = Field(default=20, ge=2)

    def least_share(self, arms: int, assign: str) -> float:
        """The smallest probability that an arm may have."""
        if assign not in ADAPTIVE:
            return 1 / arms
        return 0.5 / arms if self.floor is None else self.floor

    def problems(self, assign: str, stops: bool, arms: int) -> Iterator[str]:
        """What does not fit the rest of the stream, one line each."""
        given = self.model_fields_set
        if assign not in DRAWN and given:
            yield f'experiment: has no meaning with assign = "{assign}"; it is about arms that are drawn'
            return
        if "floor" in given and assign not in ADAPTIVE:
            yield f'experiment.floor: has no meaning with assign = "{assign}", where all shares are equal'
        if self.floor is not None and self.floor > 1 / arms:
            yield f"experiment.floor: {arms} arms cannot each have a share of at least {self.floor:g}"
        if "jobs" in given and assign != "successive rejects":
            yield f'experiment.jobs: is for assign = "successive rejects", not "{assign}"'
        if self.jobs is not None and self.jobs < arms:
            yield f"experiment.jobs: must let each of {arms} arms have a job, not {self.jobs}"
        for name in ("alpha", "margin", "least"):
            if name in given and not stops:
                yield f'experiment.{name}: is for stop = "{WHEN_DECIDED}"'


def experiment_id(stream: str, assign: str, arms: tuple[dict[str, Json], ...], options: Experiment) -> str:
    """What identifies an experiment: its arms, and how they are drawn and compared."""
    return digest([stream, assign, list(arms), options.model_dump(mode="json")])[:16]
