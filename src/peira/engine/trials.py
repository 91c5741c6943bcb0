"""A study's tasks: one *generate* a trial, one *transform* an output, then one *evaluate* for each score.

The source is the layout itself: trials stay implicit until they are due, in the seeded order. What follows
from a trial comes into being when its output is known, because that output is part of what it is.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import Any

from peira.core.contracts import Ended, Offer, Store
from peira.core.events import State, TaskSpec
from peira.engine.work import EVALUATE as EVALUATE
from peira.engine.work import GENERATE as GENERATE
from peira.engine.work import STAGES as STAGES
from peira.engine.work import TRANSFORM as TRANSFORM
from peira.engine.work import Evaluate, Find, Generate, Output
from peira.plan.baseline import Baselines
from peira.plan.expand import Plan, transform_digest
from peira.plan.judging import Judging
from peira.plan.layout import Place


def class_of(kind: str, asynchronous: bool) -> str:
    """Work that awaits and work that blocks are different queues: they run in different places."""
    return f"{kind}.async" if asynchronous else kind


class StudySource:
    unit = GENERATE

    def __init__(
        self,
        plan: Plan,
        store: Store,
        stages: Sequence[str] = STAGES,
        resources: Mapping[str, Any] = MappingProxyType({}),
        done: bool = False,
    ) -> None:
        """`done` says that all of it is recorded: there will be no tasks."""
        self._plan, self._store, self._stages, self._resources = plan, store, stages, resources
        self._order = iter(plan.layout.in_run_order())
        self._baselines = Baselines(plan.study.factors, plan.layout)
        self._at_hand: dict[str, Place] = {}
        takes = {digest: evaluator.takes for digest, evaluator in plan.evaluators.items()}
        self._judging = Judging(plan.common, takes, transform_digest(plan.transform))
        # One class for all agents: a mixture runs where blocking is allowed.
        self._cls = class_of(GENERATE, all(agent.asynchronous for agent in plan.agents.values()))
        self._classes = {d: class_of(EVALUATE, e.asynchronous) for d, e in plan.evaluators.items()}
        self.closed = done

    @property
    def size(self) -> int:
        return len(self._plan)

    def performs(self, kind: str) -> bool:
        return kind in self._stages

    def more(self, n: int) -> list[Offer]:
        indexes = list(islice(self._order, n))
        self.closed = len(indexes) < n
        return [self._generate(self._plan.layout.place(index)) for index in indexes]

    def place(self, trial: str) -> Place:
        """Where a trial stands that was offered, and has not ended."""
        return self._at_hand[trial]

    def _generate(self, place: Place) -> Offer:
        trial = self._plan.layout.trial_id(place)
        self._at_hand[trial] = place
        condition = place.condition
        agent = self._plan.agents[condition.agent]
        scope = partial(self._plan.layout.scope, place)
        seen = place.case.as_seen()
        work = Generate(agent, trial, seen, condition.factors, place.repeat, self._resources, scope)
        return Offer(TaskSpec(trial, GENERATE, self._cls), work, self._baselines.former(place))

    def follow(self, offer: Offer, ended: Ended) -> list[Offer]:
        if offer.spec.kind == TRANSFORM:
            found, work = ended.state is State.succeeded, offer.work
            return self._scores(work.place, work.trial, work.output, self._given(ended)) if found else []
        place = self._at_hand.pop(offer.spec.id, None)
        if place is None or ended.state is not State.succeeded:
            return []
        output = self._given(ended)
        if self._plan.transform is None:
            return self._scores(place, offer.spec.id, output, output)
        return self._answer(place, offer.spec.id, output)

    def _given(self, ended: Ended) -> Output:
        return Output(ended, self._store)

    def _answer(self, place: Place, trial: str, output: Output) -> list[Offer]:
        transform = self._plan.transform
        if transform is None or not {TRANSFORM, EVALUATE}.intersection(self._stages):
            return []
        spec = TaskSpec(self._judging.answer(output.result), TRANSFORM, TRANSFORM)
        return [Offer(spec, Find(transform, place, trial, output))]

    def _scores(self, place: Place, trial: str, output: Output, answer: Output) -> list[Offer]:
        if EVALUATE not in self._stages:
            return []
        scope = partial(self._plan.layout.scope, place)
        return [
            Offer(
                TaskSpec(score, EVALUATE, self._classes[evaluator]),
                Evaluate(self._plan.evaluators[evaluator], place, trial, output, answer, scope),
            )
            for evaluator, score in self._judging.scores(place, trial, output.result, answer.result)
        ]
