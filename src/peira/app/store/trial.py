"""Everything recorded about one trial: result, attempts, and what its agent logged."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from peira.app.session import Session, SessionLike
from peira.app.store.access import AnyStore, store_folder
from peira.app.store.results import manifest_of
from peira.app.store.runs import find_run
from peira.core.chat.transcript import Transcript, TranscriptAttempt
from peira.core.contracts import ListsPlans, RunQuery
from peira.core.ids import resolve, seed_of, short
from peira.core.log.events import (
    CallIntended,
    Observed,
    Record,
    Result,
    State,
    StepRecorded,
    TaskFinished,
    TaskRetried,
)
from peira.core.log.state import Run
from peira.core.text.secrets import without_keys
from peira.engine.transcripts import shown_transcripts
from peira.errors import Unknown
from peira.plan.manifest import layout_of
from peira.plan.trials import Place
from peira.results.reader import ResultReader
from peira.results.snapshot import as_of
from peira.results.trials import TrialResult


@dataclass(frozen=True)
class TrialRecord:
    """A trial with its own events, in order, of the run that executed it (`executed_by`)."""

    run: str
    result: TrialResult
    executed_by: str
    records: tuple[Record, ...]
    transcript: Transcript
    """What happened in it, in order."""
    printed: Mapping[str, str] = field(default_factory=dict)
    """While it runs: what its command has printed so far, the end of it, by the name of the stream."""

    @property
    def seed(self) -> int:
        """The trial's random seed."""
        return seed_of(self.result.id)

    def of(self, *kinds: type) -> list[Record]:
        """The events of these kinds."""
        return [record for record in self.records if isinstance(record.event, kinds)]

    @property
    def steps(self) -> list[Record]:
        """The recorded steps."""
        return self.of(StepRecorded)

    @property
    def observations(self) -> list[Record]:
        """What the agent logged."""
        return self.of(Observed)

    @property
    def attempts(self) -> list[Record]:
        """The ends of its attempts."""
        return self.of(TaskRetried, TaskFinished)


MOST_PRINTED = 16_384
"""Bytes of the end of what a running command has printed."""
MOST_RUNS = 1_000
"""The number of newest runs that a trial is looked for in."""


def run_of_trial(prefix: str, store: SessionLike = None) -> str:
    """The newest run with a trial whose id has this prefix; "" if there is none."""
    session = Session.find(store)
    with session.reading() as opened:
        for run in opened.runs(RunQuery(limit=MOST_RUNS)):
            if run.manifest and _places(opened, run, prefix):
                return str(run.id)
    return ""


SURE = 12
"""Digits of an id from which on no other trial is expected to share them."""


def _places(store: AnyStore, run: Run, prefix: str) -> dict[str, Place]:
    """The places of the trials whose ids have this prefix.

    A store that was told of the plan knows them; else the ids of all trials are computed.
    """
    layout = layout_of(manifest_of(store, run), store.get, store)
    if isinstance(store, ListsPlans) and re.fullmatch("[0-9a-f]+", prefix):
        complete, found = store.listed().get(run.manifest), store.listed_tasks(run.manifest, prefix)
        if complete or (found and len(prefix) >= SURE):
            return {id: layout.place(number) for id, number in found}
    return {id: place for place in layout.places() if (id := layout.trial_id(place)).startswith(prefix)}


def trial(run: str, prefix: str, store: SessionLike = None, latest: bool = False) -> TrialRecord:
    """The trial of this run whose id has this prefix, as it was when the run ended; with `latest`, as it is.

    Unknown if there is none, or several.
    """
    if len(prefix) < 4:
        raise Unknown(
            f"{prefix!r} is not a trial id: use four or more of its digits (see `peira show --trials`)"
        )
    with Session.find(store).reading() as opened:
        found = find_run(opened, run)
        manifest, rows = manifest_of(opened, found), opened if latest else as_of(opened, found.id)
        layout = layout_of(manifest, opened.get, opened)
        places = _places(opened, found, prefix)
        place = places[resolve(prefix, places, "trial")]
        return trial_at(place, opened, rows, ResultReader(manifest, rows, found.id, layout=layout), found.id)


def trial_at(place: Place, store: Any, rows: Any, reader: ResultReader, run: str) -> TrialRecord:
    """The trial at a place of a run's plan.

    `rows` are the tasks of the store as they are to be seen, which `reader` reads, too.
    """
    [result] = reader.of([place])
    task = rows.find("task", [result.id]).get(result.id)
    executed_by = task.run if task else ""
    records = store.about([result.id]) if executed_by else []
    own = tuple(record for record in records if record.run == executed_by)
    ended, printed = task.result if task else Result(), {}
    if task is not None and task.state is State.running:
        ended = Result(calls=_calls_so_far(own, task.epoch))
        printed = printed_so_far(store, executed_by, result.id, task.epoch)
    said = shown_transcripts(store, {result.id: ended}, {result.id: _attempts(own)})[result.id]
    return TrialRecord(run, result, executed_by, own, said, printed)


def _calls_so_far(records: Iterable[Record], epoch: int) -> tuple[str, ...]:
    """The calls of an attempt that is under way."""
    events = [record.event for record in records]
    asked = [one.key for one in events if isinstance(one, CallIntended) and one.epoch == epoch]
    return tuple(dict.fromkeys(asked))


def printed_so_far(store: AnyStore, run: str, task: str, epoch: int) -> dict[str, str]:
    """What the command of an attempt that is under way on this machine has printed, the end of it."""
    folder = store_folder(store, "work") / short(run) / f"{short(task)}-{epoch}"
    found = {}
    for name in ("stdout", "stderr"):
        try:
            with (folder / name).open("rb") as file:
                file.seek(max(0, os.fstat(file.fileno()).st_size - MOST_PRINTED))
                text = file.read(MOST_PRINTED).decode("utf-8", "replace")
        except FileNotFoundError:  # it has no command, or has just ended
            continue
        if text.strip():
            found[name] = without_keys(text)
    return found


def _attempts(records: Iterable[Record]) -> tuple[TranscriptAttempt, ...]:
    """How the attempts of a trial ended; nothing if there was one, and it succeeded."""
    ends = [record.event for record in records if isinstance(record.event, (TaskRetried, TaskFinished))]
    made = []
    for end in ends:
        state = end.state.value if isinstance(end, TaskFinished) else "failed, tried again"
        failure = end.result.failure
        why = f"{failure.type}: {failure.message}" if failure else ""
        made.append(TranscriptAttempt(end.epoch, state, why, end.result.took))
    return tuple(made) if len(made) > 1 or any(one.why for one in made) else ()
