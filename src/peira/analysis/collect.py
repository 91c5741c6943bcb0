"""From a store to trial results: the manifest says which trials there are, the store what came of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import islice

from peira.analysis.trials import Score, TrialResult
from peira.core.codec import decode
from peira.core.contracts import Store
from peira.core.events import Result, State
from peira.core.ids import Json
from peira.core.state import Task
from peira.plan.judging import Judging, output_digest
from peira.plan.layout import Layout, Place
from peira.plan.manifest import Manifest, layout_of

CHUNK = 500


class Collector:
    """Reads the trials of one manifest, in the study's order, a chunk at a time."""

    def __init__(
        self,
        manifest: Manifest,
        store: Store,
        run: str,
        scored_by: Sequence[str] | None = None,
        layout: Layout | None = None,
    ) -> None:
        """`scored_by` names evaluators by digest; without it they are the manifest's own. The layout is the
        manifest's, if it is not at hand."""
        self._layout: Layout = layout or layout_of(manifest, store.get)
        self._store, self._run = store, run
        self._names = {part.digest: part.name for part in manifest.evaluators}
        common = manifest.common if scored_by is None else scored_by
        self._judging = Judging(common, {part.digest: part.takes for part in manifest.evaluators})

    def __iter__(self) -> Iterator[TrialResult]:
        places = self._layout.places()
        while chunk := list(islice(places, CHUNK)):
            yield from self.of(chunk)

    def of(self, places: Sequence[Place]) -> Iterator[TrialResult]:
        """The trials at these places, in their order."""
        ids = [self._layout.trial_id(place) for place in places]
        tasks = self._store.find("task", ids)
        wanted = [self._scores(place, id, tasks.get(id)) for place, id in zip(places, ids, strict=True)]
        found = self._store.find("task", [score for scores in wanted for _, score in scores])
        for place, id, scores in zip(places, ids, wanted, strict=True):
            yield self._trial(place, id, tasks.get(id), [(name, found.get(score)) for name, score in scores])

    def _scores(self, place: Place, id: str, task: Task | None) -> list[tuple[str, str]]:
        if task is None or task.state is not State.succeeded:
            return []
        scores = self._judging.scores(place, id, output_digest(task.result))
        return [(self._names[evaluator], score) for evaluator, score in scores]

    def _trial(
        self, place: Place, id: str, task: Task | None, scores: list[tuple[str, Task | None]]
    ) -> TrialResult:
        case, result = place.case, task.result if task else Result()
        return TrialResult(
            id=id,
            agent=place.condition.agent,
            condition=place.condition.shown,
            case_id=case.id,
            cluster=case.cluster,
            slice=case.slice,
            repeat=place.repeat,
            state=task.state if task else State.queued,
            output=self._value(result),
            failure=result.failure,
            scores={name: self._score(name, score) for name, score in scores},
            metrics=result.metrics,
            artifacts=result.artifacts,
            about=result.about,
            took=result.took,
            attempts=task.attempts if task else 0,
            reused=task is not None and task.run != self._run,
            reused_from=task.reused_from if task else "",
            metadata=case.metadata,
            input=case.input,
            expected=case.expected,
            calls=result.calls,
            anchor=place.number >= self._layout.anchored,
        )

    def _score(self, name: str, task: Task | None) -> Score:
        if task is None:
            return Score(name, State.queued)
        result = task.result
        return Score(name, task.state, self._value(result), result.failure, result.took, result.metrics)

    def _value(self, result: Result) -> Json:
        if result.blob:
            return decode(self._store.get(result.blob))
        return decode(bytes(result.output)) if bytes(result.output) else None
