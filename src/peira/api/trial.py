"""Everything that is recorded of one trial: its result, its attempts, and what its agent said meanwhile."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from peira.analysis.trials import TrialResult
from peira.api.finding import find_run
from peira.api.results import results_of
from peira.api.stores import StoreLike, locate, reading
from peira.core.events import Observed, Record, StepRecorded, TaskFinished, TaskRetried
from peira.core.ids import resolve, seed_of
from peira.core.state import touched
from peira.errors import Unknown
from peira.spec.project import Project

CHUNK = 5000


@dataclass(frozen=True)
class TrialRecord:
    """`records` are the trial's own events, in order, from the run that executed it (`executed_by`)."""

    run: str
    result: TrialResult
    executed_by: str
    records: tuple[Record, ...]

    @property
    def seed(self) -> int:
        return seed_of(self.result.id)

    def of(self, *kinds: type) -> list[Record]:
        return [record for record in self.records if isinstance(record.event, kinds)]

    @property
    def steps(self) -> list[Record]:
        return self.of(StepRecorded)

    @property
    def observations(self) -> list[Record]:
        return self.of(Observed)

    @property
    def attempts(self) -> list[Record]:
        """How its attempts ended."""
        return self.of(TaskRetried, TaskFinished)


def trial(run: str, prefix: str, store: StoreLike = None) -> TrialRecord:
    """The trial of this run whose id starts so."""
    project = Project.find()
    if len(prefix) < 4:
        raise Unknown(
            f"{prefix!r} is not a trial id: use four or more of its digits (see `peira show --trials`)"
        )
    with reading(store, project) as opened:
        run_id = find_run(opened, run).id
        found = {
            one.id: one
            for one in results_of(locate(store, project), opened, run_id)
            if one.id.startswith(prefix)
        }
        result = found[resolve(prefix, found, "trial")]
        task = opened.find("task", [result.id]).get(result.id)
        executed_by = task.run if task else ""
        return TrialRecord(run_id, result, executed_by, tuple(_records(opened, executed_by, result.id)))


def _records(store: Any, run: str, trial: str) -> list[Record]:
    found: list[Record] = []
    after = 0
    while run and (records := store.events(run, after, CHUNK)):
        after = records[-1].seq
        found += [record for record in records if trial in touched(record.event)]
    return found
