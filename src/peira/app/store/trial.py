"""Everything recorded about one trial: result, attempts, and what its agent logged."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from peira.app.session import Session, SessionLike
from peira.app.store.results import results_of
from peira.app.store.runs import find_run
from peira.core.ids import resolve, seed_of
from peira.core.log.events import Observed, Record, StepRecorded, TaskFinished, TaskRetried
from peira.core.log.state import touched
from peira.errors import Unknown
from peira.results.trials import TrialResult

CHUNK = 5000


@dataclass(frozen=True)
class TrialRecord:
    """A trial with its own events, in order, of the run that executed it (`executed_by`)."""

    run: str
    result: TrialResult
    executed_by: str
    records: tuple[Record, ...]

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


def trial(run: str, prefix: str, store: SessionLike = None) -> TrialRecord:
    """The trial of this run whose id has this prefix; Unknown if there is none, or several."""
    if len(prefix) < 4:
        raise Unknown(
            f"{prefix!r} is not a trial id: use four or more of its digits (see `peira show --trials`)"
        )
    session = Session.find(store)
    with session.reading() as opened:
        run_id = find_run(opened, run).id
        found = {one.id: one for one in results_of(session, opened, run_id) if one.id.startswith(prefix)}
        result = found[resolve(prefix, found, "trial")]
        task = opened.find("task", [result.id]).get(result.id)
        executed_by = task.run if task else ""
        return TrialRecord(run_id, result, executed_by, tuple(_records(opened, executed_by, result.id)))


def _records(store: Any, run: str, trial: str) -> list[Record]:
    """The events of a run about one trial."""
    found: list[Record] = []
    after = 0
    while run and (records := store.events(run, after, CHUNK)):
        after = records[-1].seq
        found += [record for record in records if trial in touched(record.event)]
    return found
