"""`bundle_export`: the pending work of a study as one file."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from peira.app.imports.intake import ImportProgress, file_digest
from peira.app.run import RunOptions, execute
from peira.app.session import Session, SessionLike
from peira.app.store.runs import find_run, names_run
from peira.app.studies import StudyLike, plan_of
from peira.core.clock import SystemClock
from peira.core.contracts import Op
from peira.core.files import check_source, whole_file
from peira.core.ids import compose
from peira.core.log.events import RunFinished, Status
from peira.engine.imports import newest_ended_run, standing
from peira.engine.run_start import planned_on
from peira.engine.sources.pending_work import Pending, check_stage, unanswered
from peira.engine.stages import EVALUATE, GENERATE, TRANSFORM
from peira.errors import Invalid
from peira.plan.bundle import BundleDigest, header_of, sealed, written
from peira.plan.expansion import transform_digest
from peira.plan.manifest import keep, read
from peira.spec.modules import refuse_while_loading

CHUNK = 500


@dataclass(frozen=True)
class ExportedBundle:
    """A bundle that was written: its file, how many items it has, and its digest."""

    path: Path
    items: int
    digest: str


def bundle_export(
    study: StudyLike,
    path: str | Path,
    *,
    stage: str = GENERATE,
    where: str = "",
    limit: int | None = None,
    store: SessionLike = None,
    progress: bool | None = None,
) -> ExportedBundle:
    """Write what is pending of a study, or of a stored run, as a bundle: trials without an output
    (`generate`), or outputs without a score (`evaluate`).

    It holds no `expected` for agents, and nothing of the environment. The plan is kept in the store, so that
    the answers find it again; nothing is claimed: the same work may be done here meanwhile."""
    refuse_while_loading()
    check_stage(stage)
    session = Session.find(store)
    session.project.load_plugins()
    if stage == EVALUATE:
        _find_answers(study, where, limit, session)
    with session.reading_if_any() as there:
        stored = names_run(study, there) and not (where or limit)
    opening = _stored if stored else _planned
    with opening(study, stage, where, limit, session) as (manifest, opened):
        of = read(manifest, opened.get)
        pending, seal = Pending(of, opened, stage), BundleDigest()
        with whole_file(Path(path)) as file, ImportProgress(of.study, progress, session.project) as told:
            file.write(written(header_of(manifest, of, stage)))
            for item in pending.items():
                line = sealed(pending.document(item))
                seal.add(line[:64].decode())
                file.write(line)
                if seal.count % CHUNK == 0:
                    told(seal.count)
            file.write(written(seal.footer))
    return ExportedBundle(Path(path), seal.count, file_digest(Path(path)))


def _find_answers(study: StudyLike, where: str, limit: int | None, session: Session) -> None:
    """Where a transform finds what is judged, it is let look at the outputs that are new to it, here."""
    if not session.exists:
        return
    with session.reading() as opened:
        plan = plan_of(study, opened, session.project, where=where, limit=limit, agents=False)
        new = plan.transform is not None and unanswered(plan.layout, transform_digest(plan.transform), opened)
    if new:
        execute(plan, RunOptions(store=session, stages=(TRANSFORM,), progress=False))


@contextmanager
def _stored(study: Any, *options: Any) -> Iterator[tuple[str, Any]]:
    """A stored run's plan needs only to be read."""
    *_, session = options
    with session.reading() as opened:
        yield find_run(opened, str(study)).manifest, opened


@contextmanager
def _planned(
    study: StudyLike, stage: str, where: str, limit: int | None, session: Session
) -> Iterator[tuple[str, Any]]:
    """The plan of a study, kept in the store under a run that did nothing but hand it out."""
    with session.owned() as opened:
        plan = plan_of(study, opened, session.project, where=where, limit=limit, agents=stage == GENERATE)
        manifest = keep(plan, opened.put, store=opened)
        if not newest_ended_run(opened, plan.study.name, manifest):
            run = compose("run", manifest, uuid.uuid4().hex)
            opening = planned_on(manifest, len(plan), opened, SystemClock().now())
            counts = {"planned": len(plan), **standing(read(manifest, opened.get), opened, run)}
            ending = RunFinished(Status.completed, counts, "handed out as a bundle")
            opened.commit([Op(run, (opening, ending))]).result()
        yield manifest, opened


@contextmanager
def opened_file(path: Path) -> Iterator[BinaryIO]:
    """A file to read."""
    check_source(path)
    try:
        file = path.open("rb")
    except OSError as error:
        raise Invalid(f"cannot read {path}: {error.strerror or error}") from None
    with file:
        yield file
