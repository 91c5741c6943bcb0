"""The results of a stored run, and how it came about (for its report)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any

import msgspec

import peira.analysis as analysis
import peira.app as app
from peira.analysis.results import Results
from peira.app.session import Session
from peira.app.store.access import AnyStore
from peira.app.store.runs import readable_counts, with_current_status
from peira.app.store.table_cache import table_cache_of
from peira.core.contracts import RunQuery
from peira.core.log.events import TERMINAL, RunNoted, Status
from peira.core.log.state import Call, Run
from peira.core.models import Answer, ToolCall
from peira.core.text.words import HIDDEN
from peira.engine.kinds import GENERATE, IMPORTED
from peira.engine.progress import SPARED
from peira.plan import diff as versions
from peira.plan.diff.history import frozen_plan, frozen_plan_status
from peira.plan.manifest import Manifest, layout_of, read
from peira.plan.provenance import read_provenance
from peira.results.aims import Aims

if TYPE_CHECKING:
    from peira.results.background import Background, CallSummary, StoredRun
    from peira.results.trials import TrialResult


CHUNK = 500
_answer = msgspec.json.Decoder(Answer).decode


def background_of(session: Session, run: Run, manifest: Manifest, standing: Sequence[str]) -> Background:
    """How a run came about: its plan, provenance, order of trials and calls, read when they are asked for."""

    def order() -> Iterator[str]:
        with session.reading() as opened:
            layout = layout_of(manifest, opened.get)
        return (layout.trial_id(layout.place(number)) for number in layout.in_run_order())

    def read(keys: Sequence[str]) -> Mapping[str, CallSummary]:
        with session.reading() as opened:
            return dict(exchanges(opened, keys))

    with session.reading() as store:
        kept = read_provenance(store.get(run.provenance)) if run.provenance else None
    return analysis.background.Background(run, manifest, kept, tuple(standing), order, read)


def exchanges(store: Any, keys: Sequence[str]) -> Iterator[tuple[str, CallSummary]]:
    """The calls of these keys, each with its request and the text of its answer."""
    for at in range(0, len(keys), CHUNK):
        found = store.find("call", keys[at : at + CHUNK])
        calls = [call for call in found.values() if call.request]
        for call, summary in zip(calls, app.model_calls(store, calls), strict=True):
            request = msgspec.json.decode(store.get(call.request))
            text, tools = _answer_text(call, store)
            known = (call.key, call.model, summary.status, request, text)
            yield (
                call.key,
                analysis.background.CallSummary(*known, summary.input, summary.output, summary.cost, tools),
            )


def _answer_text(call: Call, store: Any) -> tuple[str, tuple[ToolCall, ...]]:
    """The text of the reply and its tool calls, or the raw answer if it is unreadable; keys are masked."""
    raw = store.get(call.blob) if call.blob else bytes(call.value)
    if not raw:
        return call.why, ()
    reply, answer = app.reply_of(call, store), _answer(raw)
    text = reply.text if reply is not None else answer.body.decode("utf-8", "replace")
    for start, end in answer.exposed:
        text = text.replace(answer.body[start:end].decode("utf-8", "replace"), HIDDEN)
    return text, reply.tool_calls if reply is not None and not answer.exposed else ()


def results_of(session: Session, store: AnyStore, run_id: str, latest: bool = False) -> Results:
    """The results of a run as they were when it ended; trials are read from the store when needed.

    With `latest`, what later runs did counts, too.
    """
    run = with_current_status(store.find("run", [run_id])[run_id], store)
    manifest = manifest_of(store, run)
    kept = frozen_plan(store, run.study, run.planned)
    deviations = frozen_plan_status(store, kept, versions.Version(manifest, store.get)) if kept else ()
    spared = run.counts.get(f"{GENERATE}.{SPARED}", 0)
    stop = manifest.snapshot.get("stop")
    stopped = analysis.background.remarks(stop, run.look, spared) if stop else ()

    histories = analysis.trials.TrialHistories(session.reading)

    def load(brief: bool = False) -> Iterator[TrialResult]:
        with session.reading() as opened:
            rows = opened if latest else analysis.snapshot.as_of(opened, run_id)
            trials = analysis.reader.ResultReader(manifest, rows, run_id, histories=histories, brief=brief)
            # A trial that the stopping rule spared has no result, and is not lost.
            yield from (one for one in trials if one.state in TERMINAL) if spared else trials

    @contextmanager
    def origin() -> Iterator[StoredRun]:
        with session.reading() as opened:
            yield analysis.background.StoredRun(opened, run, manifest)

    return Results(
        load,
        run_id=run_id,
        study=run.study,
        status=run.status.value,
        counts=readable_counts(run.counts or _counted(session, run)),
        notes=(*manifest.notes, *imported(store, run.study), *deviations, *stopped),
        store=session.store,
        spent=run.spent,
        aims=Aims.of(manifest.snapshot),
        origin=origin,
        brief=None if manifest.snapshot.get("anchors") else partial(load, brief=True),
        memory=table_cache_of(session, f"{run_id} latest" if latest else run_id, run.trials),
        look=run.look,
        background=partial(background_of, session, run, manifest, deviations),
        conditions=manifest.conditions,
    )


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
