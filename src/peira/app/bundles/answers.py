"""`bundle_import`: answers to a bundle are checked and recorded as results of its items."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from peira.app.bundles.export import CHUNK, opened_file
from peira.app.imports.intake import ImportProgress, ImportResult, file_digest, import_result
from peira.app.session import Session, SessionLike
from peira.app.store.listing import list_missing
from peira.app.store.results import results_of
from peira.core.clock import SystemClock
from peira.core.contracts import RunQuery
from peira.core.ids import digest_bytes, normalise, short
from peira.core.log.events import Failure, State
from peira.engine.imports import (
    ImportDetails,
    ImportedResult,
    ImportOrigin,
    Recorder,
    failed,
    grouped,
    newest_ended_run,
    standing,
    succeeded,
)
from peira.engine.progress import LEFT
from peira.engine.sources.pending_work import Pending, PendingItem, check_stage
from peira.engine.stages import EVALUATE
from peira.errors import Invalid
from peira.evaluators.scores import score_value
from peira.plan.bundle import (
    BundleAnswer,
    BundleHeader,
    BundleLine,
    lines,
    read_answer,
    read_footer,
    read_header,
)
from peira.plan.manifest import read
from peira.spec.data_files import Problems
from peira.spec.modules import refuse_while_loading

EVERY = 1_000_000


def bundle_import(
    answers: str | Path, *, store: SessionLike = None, progress: bool | None = None
) -> ImportResult:
    """Import the answers to a bundle that was exported from this store.

    Every digest is checked. A line that was altered, that answers no item of the plan, or whose item has
    changed since, is refused, and the others are recorded. Existing results are kept; importing again is
    idempotent. An answer with an error is recorded as a failure.
    """
    refuse_while_loading()
    session, path, problems = Session.find(store), Path(answers), Problems()
    with opened_file(path) as file:
        header, _ = read_header(file, path.name)
        check_stage(header.stage)
        with session.reading() as seen:
            _check_plan_known(header, seen, path.name)
        origin = ImportOrigin(f"bundle {path.name}", file_digest(path))
        with session.owned() as opened, ImportProgress(header.study, progress, session.project) as report:
            pending = Pending(read(header.manifest, opened.get), opened, header.stage)
            importing = _AnswerImport(header, path.name, pending, origin, problems)
            recorder = importing.take(file, opened, report)
            list_missing(opened)
            results = results_of(session, opened, recorder.run or _newest_run(header, opened))
    return import_result(results, header.stage, recorder, problems, origin)


def _check_plan_known(header: BundleHeader, store: Any, name: str) -> None:
    """Raise Invalid if the bundle's plan is not in this store."""
    runs = store.runs(RunQuery(study=header.study, limit=EVERY))
    if not any(run.manifest == header.manifest for run in runs):
        raise Invalid(
            f"{name}: answers a bundle of another store: there is no run of {header.study} with the plan "
            f"{short(header.manifest)} here"
        )


def _newest_run(header: BundleHeader, store: Any) -> str:
    """The newest run of the plan, preferably one that ran to its end."""
    runs = store.runs(RunQuery(study=header.study, limit=EVERY))
    newest = [run.id for run in runs if run.manifest == header.manifest]
    return newest_ended_run(store, header.study, header.manifest) or newest[0]


@dataclass(frozen=True)
class _AnswerImport:
    """The import of one file of answers."""

    header: BundleHeader
    name: str
    pending: Pending
    origin: ImportOrigin
    problems: Problems

    def take(self, file: BinaryIO, store: Any, report: ImportProgress) -> Recorder:
        """Record the answers of the file, in groups."""
        stage, layout = self.header.stage, self.pending.layout
        recorder = Recorder(
            store,
            self.header.manifest,
            len(layout),
            stage,
            stage,
            store.incarnation,
            self.origin,
            SystemClock().now,
            self.problems.add,
        )
        for group in grouped(self._incoming(self._answers(file))):
            recorder.take(group)
            report(recorder.ended.total() + recorder.same, recorder.same, recorder.ended[State.failed])
        if recorder.run:
            left = sum(1 for _ in self.pending.items()) if stage == EVALUATE else 0
            others = standing(read(self.header.manifest, store.get), store, recorder.run)
            recorder.finish({**others, f"{EVALUATE}.{LEFT}": left})
        return recorder

    def _answers(self, file: BinaryIO) -> Iterator[tuple[int, BundleAnswer]]:
        """The answers with their line numbers; altered lines are refused."""
        for line in lines(file, 2):
            if not isinstance(line, BundleLine):
                self.problems.add(self.name, *line)
            elif read_footer(line) is None:
                try:
                    yield line.number, read_answer(line)
                except Invalid as error:
                    self.problems.add(self.name, line.number, str(error))

    def _incoming(self, answers: Iterator[tuple[int, BundleAnswer]]) -> Iterator[ImportedResult]:
        """Each answer as the result of its item; foreign answers are refused."""
        while chunk := list(islice(answers, CHUNK)):
            items = self.pending.known([(answer.n, answer.id) for _, answer in chunk])
            for number, answer in chunk:
                try:
                    yield self._result(number, answer, items.get((answer.n, answer.id)))
                except Invalid as error:
                    self.problems.add(self.name, number, str(error))

    def _result(self, number: int, answer: BundleAnswer, item: PendingItem | None) -> ImportedResult:
        """The result of an item; Invalid if the answer is not to this item."""
        if item is None:
            raise Invalid(f"answers {short(answer.id)}, which is no item of this plan")
        if digest_bytes(self.pending.document(item)) != answer.item:
            raise Invalid(f"answers {short(answer.id)} with the digest of another item")
        where, circumstances = (
            (self.name, number),
            ImportDetails(self.origin, answer.took, answer.metrics, answer.about),
        )
        if answer.error is not None:
            error = answer.error
            failure = Failure("Bundle", error) if isinstance(error, str) else error
            return failed(where, item.id, failure, circumstances)
        value = normalise(answer.output, "output")
        return succeeded(
            where, item.id, score_value(value) if self.header.stage == EVALUATE else value, circumstances
        )
