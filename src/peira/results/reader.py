"""Reads the trials of a run from the store: the manifest lists them, the store has their results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Literal, NamedTuple, Protocol

from peira.core.codec import decode
from peira.core.contracts import FindsOutcomes, TaskOutcome
from peira.core.ids import Json
from peira.core.log.events import IMPORTED, Result, State
from peira.core.log.state import Task
from peira.core.text.secrets import remember_exposed
from peira.core.transforms import from_json
from peira.errors import NotKept
from peira.plan.conditions import Condition, LevelLabels
from peira.plan.manifest import Manifest, layout_of
from peira.plan.score_ids import ScoreIds
from peira.plan.trials import Layout, Place
from peira.results.snapshot import outcome_of
from peira.results.trials import FAILED, NOTHING, FoundAnswer, Score, TrialHistories, TrialResult

CHUNK = 500
"""The number of trials per read; `MANY` of them where tasks were read in one pass before."""
MANY = 4000
MOST_ALIKE = 10_000
"""Scores that are kept for others that are equal."""


class ResultStore(Protocol):
    """What is read of a store to show results."""

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        """As `Store.find`."""
        ...

    def get(self, digest: str) -> bytes:
        """As `Store.get`."""
        ...


class FoundTrial(NamedTuple):
    """A planned trial: its place and id, its task if it has begun, and the ids of what follows from it.

    `answer` is the task whose result is scored, "" if there is none; `scores` are names and ids of tasks.
    """

    place: Place
    trial: str
    task: Task | None
    answer: str
    scores: Sequence[tuple[str, str]]


class ResultReader:
    """Reads the trials of one manifest in the study's order, in chunks."""

    def __init__(
        self,
        manifest: Manifest,
        store: ResultStore,
        run: str,
        scored_by: Sequence[str] | None = None,
        layout: Layout | None = None,
        histories: TrialHistories | None = None,
        brief: bool = False,
    ) -> None:
        """Prepare to read; `scored_by` names evaluators by digest, by default the manifest's own.

        `layout` is read from the manifest if it is not given. Without `histories`, the times and observations
        of trials are not known. `brief` leaves out what no table needs: outputs, expected values, files.
        """
        self._brief = brief
        self._layout: Layout = layout or layout_of(manifest, store.get)
        self._store, self._run, self._histories = store, run, histories
        self.labels = LevelLabels.kept(manifest.snapshot)
        self._condition: Condition | None = None
        self._alike: dict[tuple[str, State, bytes], Score] = {}
        self._shown: Mapping[str, Json] = {}
        self._names = {part.digest: part.name for part in manifest.evaluators}
        common = manifest.common if scored_by is None else scored_by
        transform = manifest.transform.digest if manifest.transform else ""
        self._judging = ScoreIds(common, {part.digest: part.takes for part in manifest.evaluators}, transform)

    def __iter__(self) -> Iterator[TrialResult]:
        places = self._layout.places()
        many = MANY if isinstance(self._store, FindsOutcomes) else CHUNK
        while chunk := list(islice(places, many)):
            yield from self.of(chunk)

    def of(self, places: Sequence[Place]) -> Iterator[TrialResult]:
        """The trials at these places, in this order."""
        ids = [self._layout.trial_id(place) for place in places]
        tasks = self._outcomes(ids)
        answers = self._answers_of(tasks) if self._judging.transform else tasks
        wanted = list(map(self._scores, places, ids, tasks, answers))
        scored = iter(self._outcomes([score for scores in wanted for _, score in scores if score]))
        transforms = bool(self._judging.transform)
        for place, id, task, answer, scores in zip(places, ids, tasks, answers, wanted, strict=True):
            done = transforms and task is not None and task.state is State.succeeded
            found = self._found(answer) if done else None
            given = {
                name: self._score(name, next(scored) if score else None, found) for name, score in scores
            }
            yield self._trial(place, id, task, found, given)

    def _outcomes(self, ids: Sequence[str]) -> list[TaskOutcome | None]:
        """The outcomes of these tasks; None for those that have no row."""
        if isinstance(self._store, FindsOutcomes):
            return self._store.outcomes(ids)
        rows = self._store.find("task", list(dict.fromkeys(ids)))
        return [outcome_of(rows.get(id)) for id in ids]

    def _answers_of(self, tasks: Sequence[TaskOutcome | None]) -> list[TaskOutcome | None]:
        """The outcomes of the transform of these trials; None if there is none."""
        done = [at for at, task in enumerate(tasks) if task is not None and task.state is State.succeeded]
        found: list[TaskOutcome | None] = [None] * len(tasks)
        answers = self._outcomes([self._judging.answer(tasks[at].result) for at in done])  # type: ignore[union-attr]
        for at, answer in zip(done, answers, strict=True):
            found[at] = answer
        return found

    def task_ids(self) -> Iterator[str]:
        """The ids of all tasks that the results rest on: trials, answers and scores."""
        for found in self.found():
            yield found.trial
            if found.answer:
                yield found.answer
            yield from (score for _, score in found.scores if score)

    def found(self) -> Iterator[FoundTrial]:
        """Every trial with the ids of its tasks, without what they hold."""
        places = self._layout.places()
        while chunk := list(islice(places, CHUNK)):
            ids = [self._layout.trial_id(place) for place in chunk]
            tasks = self._store.find("task", ids)
            done = {id: task for id, task in tasks.items() if task.state is State.succeeded}
            answers = self._answers(done) if self._judging.transform else done
            for place, id in zip(chunk, ids, strict=True):
                task, answer = tasks.get(id), answers.get(id)
                scores = self._scores(place, id, task, answer)
                yield FoundTrial(place, id, task, answer.id if answer else "", scores)

    def _answers(self, done: Mapping[str, Task]) -> dict[str, Task]:
        """The transform tasks of these trials, by trial id."""
        ids = {trial: self._judging.answer(task.result) for trial, task in done.items()}
        rows = self._store.find("task", list(dict.fromkeys(ids.values())))
        return {trial: rows[id] for trial, id in ids.items() if id in rows}

    def _scores(
        self, place: Place, id: str, task: Task | TaskOutcome | None, answer: Task | TaskOutcome | None
    ) -> list[tuple[str, str]]:
        """The name and task id of each score; the id is "" if there is no answer to score."""
        if task is None or task.state is not State.succeeded:
            return []
        if answer is None or answer.state is not State.succeeded:
            return [(self._names[judge], "") for judge in self._judging.judges(place.case)]
        scores = self._judging.scores(place, id, task.result, answer.result)
        return [(self._names[judge], score) for judge, score in scores]

    def _found(self, task: TaskOutcome | None) -> FoundAnswer:
        """The result of the transform."""
        if task is None:
            return FoundAnswer(State.queued)
        value = from_json(self._value(task.result)) if task.state is State.succeeded else None
        return FoundAnswer(task.state, value, task.result.failure)

    def _trial(
        self,
        place: Place,
        id: str,
        task: TaskOutcome | None,
        found: FoundAnswer | None,
        scores: Mapping[str, Score],
    ) -> TrialResult:
        """The trial at a place with its result and scores; queued if it has no task."""
        case, result = place.case, task.result if task else Result()
        took = None if result.about and IMPORTED in result.about and not result.took else result.took
        if place.condition is not self._condition:  # trials of one condition follow one another
            self._condition, self._shown = place.condition, self.labels.shown(place.condition.shown)
        make: Callable[..., TrialResult] = TrialResult
        if not self._brief:
            make = partial(TrialResult, **self._details(place, task, result))
        return make(
            id=id,
            agent=place.condition.agent,
            condition=self._shown,
            case_id=case.id,
            cluster=case.cluster,
            slice=case.slice,
            repeat=place.repeat,
            state=task.state if task else State.queued,
            about=result.about or NOTHING,
            found=found,
            scores=scores,
            metrics=result.metrics or NOTHING,
            took=took,
            input=case.input,
            metadata=case.metadata,
        )

    def _details(self, place: Place, task: TaskOutcome | None, result: Result) -> dict[str, Any]:
        """The fields of a trial that no table needs."""
        output, expected = self._value(result), place.case.expected
        return {
            "output": expected if type(output) is str and output == expected else output,  # held once
            "failure": result.failure,
            "artifacts": result.artifacts,
            "queued": result.queued,
            "attempts": task.attempts if task else 0,
            "reused": task is not None and task.run != self._run,
            "reused_from": task.reused_from if task else "",
            "expected": expected,
            "calls": result.calls,
            "exposed": bool(result.exposed),
            "anchor": place.number >= self._layout.anchored,
            "block": place.condition.block,
            "plot": place.condition.plot,
            "executed_by": task.run if task else "",
            "histories": self._histories,
        }

    def _score(self, name: str, task: TaskOutcome | None, found: FoundAnswer | None) -> Score:
        """The score of a task; without a task it is blocked if the answer was lost, else queued."""
        if task is None:  # without an answer there is nothing to score
            lost = found is not None and found.state in FAILED
            return Score(name, State.blocked if lost else State.queued)
        result = task.result
        if not self._brief:
            metrics = result.metrics or NOTHING
            return Score(name, task.state, self._value(result), result.failure, result.took, metrics)
        key = name, task.state, bytes(result.output)  # one value for all that are equal, as most are
        score = self._alike.get(key)
        if score is None or result.blob or result.exposed:
            score = Score(name, task.state, self._value(result))
            if not (result.blob or result.exposed) and len(self._alike) < MOST_ALIKE:
                self._alike[key] = score
        return score

    def _value(self, result: Result) -> Json:
        """The decoded output of a task, inline or from its blob."""
        try:
            body = self._store.get(result.blob) if result.blob else bytes(result.output)
        except NotKept as problem:
            return f"({problem})"
        if result.exposed:
            remember_exposed(body, result.exposed)
        return decode(body) if body else None
