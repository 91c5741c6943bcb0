"""Everything recorded about one trial: result, attempts, and what its agent logged."""

from __future__ import annotations

from dataclasses import dataclass

from peira.app.session import Session, SessionLike
from peira.app.store.results import exchanges, manifest_of
from peira.app.store.runs import find_run
from peira.core.contracts import RunQuery
from peira.core.ids import Json, resolve, seed_of
from peira.core.log.events import Observed, Record, StepRecorded, TaskFinished, TaskRetried
from peira.errors import Unknown
from peira.plan.manifest import layout_of, read
from peira.results.reader import ResultReader
from peira.results.snapshot import as_of
from peira.results.transcript import transcript
from peira.results.trials import TrialResult


@dataclass(frozen=True)
class TrialRecord:
    """A trial with its own events, in order, of the run that executed it (`executed_by`)."""

    run: str
    result: TrialResult
    executed_by: str
    records: tuple[Record, ...]
    transcript: tuple[dict[str, Json], ...] = ()
    """What its models said, with tool calls and their results, in order."""

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


MOST_RUNS = 1_000
"""The number of newest runs that a trial is looked for in."""


def run_of_trial(prefix: str, store: SessionLike = None) -> str:
    """The newest run with a trial whose id has this prefix; "" if there is none."""
    session = Session.find(store)
    with session.reading() as opened:
        for run in opened.runs(RunQuery(limit=MOST_RUNS)):
            layout = layout_of(read(run.manifest, opened.get), opened.get)
            if any(layout.trial_id(place).startswith(prefix) for place in layout.places()):
                return str(run.id)
    return ""


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
        layout = layout_of(manifest, opened.get)
        places = {id: place for place in layout.places() if (id := layout.trial_id(place)).startswith(prefix)}
        id = resolve(prefix, places, "trial")
        [result] = ResultReader(manifest, rows, found.id, layout=layout).of([places[id]])
        task = rows.find("task", [id]).get(id)
        executed_by = task.run if task else ""
        records = opened.about([id]) if executed_by else []
        own = tuple(record for record in records if record.run == executed_by)
        calls = dict(exchanges(opened, result.calls))
    said = transcript(calls[key] for key in result.calls if key in calls)
    return TrialRecord(found.id, result, executed_by, own, tuple(said))
