"""The work of a stored plan that is not done: which items there are, and what each of them says.

An item is made of the plan and the store alone, the same one whenever it is asked for: that is how it is
known again when an answer to it comes back. It holds what whoever works it off may see, and nothing else: no
`expected` for an agent, and for an evaluator only what it takes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice
from typing import NamedTuple

import msgspec

from peira.core.codec import decode
from peira.core.contracts import Store
from peira.core.events import Result, State
from peira.core.ids import Json, canonical, normalise, seed_of
from peira.core.state import Task
from peira.engine.work import EVALUATE, GENERATE
from peira.errors import Invalid
from peira.plan.baseline import Baselines
from peira.plan.judging import Judging
from peira.plan.layout import Layout, Place
from peira.plan.manifest import Manifest
from peira.plan.version import Version

CHUNK = 500


class Item(NamedTuple):
    """Work on the trial at a place: to generate its output, or to let an evaluator judge that."""

    id: str
    place: Place
    trial: str
    evaluator: str = ""
    output: Result = Result()
    answer: Result = Result()


class Pending:
    def __init__(self, manifest: Manifest, store: Store, stage: str) -> None:
        self._manifest, self._store, self._stage = manifest, store, stage
        takes = {part.digest: part.takes for part in manifest.evaluators}
        transform = manifest.transform.digest if manifest.transform else ""
        self._judging = Judging(manifest.common, takes, transform)
        self._parts = {part.digest: part for part in manifest.evaluators}

    @cached_property
    def layout(self) -> Layout:
        return Version(self._manifest, self._store.get).layout

    @cached_property
    def _baselines(self) -> Baselines:
        return Baselines(Version(self._manifest, self._store.get).factors, self.layout)

    def items(self) -> Iterator[Item]:
        """What is to be done, in the study's order, each once."""
        places = self.layout.places()
        seen: set[bytes] = set()  # equal outputs of equal cases have one score between them
        while chunk := list(islice(places, CHUNK)):
            items = self._of(chunk)
            done = self._done(items)
            for item in items:
                if item.id not in done and (key := bytes.fromhex(item.id)) not in seen:
                    if self._stage == EVALUATE:
                        seen.add(key)
                    yield item

    def _done(self, items: Sequence[Item]) -> set[str]:
        rows = self._store.find("task", [item.id for item in items])
        done = {id for id, row in rows.items() if row.state is State.succeeded}
        if self._stage == GENERATE:
            done |= self._lent([item for item in items if item.id not in rows])
        return done

    def _lent(self, items: Sequence[Item]) -> set[str]:
        """Trials that a run would take over from those of before a factor was added."""
        former = {item.id: self._baselines.former(item.place) for item in items}
        wanted = [id for formers in former.values() for id, _ in formers]
        rows = self._store.find("task", wanted) if wanted else {}
        return {
            id for id, formers in former.items() if any(_lends(rows.get(f), added) for f, added in formers)
        }

    def known(self, asked: Sequence[tuple[int, str]]) -> dict[tuple[int, str], Item]:
        """The items, done or not, at these places and of these ids, as far as there are any."""
        numbers = sorted({n for n, _ in asked if 0 <= n < self.layout.size})
        found = self._of([self.layout.place(n) for n in numbers])
        there = {(item.place.number, item.id): item for item in found}
        return {key: there[key] for key in asked if key in there}

    def _of(self, places: Sequence[Place]) -> list[Item]:
        trials = [self.layout.trial_id(place) for place in places]
        if self._stage == GENERATE:
            return [Item(trial, place, trial) for place, trial in zip(places, trials, strict=True)]
        rows = _succeeded(self._store, trials)
        answers = answers_in(self._judging, rows, self._store)
        return [
            Item(score, place, trial, judge, rows[trial].result, answer)
            for place, trial in zip(places, trials, strict=True)
            if (answer := answers.get(trial)) is not None
            for judge, score in self._judging.scores(place, trial, rows[trial].result, answer)
        ]

    def document(self, item: Item) -> bytes:
        """What the item says, as canonical JSON."""
        said = self._generate(item) if self._stage == GENERATE else self._evaluate(item)
        return canonical({"n": item.place.number, "id": item.id, **said})

    def _generate(self, item: Item) -> dict[str, Json]:
        return {**_trial(item), "seed": seed_of(item.trial)}

    def _evaluate(self, item: Item) -> dict[str, Json]:
        part = self._parts[item.evaluator]
        facts = {name: self._fact(name, item) for name in part.takes}
        return {"evaluator": item.evaluator, "name": part.name, "facts": facts}

    def _fact(self, name: str, item: Item) -> Json:
        if name == "output":
            return self._value(item.answer)
        if name == "expected":
            return item.place.case.expected
        return _case(item) if name == "case" else self._judged(item)

    def _judged(self, item: Item) -> Json:
        said = {"took": item.output.took, "metrics": dict(item.output.metrics)}
        return normalise({"id": item.trial, **_trial(item), "output": self._value(item.output), **said})

    def _value(self, result: Result) -> Json:
        return decode(self._store.get(result.blob) if result.blob else bytes(result.output))


def answers_in(judging: Judging, rows: Mapping[str, Task], store: Store) -> dict[str, Result]:
    """What is judged of each trial that has it: the answer found in its output, or that output itself."""
    if not judging.transform:
        return {trial: row.result for trial, row in rows.items()}
    ids = {trial: judging.answer(row.result) for trial, row in rows.items()}
    found = _succeeded(store, list(dict.fromkeys(ids.values())))
    return {trial: found[id].result for trial, id in ids.items() if id in found}


def _succeeded(store: Store, ids: Sequence[str]) -> dict[str, Task]:
    return {id: row for id, row in store.find("task", ids).items() if row.state is State.succeeded}


def unanswered(layout: Layout, transform: str, store: Store) -> bool:
    """Whether there are outputs in which the transform has not looked for an answer."""
    judging, places = Judging((), {}, transform), layout.places()
    while chunk := list(islice(places, CHUNK)):
        rows = _succeeded(store, list(map(layout.trial_id, chunk)))
        if answers_in(judging, rows, store).keys() != rows.keys():
            return True
    return False


def _trial(item: Item) -> dict[str, Json]:
    condition = item.place.condition
    return {
        "agent": condition.agent,
        "condition": condition.factors,
        "case": _case(item),
        "repeat": item.place.repeat,
    }


def _case(item: Item) -> Json:
    return msgspec.to_builtins(item.place.case.as_seen())


def _lends(row: Task | None, added: str) -> bool:
    return row is not None and row.state is State.succeeded and row.lent in ("", added)


def check_stage(stage: str) -> None:
    if stage not in (GENERATE, EVALUATE):
        raise Invalid(f"stage: {stage!r} is not known; use {GENERATE} or {EVALUATE}")
