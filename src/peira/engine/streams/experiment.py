"""A live experiment while its stream is served: evidence, the traffic that follows it, and the decision.

Jobs are evidence in the order in which they were drawn: one counts once it has its value and every job before
it has (or was given up as lost), so that quick answers have no advantage over slow ones. An outcome that is
reported later counts when it is reported. Everything is computed from recorded results: a host that begins
anew counts them again, in the same order, and goes on.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

import msgspec

from peira.core.contracts import Ended, Offer, Store
from peira.core.log.events import AnyEvent, RunDecided, RunNoted, State, TrafficSplit
from peira.core.looks import Look, Standing, Traffic
from peira.core.text.words import counted
from peira.engine.sources.adaptive import NUMBERS, ScoreProgress, read_score
from peira.engine.sources.study import trial_of
from peira.engine.streams.declaration import DecidingScore, arm_labels
from peira.engine.streams.jobs import JOB, Job
from peira.plan.expansion import Plan
from peira.spec.streams.experiment import (
    DRAWN,
    JOBS_PER_ARM,
    WHEN_DECIDED,
    Experiment,
    experiment_id,
)
from peira.spec.streams.stream import Stream

PATIENCE = 50
"""A job that has no value when so many after it have one is counted as lost."""
GROWTH, STEP = 1.1, 10
"""The traffic is looked at again when the evidence has grown by this factor, and by so many jobs."""
CHANGE = 0.005
"""Changes of all shares below this are not worth an event."""


@dataclass(frozen=True)
class ExperimentPlan:
    """What a stream compares: its arms by their labels, the score that decides, and how arms are drawn.

    `score` is an evaluator and a part of its score; without an evaluator a metric that agents report. `late`
    is the name of an outcome that is reported later, "" if the score is not one.
    """

    id: str
    assign: str
    labels: tuple[str, ...]
    by: str
    options: Experiment
    score: tuple[str, str]
    late: str
    maximize: bool
    stops: bool

    @property
    def arms(self) -> int:
        """The number of arms."""
        return len(self.labels)

    @property
    def least_share(self) -> float:
        """The smallest probability that an arm may have."""
        return self.options.least_share(self.arms, self.assign)

    @property
    def follows(self) -> bool:
        """Whether anything follows from the evidence while the stream is served."""
        return self.stops or self.assign != "random"

    @property
    def deciding(self) -> DecidingScore:
        """The score that decides, as the opening of the stream records it."""
        name = self.late or ".".join(filter(None, self.score))
        options, late = self.options, bool(self.late)
        return DecidingScore(
            name, late, not self.maximize, options.range, options.alpha, options.margin, self.stops
        )

    def begun(self, before: Traffic | None) -> Traffic:
        """The traffic at an opening: that of the opening before, if it was the same experiment."""
        if before is not None and before.experiment == self.id:
            return before
        return Traffic(self.id, (1 / self.arms,) * self.arms, why="equal shares to begin with")


def experiment_plan(stream: Stream, plan: Plan) -> ExperimentPlan | None:
    """The experiment of a stream; None if it draws no arms."""
    if stream.assign not in DRAWN:
        return None
    conditions = tuple(plan.layout.conditions)
    arms = tuple({"agent": one.agent, **dict(one.shown)} for one in conditions)
    varying, labels = arm_labels(arms)
    options, study = stream.experiment, stream.study
    primary = [one for one in study.outcomes if one.primary] or list(study.outcomes)
    names = [one.name for one in plan.evaluators.values()]
    name, _, part = options.score.partition(".")
    maximize, late, score = not options.minimize, "", (name, part)
    if not options.score:
        outcome = primary[0] if primary else None
        score = (outcome.judged_by, outcome.metric) if outcome else (names[0] if names else "", "")
        maximize = outcome.direction == "maximize" if outcome else maximize
    elif name not in names:
        metric = [one for one in study.outcomes if one.name == options.score and not one.judged_by]
        score, late = ("", metric[0].metric if metric else ""), "" if metric else options.score
    return ExperimentPlan(
        experiment_id(stream.name, stream.assign, arms, options),
        stream.assign,
        labels,
        " x ".join(varying),
        options,
        score,
        late,
        maximize,
        bool(stream.stop),
    )


class DrawnUnit(msgspec.Struct, gc=False):
    """A job that was drawn: `known` once it has a value, or is lost (None); `void` if it is no evidence.

    `counted` once it was given to the sequences, whatever comes later.
    """

    arm: int
    share: float
    known: bool = False
    void: bool = False
    counted: bool = False
    value: float | None = None


class LiveExperiment:
    """Counts the results of one experiment and says what follows from them; thread-safe."""

    def __init__(self, plan: ExperimentPlan, traffic: Traffic, store: Store) -> None:
        from peira.stats.sequential.randomisation import ArmPredictions, RandomisedContrast

        self.plan, self.traffic, self._store = plan, traffic, store
        self.changing = threading.Lock()
        """Held while a change of the traffic is recorded: who has seen it draws by it."""
        self._lock = threading.Lock()
        self._order: deque[DrawnUnit] = deque()
        self._units: dict[str, tuple[DrawnUnit, ScoreProgress]] = {}
        self._complete = 0  # of those in the order
        self._predictions = ArmPredictions(plan.arms, plan.options.range)
        level = 1 - plan.options.alpha / max(1, plan.arms - 1)
        self.contrasts = {
            (one, two): RandomisedContrast(
                [float(arm == one) - float(arm == two) for arm in range(plan.arms)],
                plan.least_share,
                plan.options.range,
                level,
            )
            for one, two in combinations(range(plan.arms), 2)
        }
        """The confidence sequence of every two arms, first minus second."""
        self._left = list(range(plan.arms))  # of successive rejects
        self._look_at, self._looks = 1, 0
        self._next = plan.options.least
        self._problem = self._said = ""
        self.n = 0

    # Evidence

    def expect(self, task: str, job: Job) -> None:
        """A job is offered; called in the order of drawing."""
        if job.experiment != self.plan.id or self.plan.late or not self.plan.follows:
            return
        with self._lock:
            unit = DrawnUnit(job.arm, job.shares[job.arm])
            self._order.append(unit)
            self._units[task] = unit, ScoreProgress()

    def count(self, job: Job, value: object, lost: bool) -> None:
        """Count a job of an earlier opening that has ended, or whose outcome is reported."""
        if job.experiment != self.plan.id or not self.plan.follows:
            return
        with self._lock:
            unit = DrawnUnit(job.arm, job.shares[job.arm])
            self._order.append(unit)
            self._settle(unit, value, lost)

    def follow(self, offer: Offer, ended: Ended, offers: Sequence[Offer]) -> None:
        """A task of a job has ended, and these follow from it."""
        task = trial_of(offer)
        with self._lock:
            if task not in self._units:
                return
            unit, progress = self._units[task]
            progress.tasks += len(offers) - 1
            read_score(progress, offer, ended, self.plan.score, JOB, self._store)
            if progress.tasks:
                return
            del self._units[task]
            if unit.counted:
                return
            if ended.state is State.cancelled:
                unit.known = unit.void = True
                self._complete += 1
            else:
                self._settle(unit, progress.value, progress.failed)

    def _settle(self, unit: DrawnUnit, value: object, lost: bool) -> None:
        """Note the value of a job; one that cannot be used ends the following of the evidence."""
        least, most = self.plan.options.range
        unit.known = True
        self._complete += 1
        if type(value) in NUMBERS and least <= value <= most:  # type: ignore[operator]
            unit.value = float(value)  # type: ignore[arg-type]
        elif type(value) in NUMBERS and math.isfinite(value):  # type: ignore[arg-type]
            self._problem = f"{value:g} does not lie within [{least:g}, {most:g}] (experiment.range)"
        elif value is not None and type(value) not in NUMBERS:
            self._problem = f"{value!r} is not a number"
        else:
            unit.void = not lost and value is None

    def _take(self) -> None:
        """Add the complete jobs to the confidence sequences, in the order in which they were drawn."""
        while self._order and not self._problem:
            unit = self._order[0]
            if not unit.known and self._complete < PATIENCE:
                return
            self._order.popleft()
            self._complete -= unit.known
            unit.counted = True
            if unit.void:
                continue
            self.n += 1
            for contrast in self.contrasts.values():
                contrast.draw(self._predictions, unit.arm, unit.share, unit.value)
            if unit.value is not None:
                self._predictions.add(unit.arm, unit.value)

    # What follows

    def news(self) -> list[AnyEvent]:
        """The events that follow from the evidence so far; call `accept` once they are durable."""
        with self._lock:
            if self.traffic.winner >= 0:
                self._order.clear()
                self._complete = 0
                return []
            self._take()
            if self._problem != self._said:
                self._said = self._problem
                return [RunNoted(f"the experiment is not followed any more: {self._problem}")]
            if self._problem or self.n < self._look_at:
                return []
            # Later on, one more job says little: fewer looks only cost delay.
            self._look_at = max(self.n + 1, math.ceil(1.01 * self.n))
            if self.plan.stops and self.n >= self.plan.options.least and (found := self._decision()):
                return found
            return self._split()

    def accept(self, events: Sequence[AnyEvent]) -> None:
        """These events are durable: jobs are drawn accordingly from now on."""
        for event in events:
            if isinstance(event, TrafficSplit):
                self.traffic = event.traffic

    def _ahead(self, one: int, two: int) -> tuple[float, float]:
        """The lower end of one arm's advantage over another, and the p-value of there being none."""
        first = (one, two) in self.contrasts
        contrast = self.contrasts[(one, two) if first else (two, one)]
        if first == self.plan.maximize:
            return contrast.low.low(), contrast.low.above(0.0)
        return -contrast.high.high(), contrast.high.below(0.0)

    def _decision(self) -> list[AnyEvent]:
        """The events of a decision; none if it is open."""
        options, arms = self.plan.options, range(self.plan.arms)
        error = options.alpha / (2 * max(1, self.plan.arms - 1))
        for arm in arms:
            others = [other for other in arms if other != arm]
            if all(self._ahead(arm, other)[1] <= error for other in others):
                return self._decided(arm, f"{self.plan.labels[arm]} is best")
        if options.margin is not None:
            means = [self._predictions.of(arm) for arm in arms]
            leader = max(arms, key=lambda arm: means[arm] if self.plan.maximize else -means[arm])
            if all(self._ahead(leader, other)[0] > -options.margin for other in arms if other != leader):
                label = self.plan.labels[leader]
                return self._decided(leader, f"{label} leads, and no other is better by {options.margin:g}")
        return []

    def _decided(self, winner: int, answer: str) -> list[AnyEvent]:
        look = Look(self._looks + 1, self.n, self.standings(winner), answer=answer, unit="job")
        shares = tuple(float(arm == winner) for arm in range(self.plan.arms))
        traffic = Traffic(self.plan.id, shares, self.n, winner, str(look))
        return [RunDecided(WHEN_DECIDED, look), TrafficSplit(traffic, WHEN_DECIDED)]

    def standings(self, arm: int) -> tuple[Standing, ...]:
        """The differences of an arm from each other, with their confidence sequences."""
        labels, found = self.plan.labels, []
        for (one, two), contrast in self.contrasts.items():
            if arm in (one, two):
                now, sign = contrast.now(), 1 if arm == one else -1
                mean = None if now.mean is None else sign * now.mean
                low, high = (now.low, now.high) if sign > 0 else (-now.high, -now.low)
                other = two if arm == one else one
                found.append(Standing(self.plan.by, labels[arm], labels[other], mean, low, high))
        return tuple(found)

    def _split(self) -> list[AnyEvent]:
        """The event of a change of the traffic, if one is due."""
        if self.plan.assign == "random" or self.n < self._next:
            return []
        self._next = max(self.n + STEP, math.ceil(GROWTH * self.n))
        thompson = self.plan.assign == "thompson"
        shares = tuple(self._thompson() if thompson else self._rejects())
        if max(abs(a - b) for a, b in zip(shares, self.traffic.shares, strict=True)) < CHANGE:
            return []
        why = f"{self.plan.assign} after {counted(self.n, 'job')}"
        return [TrafficSplit(Traffic(self.plan.id, shares, self.n, why=why), self.plan.assign)]

    def _thompson(self) -> list[float]:
        """Each arm's probability of being the best, above the floor."""
        from peira.stats.sequential.randomisation import best_arm_chances, floored

        seen = self._predictions
        chances = best_arm_chances(seen.counts, seen.sums, self.plan.options.range, self.plan.maximize)
        return floored(chances, self.plan.least_share)

    def _rejects(self) -> list[float]:
        """Equal shares of the arms that are left, the floor for the others."""
        from peira.stats.sequential.group_sequential import successive_rejects
        from peira.stats.sequential.randomisation import floored

        arms, seen = self.plan.arms, self._predictions
        drops = successive_rejects(arms, self.plan.options.jobs or JOBS_PER_ARM * arms)
        while len(self._left) > 1:
            if min(seen.counts[arm] for arm in self._left) < drops[arms - len(self._left)]:
                break
            sign = 1 if self.plan.maximize else -1
            self._left.remove(min(reversed(self._left), key=lambda arm: sign * seen.of(arm)))
        share = 1 / len(self._left)
        return floored([share if arm in self._left else 0.0 for arm in range(arms)], self.plan.least_share)
