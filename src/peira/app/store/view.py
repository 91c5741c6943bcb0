"""A store opened for reading: its runs, results, events and calls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import peira.app as app
from peira.app.session import Session, SessionLike
from peira.app.store.runs import UNDER_WAY, find_run, with_current_status
from peira.core.contracts import Backups, CallQuery, CallTotals, RunQuery
from peira.core.log.events import Record, Status
from peira.core.log.state import Run, replace
from peira.errors import Invalid, Unknown

if TYPE_CHECKING:
    from peira.analysis.results import Results
    from peira.app.store.calls import CallRecord, ModelCall, SettledCalls
    from peira.app.streams.view import StreamView
    from peira.plan.manifest import Manifest


class Opened:
    """A store for reading: `open("capitals.db").runs()`."""

    def __init__(self, store: SessionLike = None) -> None:
        self.session = Session.find(store)
        with self.session.reading():  # raises Unknown at once if there is no store
            pass

    def runs(self, query: RunQuery | None = None, **filters: Any) -> list[Run]:
        """Runs, newest first; filters are study, status, tag, since, until, prefix, limit."""
        query = query or RunQuery(**filters)
        with self.session.reading() as store:
            # Runs stored as under way may be shown as interrupted, so both are queried.
            stored = (*UNDER_WAY, query.status) if query.status == Status.interrupted else (query.status,)
            found = [run for status in stored for run in store.runs(replace(query, status=status))]
            seen = sorted(
                (with_current_status(run, store) for run in found), key=lambda run: -run.incarnation
            )
            return [run for run in seen if query.status in ("", run.status)][: query.limit]

    def run(self, prefix: str = "") -> Run:
        """The run with this id or prefix; without one, the newest."""
        with self.session.reading() as store:
            return with_current_status(self._find(store, prefix), store)

    def _find(self, store: Any, prefix: str) -> Run:
        """The run with this id or prefix; without one, the newest. Unknown if there is none."""
        if prefix:
            return find_run(store, prefix)
        newest: list[Run] = store.runs(RunQuery(limit=1))
        if not newest:
            raise Unknown("there are no runs in this store yet")
        return newest[0]

    def results(self, run: str = "", latest: bool = False) -> Results:
        """The results of a run (by default the newest) as it ended; with `latest`, as its trials are now."""
        with self.session.reading() as store:
            return app.results_of(self.session, store, self._find(store, run).id, latest)

    def manifest(self, run: str = "") -> Manifest:
        """The manifest of a run (by default the newest)."""
        with self.session.reading() as store:
            return app.manifest_of(store, self._find(store, run))

    def events(self, run: str = "", after: int = 0, limit: int = 1000) -> list[Record]:
        """The events of a run with sequence numbers above `after`."""
        with self.session.reading() as store:
            found: list[Record] = store.events(self._find(store, run).id, after, limit)
            return found

    def calls(self, query: CallQuery | None = None, **filters: Any) -> list[ModelCall]:
        """Model calls, last asked first; filters are run, model, state, task, prefix, limit."""
        with self.session.reading() as store:
            return app.calls_of(store, query or CallQuery(**filters))

    def tally(self, query: CallQuery | None = None, **filters: Any) -> CallTotals:
        """The totals of all calls that match, whatever the limit."""
        with self.session.reading() as store:
            return app.tally_of(store, query or CallQuery(**filters))

    def call(self, key: str) -> CallRecord:
        """Everything about the call whose key has this prefix: request, answer, events."""
        with self.session.reading() as store:
            return app.record_of(store, app.find_call(store, key))

    def resolve(self, how: str, *keys: str, model: str = "", by: str = "") -> SettledCalls:
        """Settle calls for the next run: `resend` those in doubt, or `discard` bad answers.

        Without keys, `resend` means all calls in doubt. This writes, so nobody else may own the store.
        """
        return app.settle(how, keys, model=model, by=by, store=self.session)

    def stream(self, name: str) -> StreamView:
        """A stream of this store: submit jobs to it, list them, wait for them."""
        return app.StreamView(self.session, name)

    def blob(self, digest: str) -> bytes:
        """The content with this digest."""
        with self.session.reading() as store:
            data: bytes = store.get(digest)
            return data

    def size(self, run: str = "") -> int:
        """The bytes held by a run, or by the whole store."""
        with self.session.reading() as store:
            return int(store.size(find_run(store, run).id if run else ""))

    def backup(self, path: str | Path) -> Path:
        """Copy the whole store to a new file, also while a run is writing it; returns the file's path.

        Raises Invalid if there is something at the path, or if this kind of store cannot be copied so.
        """
        target = Path(path).resolve()
        with self.session.reading() as store:
            if not isinstance(store, Backups):
                raise Invalid("backup: this kind of store cannot be copied to a file; use its own tools")
            store.backup(target)
        return target


@contextmanager
def looking(store: SessionLike = None) -> Iterator[Opened]:
    """A store that is opened once for all reads in the block, and closed at its end."""
    with Session.find(store) as session:
        yield Opened(session)
