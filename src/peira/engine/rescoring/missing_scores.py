"""Which scores of stored outputs are missing: trials are looked up together, and held in columns."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence, Set
from typing import NamedTuple, TypeGuard

from peira.core.contracts import TaskFinder, TaskOutcome
from peira.core.log.events import Result, State
from peira.plan.expansion import Plan, transform_digest
from peira.plan.score_ids import ScoreIds
from peira.plan.trials import Place

DONE = State.succeeded
USUAL = frozenset({None, DONE})
NO_TASK = "0" * 64
"""An id that no task has."""


class MissingScore(NamedTuple):
    """A score that is to be made: the row of its trial, the digest of its evaluator, and its id."""

    row: int
    evaluator: str
    id: str


class TrialBatch(NamedTuple):
    """Trials with outputs, in columns: where each is, its id, its result, and the answer that is scored."""

    places: list[Place]
    trials: list[str]
    results: list[Result]
    answers: list[Result]
    scores: Mapping[str, Sequence[str]] = {}
    """The ids of their scores, by the digest of the evaluator."""
    missing: Sequence[MissingScore] = ()
    sharing: Set[int] = frozenset()
    """The rows of trials that lack a score which is made for another trial."""

    def without(self, rows: Collection[int]) -> TrialBatch:
        """The trials in all other rows, as if they lacked nothing."""
        if not rows:
            return self._replace(missing=(), sharing=frozenset())
        kept = [row for row in range(len(self.places)) if row not in rows]
        return TrialBatch(
            [self.places[row] for row in kept],
            [self.trials[row] for row in kept],
            [self.results[row] for row in kept],
            [self.answers[row] for row in kept],
            {evaluator: [ids[row] for row in kept] for evaluator, ids in self.scores.items()},
        )


class MissingScores:
    """Finds what is recorded of the trials of a plan, and which of their scores are not."""

    def __init__(self, plan: Plan, tasks: TaskFinder) -> None:
        self._layout, self._tasks = plan.layout, tasks
        takes = {digest: evaluator.takes for digest, evaluator in plan.evaluators.items()}
        self._ids = ScoreIds(plan.common, takes, transform_digest(plan.transform))
        self._made: set[bytes] = set()
        """The scores that were missing and are being made: equal outputs of equal cases share one."""

    def of(self, places: Sequence[Place]) -> tuple[TrialBatch, list[int], list[int]]:
        """The trials at these places that lack nothing but scores; the indices of those without an output,
        and of those with one that are unusual."""
        batch, without_output, unusual = self._with_answers(places)
        states = {evaluator: self._tasks.states(ids) for evaluator, ids in batch.scores.items()}
        if rows := {row for column in states.values() for row in _unusual(column)}:
            unusual += [batch.places[row].number for row in rows]
            batch = batch.without(rows)
            states = {evaluator: self._tasks.states(ids) for evaluator, ids in batch.scores.items()}
        made, missing, sharing = self._made, list[MissingScore](), set[int]()
        for evaluator, column in states.items():
            if column.count(DONE) == len(column):
                continue
            for row, (id, state) in enumerate(zip(batch.scores[evaluator], column, strict=True)):
                if state is DONE:
                    continue
                if (key := bytes.fromhex(id[:32])) in made:
                    sharing.add(row)
                else:
                    made.add(key)
                    missing.append(MissingScore(row, evaluator, id))
        return batch._replace(missing=missing, sharing=sharing), without_output, unusual

    def _with_answers(self, places: Sequence[Place]) -> tuple[TrialBatch, list[int], list[int]]:
        """As `of`, without what is missing; cases with evaluators of their own are unusual, too."""
        trials = list(map(self._layout.trial_id, places))
        tasks = self._tasks.outcomes(trials)
        answers = self._answers(tasks) if self._ids.transform else tasks
        batch, without_output, unusual = TrialBatch([], [], [], []), list[int](), list[int]()
        for place, trial, task, answer in zip(places, trials, tasks, answers, strict=True):
            if not _done(task):
                without_output.append(place.number)
            elif not _done(answer) or place.case.judged_by:
                unusual.append(place.number)
            else:
                batch.places.append(place)
                batch.trials.append(trial)
                batch.results.append(task.result)
                batch.answers.append(answer.result)
        scores = self._ids.columns([place.case for place in batch.places], batch.answers)
        return batch._replace(scores=scores), without_output, unusual

    def _answers(self, tasks: Sequence[TaskOutcome | None]) -> list[TaskOutcome | None]:
        """What the transform made of the outputs of these trials."""
        ids = [self._ids.answer(task.result) if _done(task) else NO_TASK for task in tasks]
        return self._tasks.outcomes(ids)


def _unusual(states: Sequence[State | None]) -> list[int]:
    """The rows of scores that have failed, or for another reason are neither recorded nor missing."""
    return [] if USUAL.issuperset(states) else [row for row, one in enumerate(states) if one not in USUAL]


def _done(task: TaskOutcome | None) -> TypeGuard[TaskOutcome]:
    return task is not None and task.state is DONE
