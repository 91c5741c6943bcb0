"""The tasks of a study: one *generate* per trial, *transform* per output, *evaluate* per score."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

from peira.core.contracts import Ended, Offer, Store
from peira.core.log.events import Result, State, TaskSpec, Unsuccessful
from peira.engine.stages import EVALUATE as EVALUATE
from peira.engine.stages import GENERATE as GENERATE
from peira.engine.stages import STAGES as STAGES
from peira.engine.stages import TRANSFORM as TRANSFORM
from peira.engine.stages import EvaluateWork, GenerateWork, StoredOutput, TransformWork
from peira.plan.expansion import Plan, transform_digest
from peira.plan.listing import PlanListing
from peira.plan.score_ids import ScoreIds
from peira.plan.trials import Baselines, Place

MOST_UNSUCCESSFUL = 1000
"""The number of unsuccessful trials above which they are not remembered one by one."""


def trial_of(offer: Offer) -> str:
    """The trial that a task of a study belongs to."""
    return offer.work.trial if isinstance(offer.work, (TransformWork, EvaluateWork)) else offer.spec.id


def class_of(kind: str, asynchronous: bool) -> str:
    """The class of a task: asynchronous and blocking work have separate queues and runners."""
    return f"{kind}.async" if asynchronous else kind


class StudySource:
    """The tasks of a plan: trials in run order, then their transforms and scores as outputs arrive."""

    unit = GENERATE

    def __init__(
        self,
        plan: Plan,
        store: Store,
        stages: Sequence[str] = STAGES,
        resources: Mapping[str, Any] = MappingProxyType({}),
        only: Sequence[int] | None = None,
        direct: bool = True,
        listing: PlanListing | None = None,
    ) -> None:
        """`only` are the indices of the trials that may be unfinished; all others are recorded. `direct` lets
        plain code that follows from an output be executed without a claim of its own. `listing` is called
        for each trial that ends."""
        self._listing = listing
        self._plan, self._store, self._stages, self._resources = plan, store, stages, resources
        self._order = iter(plan.layout.in_run_order() if only is None else only)
        self._unsuccessful: dict[int, dict[str, int]] | None = {}
        self._baselines = Baselines(plan.study.factors, plan.layout)
        self._at_hand: dict[str, Place] = {}
        takes = {digest: evaluator.takes for digest, evaluator in plan.evaluators.items()}
        self._judging = ScoreIds(plan.common, takes, transform_digest(plan.transform))
        # One class for all agents: a mixture runs where blocking is allowed.
        self._cls = class_of(GENERATE, all(agent.asynchronous for agent in plan.agents.values()))
        self._classes = {d: class_of(EVALUATE, e.asynchronous) for d, e in plan.evaluators.items()}
        # A transcript is read from the store, where a trial's end is once what follows from it is claimed.
        self._direct = {
            d: direct and not e.asynchronous and "transcript" not in e.takes
            for d, e in plan.evaluators.items()
        }
        self._direct_answers = direct and TRANSFORM in stages
        self.closed = only is not None and not only

    @property
    def size(self) -> int | None:
        """The number of trials."""
        return len(self._plan)

    def performs(self, kind: str) -> bool:
        """Whether tasks of this kind are done in this run."""
        return kind in self._stages

    def more(self, n: int) -> list[Offer]:
        """The next `n` trials as offers."""
        indexes = list(islice(self._order, n))
        self.closed = len(indexes) < n
        return [self.offer(index) for index in indexes]

    def offer(self, index: int) -> Offer:
        """The offer of the trial with this index in the plan."""
        return self._generate(self._plan.layout.place(index))

    def place(self, trial: str) -> Place:
        """The place of a trial that was offered and has not ended."""
        return self._at_hand[trial]

    def _generate(self, place: Place) -> Offer:
        """The offer of a trial, with its former identities."""
        trial = self._plan.layout.trial_id(place)
        self._at_hand[trial] = place
        condition = place.condition
        agent = self._plan.agents[condition.agent]
        scope = partial(self._plan.layout.scope, place)
        seen = place.case.as_seen()
        work = GenerateWork(agent, trial, seen, condition.factors, place.repeat, self._resources, scope)
        return Offer(TaskSpec(trial, GENERATE, self._cls), work, self._baselines.former(place))

    def follow(self, offer: Offer, ended: Ended) -> list[Offer]:
        """The follow-up tasks of an ended task: a transform, or the scores."""
        if ended.state is not State.succeeded:
            self._note_unsuccessful(offer)
        if isinstance(work := offer.work, TransformWork):
            if ended.state is not State.succeeded:
                return []
            scores = self._scores(work.place, work.trial, work.output, StoredOutput(ended, self._store))
            self._list(work.place, work.trial, work.output.result, scores)
            return scores
        place = self._at_hand.pop(offer.spec.id, None)
        if place is None:
            return []
        if ended.state is not State.succeeded:
            self._list(place, offer.spec.id, ended.result, ())
            return []
        output = StoredOutput(ended, self._store)
        if self._plan.transform is None:
            scores = self._scores(place, offer.spec.id, output, output)
            self._list(place, offer.spec.id, ended.result, scores)
            return scores
        self._list(place, offer.spec.id, ended.result, ())
        return self._answer(place, offer.spec.id, output)

    def _list(self, place: Place, trial: str, result: Result, scores: Sequence[Offer]) -> None:
        """Tell of a trial that has ended, and of the scores that follow from it."""
        if self._listing is not None:
            names = [(one.work.evaluator.name, one.spec.id) for one in scores]  # type: ignore[attr-defined]
            self._listing.note(place, trial, result, names)

    def _note_unsuccessful(self, offer: Offer) -> None:
        """Remember the trial of a task that did not succeed, and how many tasks the trial has."""
        if self._unsuccessful is None:
            return
        work, counts = offer.work, {GENERATE: 1}
        if isinstance(work, (TransformWork, EvaluateWork)):
            place: Place | None = work.place
            counts |= {TRANSFORM: 1} if self._plan.transform else {}
        else:
            place = self._at_hand.get(offer.spec.id)
        if place is None:
            return
        if isinstance(work, EvaluateWork):
            counts[EVALUATE] = len(self._judging.judges(place.case))
        self._unsuccessful[place.number] = counts
        if len(self._unsuccessful) > MOST_UNSUCCESSFUL:
            self._unsuccessful = None

    @property
    def unsuccessful(self) -> Unsuccessful | None:
        """The trials that did not succeed so far, or a task of which did not; None if they are many."""
        if self._unsuccessful is None:
            return None
        counts: Counter[str] = Counter()
        for one in self._unsuccessful.values():
            counts.update(one)
        return Unsuccessful(tuple(sorted(self._unsuccessful)), dict(counts))

    def _answer(self, place: Place, trial: str, output: StoredOutput) -> list[Offer]:
        """The offer of the transform of an output; none if it is not needed in this run."""
        transform = self._plan.transform
        if transform is None or not {TRANSFORM, EVALUATE}.intersection(self._stages):
            return []
        spec = TaskSpec(self._judging.answer(output.result), TRANSFORM, TRANSFORM)
        work = TransformWork(transform, place, trial, output)
        return [Offer(spec, work, direct=self._direct_answers)]

    def _scores(self, place: Place, trial: str, output: StoredOutput, answer: StoredOutput) -> list[Offer]:
        """The offers of all scores of an answer."""
        if EVALUATE not in self._stages:
            return []
        scope = partial(self._plan.layout.scope, place)
        return [
            Offer(
                TaskSpec(score, EVALUATE, self._classes[evaluator]),
                EvaluateWork(self._plan.evaluators[evaluator], place, trial, output, answer, scope),
                direct=self._direct[evaluator],
            )
            for evaluator, score in self._judging.scores(place, trial, output.result, answer.result)
        ]
