"""The results of a stored run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import peira.analysis as analysis
from peira.analysis.aims import Aims
from peira.analysis.results import Results
from peira.analysis.stopping import remarks
from peira.api.background import background_of
from peira.api.counts import plain_counts
from peira.api.memory import memory_of
from peira.api.seen import as_seen
from peira.api.stores import AnyStore, reading
from peira.core.contracts import RunQuery
from peira.core.events import TERMINAL, RunNoted
from peira.core.state import Run
from peira.engine.kinds import GENERATE, IMPORTED
from peira.engine.progress import SPARED
from peira.plan.frozen import frozen, standing
from peira.plan.manifest import Manifest, read
from peira.plan.version import Version
from peira.spec.project import Project

if TYPE_CHECKING:
    from peira.analysis.origin import Origin
    from peira.analysis.trials import TrialResult


def results_of(where: Path | AnyStore, store: AnyStore, run_id: str) -> Results:
    """The results of a run; they are read from the store again when they are looked at."""
    run = as_seen(store.find("run", [run_id])[run_id], store)
    manifest = manifest_of(store, run)
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


def manifest_of(store: AnyStore, run: Run) -> Manifest:
    return read(run.manifest, store.get)


def imported(store: AnyStore, study: str) -> Iterator[str]:
    """Where results of this study come from that were not made here, oldest first."""
    runs = store.runs(RunQuery(study=study, tag=IMPORTED, limit=100))
    events = [record.event for run in reversed(runs) for record in store.events(run.id, limit=3)]
    said = [event.text for event in events if isinstance(event, RunNoted)]
    yield from dict.fromkeys(text for text in said if text.startswith(f"{IMPORTED} from "))
