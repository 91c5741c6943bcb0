"""The results of a stored run, and how it came about (for its report)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import peira.analysis as analysis
import peira.app as app
import peira.engine as engine
from peira.analysis.results import Results
from peira.app.session import Session
from peira.app.store.access import AnyStore
from peira.app.store.runs import readable_counts, with_current_status
from peira.app.store.table_cache import table_cache_of
from peira.core.contracts import RunQuery
from peira.core.log.events import TERMINAL, RunNoted, Status
from peira.core.log.state import Run
from peira.engine.kinds import GENERATE, IMPORTED
from peira.engine.progress import SPARED
from peira.plan import diff as versions
from peira.plan.diff.history import frozen_plan, frozen_plan_status
from peira.plan.manifest import Manifest, layout_of, read
from peira.plan.provenance import read_provenance
from peira.plan.trials import Layout
from peira.results.aims import Aims

if TYPE_CHECKING:
    from peira.core.chat.transcript import CallSummary, Transcript
    from peira.results.background import Background, StoredRun
    from peira.results.trials import TrialResult


def background_of(session: Session, run: Run, manifest: Manifest, standing: Sequence[str]) -> Background:
    """How a run came about: its plan, provenance, order of trials and calls, read when they are asked for."""

    def order() -> Iterator[str]:
        with session.reading() as opened:
            layout = layout_of(manifest, opened.get, opened)
        return (layout.trial_id(layout.place(number)) for number in layout.in_run_order())

    def read(keys: Sequence[str]) -> Mapping[str, CallSummary]:
        with session.reading() as opened:
            return dict(engine.transcripts.call_summaries(opened, keys))

    def transcripts(trials: Sequence[str]) -> Mapping[str, Transcript]:
        with session.reading() as opened:
            rows = analysis.snapshot.as_of(opened, run.id).find("task", list(trials))
            results = {id: row.result for id, row in rows.items()}
            return engine.transcripts.shown_transcripts(opened, results)

    with session.reading() as store:
        kept = read_provenance(store.get(run.provenance)) if run.provenance else None
    return analysis.background.Background(run, manifest, kept, tuple(standing), order, read, transcripts)


def results_of(
    session: Session, store: AnyStore, run_id: str, latest: bool = False, cached: bool = True
) -> Results:
    """The results of a run as they were when it ended; trials are read from the store when needed.

    With `latest`, what later runs did counts, too. Unless `cached`, no tables are kept beside the store.
    """
    run = with_current_status(store.find("run", [run_id])[run_id], store)
    manifest = manifest_of(store, run)
    kept = frozen_plan(store, run.study, run.planned)
    deviations = frozen_plan_status(store, kept, versions.PlanVersion(manifest, store.get)) if kept else ()
    spared = run.counts.get(f"{GENERATE}.{SPARED}", 0)
    stop = manifest.snapshot.get("stop")
    stopped = analysis.background.remarks(stop, run.look, spared) if stop else ()

    aims = Aims.of(manifest.snapshot)
    histories = analysis.trials.TrialHistories(session.reading)

    def load(brief: bool = False) -> Iterator[TrialResult]:
        with session.reading() as opened:
            rows = opened if latest else analysis.snapshot.as_of(opened, run_id)
            layout, rows = _layout_and_rows(manifest, opened, rows, run.trials)
            found = analysis.reader.ResultReader(
                manifest, rows, run_id, layout=layout, histories=histories, brief=brief
            )
            trials: Iterable[TrialResult] = found
            if aims.slices or aims.levels_described:
                trials = analysis.marked(manifest.snapshot, found)
            # A trial that the stopping rule spared has no result, and is not lost.
            yield from (one for one in trials if one.state in TERMINAL) if spared else trials

    @contextmanager
    def origin() -> Iterator[StoredRun]:
        with session.reading() as opened:
            yield analysis.background.StoredRun(opened, run, manifest)

    whole = manifest.snapshot.get("anchors") or aims.slices_read_trials
    short = None if whole else partial(load, brief=True)
    kept_as = f"{run_id} latest" if latest else run_id
    return Results(
        load,
        run_id=run_id,
        study=run.study,
        status=run.status.value,
        counts=readable_counts(run.counts or _counted(session, run)),
        notes=(*manifest.notes, *imported(store, run.study), *deviations, *stopped),
        store=session.store,
        spent=run.spent,
        aims=aims,
        origin=origin,
        brief=short,
        memory=table_cache_of(session, kept_as, run.trials, short) if cached else None,
        look=run.look,
        background=partial(background_of, session, run, manifest, deviations),
        conditions=manifest.conditions,
        name=run.name,
        count=None if spared else run.trials,
    )


def _layout_and_rows(manifest: Manifest, store: AnyStore, rows: Any, trials: int) -> tuple[Layout, Any]:
    """The layout of a run, and the rows to read it from; those of many trials are scanned meanwhile, which is
    work of the store and not of Python for the most part."""
    if trials < analysis.snapshot.MANY:
        return layout_of(manifest, store.get, store), rows
    with ThreadPoolExecutor(1) as aside:
        scan = aside.submit(analysis.snapshot.scanned, rows, trials)
        return layout_of(manifest, store.get, store), scan.result()


def _counted(session: Session, run: Run) -> dict[str, int]:
    """The counts of a run that was cut off, which recorded none, from its events."""
    return app.Follower(session, run.id).counts() if run.status is Status.interrupted else {}


def manifest_of(store: AnyStore, run: Run) -> Manifest:
    """The manifest of a run."""
    return read(run.manifest, store.get)


def imported(store: AnyStore, study: str) -> list[str]:
    """Notes on where imported results of this study come from, oldest first."""
    notes: dict[str, None] = {}
    for run in reversed(store.runs(RunQuery(study=study, tag=IMPORTED, limit=100))):
        for record in store.events(run.id, limit=3):
            event = record.event
            if isinstance(event, RunNoted) and event.text.startswith(f"{IMPORTED} from "):
                notes[event.text] = None
    return list(notes)
