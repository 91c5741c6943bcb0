"""Looking at stored work, without disturbing whoever is writing it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import peira.api as rooms
from peira.api.finding import find_run
from peira.api.seen import UNDER_WAY, as_seen
from peira.api.stores import StoreLike, locate, reading
from peira.core.contracts import CallQuery, RunQuery, Tally
from peira.core.events import Record, Status
from peira.core.state import Run, replace
from peira.errors import Unknown
from peira.spec.project import Project

if TYPE_CHECKING:
    from peira.analysis.results import Results
    from peira.api.calls import CallRecord, ModelCall
    from peira.api.resolving import Settled
    from peira.plan.manifest import Manifest


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
            return rooms.results_of(self._where, store, self._find(store, run).id)

    def manifest(self, run: str = "") -> Manifest:
        with self._reading() as store:
            return rooms.manifest_of(store, self._find(store, run))

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
