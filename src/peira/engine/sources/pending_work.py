"""The work of a stored plan that is not done yet: its items and their documents."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import msgspec

import peira.engine as engine
from peira.core.codec import decode
from peira.core.contracts import Store
from peira.core.ids import Json, canonical, normalise, seed_of
from peira.core.log.events import Result, State
from peira.core.log.state import Task
from peira.engine.stages import EVALUATE, GENERATE
from peira.errors import Invalid
from peira.plan.diff.changes import PlanVersion
from peira.plan.manifest import Manifest
from peira.plan.score_ids import ScoreIds
from peira.plan.trials import Baselines, Layout, Place

CHUNK = 500
"""The number of places looked up in the store at once."""


class PendingItem(NamedTuple):
    """Work on one trial: generate its output, or score its answer with an evaluator."""

    id: str
    place: Place
    trial: str
    evaluator: str = ""
    output: Result = Result()
    answer: Result = Result()


class Pending:
    """The items of one stage of a stored plan.

    `stage` is `generate` (trials without an output) or `evaluate` (outputs without a score). The study's code
    is not needed: everything comes from the manifest and the store.
    """

    def __init__(self, manifest: Manifest, store: Store, stage: str) -> None:
        self._manifest, self._store, self._stage = manifest, store, stage
        takes = {part.digest: part.takes for part in manifest.evaluators}
        transform = manifest.transform.digest if manifest.transform else ""
        self._judging = ScoreIds(manifest.common, takes, transform)
        self._parts = {part.digest: part for part in manifest.evaluators}

    @cached_property
    def layout(self) -> Layout:
        """The layout of the plan's trials."""
        return PlanVersion(self._manifest, self._store.get).layout

    @cached_property
    def _baselines(self) -> Baselines:
        return Baselines(PlanVersion(self._manifest, self._store.get).factors, self.layout)

    def items(self) -> Iterator[PendingItem]:
        """The items to be done, in the study's order, each once."""
        places = self.layout.places()
        seen: set[bytes] = set()  # equal outputs of equal cases share one score
        while chunk := list(islice(places, CHUNK)):
            items = self._of(chunk)
            done = self._done(items)
            for item in items:
                if item.id not in done and (key := bytes.fromhex(item.id)) not in seen:
                    if self._stage == EVALUATE:
                        seen.add(key)
                    yield item

    def _done(self, items: Sequence[PendingItem]) -> set[str]:
        """The ids of items that have succeeded already."""
        rows = self._store.find("task", [item.id for item in items])
        done = {id for id, row in rows.items() if row.state is State.succeeded}
        if self._stage == GENERATE:
            done |= self._lent([item for item in items if item.id not in rows])
        return done

    def _lent(self, items: Sequence[PendingItem]) -> set[str]:
        """The ids of trials that a run would take over from a time before a factor was added."""
        former = {item.id: self._baselines.former(item.place) for item in items}
        wanted = [id for formers in former.values() for id, _ in formers]
        rows = self._store.find("task", wanted) if wanted else {}
        return {
            id for id, formers in former.items() if any(_lends(rows.get(f), added) for f, added in formers)
        }

    def known(self, wanted: Sequence[tuple[int, str]]) -> dict[tuple[int, str], PendingItem]:
        """The items at these places with these ids, done or not; those that do not exist are left out."""
        numbers = sorted({n for n, _ in wanted if 0 <= n < self.layout.size})
        found = self._of([self.layout.place(n) for n in numbers])
        by_key = {(item.place.number, item.id): item for item in found}
        return {key: by_key[key] for key in wanted if key in by_key}

    def _of(self, places: Sequence[Place]) -> list[PendingItem]:
        """The items at these places."""
        trials = [self.layout.trial_id(place) for place in places]
        if self._stage == GENERATE:
            return [PendingItem(trial, place, trial) for place, trial in zip(places, trials, strict=True)]
        rows = _succeeded(self._store, trials)
        answers = answers_in(self._judging, rows, self._store)
        return [
            PendingItem(score, place, trial, judge, rows[trial].result, answer)
            for place, trial in zip(places, trials, strict=True)
            if (answer := answers.get(trial)) is not None
            for judge, score in self._judging.scores(place, trial, rows[trial].result, answer)
        ]

    def document(self, item: PendingItem) -> bytes:
        """The content of an item as canonical JSON."""
        content = self._generate(item) if self._stage == GENERATE else self._evaluate(item)
        return canonical({"n": item.place.number, "id": item.id, **content})

    def _generate(self, item: PendingItem) -> dict[str, Json]:
        """The document of a trial to generate."""
        return {**_trial(item), "seed": seed_of(item.trial)}

    def _evaluate(self, item: PendingItem) -> dict[str, Json]:
        """The document of an output to score, with the facts that the evaluator takes."""
        part = self._parts[item.evaluator]
        facts = {name: self._fact(name, item) for name in part.takes}
        return {"evaluator": item.evaluator, "name": part.name, "facts": facts}

    def _fact(self, name: str, item: PendingItem) -> Json:
        """A fact about the item, by the name of the evaluator's parameter."""
        if name == "output":
            return self._value(item.answer)
        if name == "expected":
            return item.place.case.expected
        if name == "transcript":
            found = engine.transcripts.read_transcript(self._store, item.trial, item.output)
            return normalise(msgspec.to_builtins(found))
        return _case(item) if name == "case" else self._judged(item)

    def _judged(self, item: PendingItem) -> Json:
        """The finished trial, as the evaluator will see it."""
        content = {"took": item.output.took, "metrics": dict(item.output.metrics)}
        return normalise({"id": item.trial, **_trial(item), "output": self._value(item.output), **content})

    def _value(self, result: Result) -> Json:
        """The value of a result, from its event or its blob."""
        return decode(self._store.get(result.blob) if result.blob else bytes(result.output))


def answers_in(judging: ScoreIds, rows: Mapping[str, Task], store: Store) -> dict[str, Result]:
    """What evaluators score of each trial: the answer extracted from its output, or the output itself."""
    if not judging.transform:
        return {trial: row.result for trial, row in rows.items()}
    ids = {trial: judging.answer(row.result) for trial, row in rows.items()}
    found = _succeeded(store, list(dict.fromkeys(ids.values())))
    return {trial: found[id].result for trial, id in ids.items() if id in found}


def _succeeded(store: Store, ids: Sequence[str]) -> dict[str, Task]:
    """The tasks with these ids that have succeeded."""
    return {id: row for id, row in store.find("task", ids).items() if row.state is State.succeeded}


def unanswered(layout: Layout, transform: str, store: Store) -> bool:
    """Whether there are outputs to which the transform has not been applied."""
    judging, places = ScoreIds((), {}, transform), layout.places()
    while chunk := list(islice(places, CHUNK)):
        rows = _succeeded(store, list(map(layout.trial_id, chunk)))
        if answers_in(judging, rows, store).keys() != rows.keys():
            return True
    return False


def _trial(item: PendingItem) -> dict[str, Json]:
    """The parts of a document that describe the trial."""
    condition = item.place.condition
    return {
        "agent": condition.agent,
        "condition": condition.factors,
        "case": _case(item),
        "repeat": item.place.repeat,
    }


def _case(item: PendingItem) -> Json:
    """The case as agents see it, without `expected`."""
    return msgspec.to_builtins(item.place.case.as_seen())


def _lends(row: Task | None, added: str) -> bool:
    """Whether a former trial can lend its result under the addition `added`."""
    return row is not None and row.state is State.succeeded and row.lent in ("", added)


def check_stage(stage: str) -> None:
    """Raise Invalid if there is no such stage."""
    if stage not in (GENERATE, EVALUATE):
        raise Invalid(f"stage: {stage!r} is not known; use {GENERATE} or {EVALUATE}")
