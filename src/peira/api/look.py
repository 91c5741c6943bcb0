"""Looking at stored work, without disturbing whoever is writing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peira.analysis as analysis
import peira.api as rooms
from peira.analysis.aims import Aims
from peira.analysis.results import Results
from peira.analysis.stopping import remarks
from peira.api.background import background_of
from peira.api.memory import memory_of
from peira.api.seen import UNDER_WAY, as_seen
from peira.api.stores import AnyStore, StoreLike, locate, reading
from peira.api.studies import find_run
from peira.core.contracts import CallQuery, RunQuery, Tally
from peira.core.events import TERMINAL, Record, RunNoted, State, Status
from peira.core.state import Run, replace
from peira.engine.progress import KEPT, LEFT, REUSED, SPARED
from peira.engine.recording import IMPORTED
from peira.engine.slips import BATCH
from peira.engine.work import EVALUATE, GENERATE, TRANSFORM
from peira.errors import Unknown
from peira.plan.frozen import frozen, standing
from peira.plan.manifest import Manifest, read
from peira.plan.version import Version
from peira.spec.project import Project

if TYPE_CHECKING:
    from peira.analysis.origin import Origin
    from peira.analysis.trials import TrialResult
    from peira.api.calls import CallRecord, ModelCall
    from peira.api.resolving import Settled


class Opened:
    """A store, open for looking: `open("capitals.db").runs()`."""

    def __init__(self, store: StoreLike = None) -> None:
        self._where = locate(store, Project.find())
        with self._reading():  # a store that is not there is said at once
            pass

    def _reading(self) -> Any:
        return reading(self._where, Project.find())

    def runs(self, query: RunQuery | None = None, **filters: Any) -> list[Run]:
        """Runs, newest first; filters are study, status, tag, since, until, prefix, limit."""
        query = query or RunQuery(**filters)
        with self._reading() as store:
            # What is stored as under way may be seen as interrupted, so both are asked for.
            stored = (*UNDER_WAY, query.status) if query.status == Status.interrupted else (query.status,)
            found = [run for status in stored for run in store.runs(replace(query, status=status))]
            seen = sorted((as_seen(run, store) for run in found), key=lambda run: -run.planned)
            return [run for run in seen if query.status in ("", run.status)][: query.limit]

    def run(self, prefix: str = "") -> Run:
        """The run of this id or prefix; without one, the newest."""
        with self._reading() as store:
            return as_seen(self._find(store, prefix), store)

    def _find(self, store: Any, prefix: str) -> Run:
        if prefix:
            return find_run(store, prefix)
        newest: list[Run] = store.runs(RunQuery(limit=1))
        if not newest:
            raise Unknown("there are no runs in this store yet")
        return newest[0]

    def results(self, run: str = "") -> Results:
        with self._reading() as store:
            return results_of(self._where, store, self._find(store, run).id)

    def manifest(self, run: str = "") -> Manifest:
        with self._reading() as store:
            return read(self._find(store, run).manifest, store.get)

    def events(self, run: str = "", after: int = 0, limit: int = 1000) -> list[Record]:
        with self._reading() as store:
            found: list[Record] = store.events(self._find(store, run).id, after, limit)
            return found

    def calls(self, query: CallQuery | None = None, **filters: Any) -> list[ModelCall]:
        """Calls of models, last asked first; filters are run, model, state, task, prefix, limit."""
        with self._reading() as store:
            return rooms.calls_of(store, query or CallQuery(**filters))

    def tally(self, query: CallQuery | None = None, **filters: Any) -> Tally:
        """What those calls come to, all of them, whatever the limit."""
        with self._reading() as store:
            return rooms.tally_of(store, query or CallQuery(**filters))

    def call(self, key: str) -> CallRecord:
        """Everything about the call whose key starts so: request, answer, events."""
        with self._reading() as store:
            return rooms.record_of(store, rooms.find_call(store, key))

    def resolve(self, how: str, *keys: str, model: str = "", by: str = "") -> Settled:
        """Settle calls, for the next run: `resend` those in doubt (without keys, all of them), or `discard`
        answers that are bad. This writes, so nobody else may own the store."""
        return rooms.settle(how, keys, model=model, by=by, store=self._where)

    def blob(self, digest: str) -> bytes:
        with self._reading() as store:
            data: bytes = store.get(digest)
            return data

    def size(self, run: str = "") -> int:
        """Bytes held by a run, or by the whole store."""
        with self._reading() as store:
            return int(store.size(find_run(store, run).id if run else ""))


def results_of(where: Path | AnyStore, store: AnyStore, run_id: str) -> Results:
    """The results of a run; they are read from the store again when they are looked at."""
    run = as_seen(store.find("run", [run_id])[run_id], store)
    manifest = read(run.manifest, store.get)
    kept = frozen(store, run.study, run.planned)
    deviations = standing(store, kept, Version(manifest, store.get)) if kept else ()
    spared = run.counts.get(f"{GENERATE}.{SPARED}", 0)
    stopped = remarks(manifest.snapshot.get("stop"), run.look, spared)

    def load() -> Iterator[TrialResult]:
        with reading(where, Project()) as opened:
            trials = analysis.collect.Collector(manifest, opened, run_id)
            # What was not needed has no result, and is no loss.
            yield from (one for one in trials if one.state in TERMINAL) if spared else trials

    @contextmanager
    def origin() -> Iterator[Origin]:
        with reading(where, Project()) as opened:
            yield analysis.origin.Origin(opened, run, manifest)

    return Results(
        load,
        run_id=run_id,
        study=run.study,
        status=run.status.value,
        counts=plain_counts(run.counts),
        notes=(*manifest.notes, *imported(store, run.study), *deviations, *stopped),
        store=where,
        spent=run.spent,
        aims=Aims.of(manifest.snapshot),
        origin=origin,
        memory=memory_of(where, run_id, run.trials),
        look=run.look,
        background=background_of(where, store, run, manifest, deviations),
    )


def imported(store: AnyStore, study: str) -> Iterator[str]:
    """Where results of this study come from that were not made here, oldest first."""
    runs = store.runs(RunQuery(study=study, tag=IMPORTED, limit=100))
    events = [record.event for run in reversed(runs) for record in store.events(run.id, limit=3)]
    said = [event.text for event in events if isinstance(event, RunNoted)]
    yield from dict.fromkeys(text for text in said if text.startswith(f"{IMPORTED} from "))


def plain_counts(counts: dict[str, int]) -> dict[str, int]:
    """Counts as people read them: of trials by how they ended, of answers, of scores, and of batches."""
    others = (f"{TRANSFORM}.", f"{EVALUATE}.", f"{BATCH}.")
    plain = {key.removeprefix(f"{GENERATE}."): n for key, n in counts.items() if not key.startswith(others)}
    for kind, many in ((TRANSFORM, "answers"), (EVALUATE, "scores"), (BATCH, "batches")):
        ends = {key.removeprefix(f"{kind}."): n for key, n in counts.items() if key.startswith(f"{kind}.")}
        if ends:
            plain[many] = sum(ends.values())
            plain |= {f"{many} {state}": n for state, n in ends.items() if state != "succeeded"}
    return dict(sorted(plain.items(), key=lambda item: _rank(item[0])))


def _rank(name: str) -> tuple[int, int]:
    """Where a count is listed, whatever ended first: trials, then answers and scores, states in order."""
    kinds, ends = ("answers", "scores", "batches"), ("planned", *State, REUSED, KEPT, LEFT, SPARED)
    kind, _, end = name.partition(" ")
    if kind not in kinds:
        return 0, ends.index(name) if name in ends else len(ends)
    return 1 + kinds.index(kind), ends.index(end) + 1 if end in ends else 0
