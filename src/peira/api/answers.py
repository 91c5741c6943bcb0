"""Taking in the answers to a bundle: each is checked, and recorded as the result of its item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from peira.api.bundles import CHUNK, opened_file
from peira.api.outside import file_digest
from peira.api.results import results_of
from peira.api.stores import StoreLike, incarnation, locate, owned, reading
from peira.api.taken import Taken, taken
from peira.api.telling import Told
from peira.core.clock import SystemClock
from peira.core.contracts import RunQuery
from peira.core.events import Failure, State
from peira.core.ids import digest_bytes, normalise, short
from peira.engine.pending import Item, Pending, check_stage
from peira.engine.progress import LEFT
from peira.engine.recording import (
    Circumstances,
    Incoming,
    Origin,
    Recorder,
    failed,
    former,
    grouped,
    standing,
    succeeded,
)
from peira.engine.work import EVALUATE
from peira.errors import Invalid
from peira.evaluators.scores import score_value
from peira.plan.bundle import Answer, Header, Line, lines, read_answer, read_footer, read_header
from peira.plan.manifest import read
from peira.spec.modules import refuse_while_loading
from peira.spec.project import Project
from peira.spec.rows import Problems

EVERY = 1_000_000


def bundle_import(answers: str | Path, *, store: StoreLike = None, progress: bool | None = None) -> Taken:
    """Take in the answers to a bundle that was exported from this store.

    Every digest is checked. A line that was altered, that answers no item of the plan, or that answers
    another work than the item is now, is refused, and the others are taken. What has a result keeps it, and
    what is taken in again changes nothing. An answer that says an error is recorded as a failure."""
    refuse_while_loading()
    project, path = Project.find(), Path(answers)
    where, problems = locate(store, project), Problems()
    with opened_file(path) as file:
        header, _ = read_header(file, path.name)
        check_stage(header.stage)
        with reading(where, project) as seen:
            _known(header, seen, path.name)
        origin = Origin(f"bundle {path.name}", file_digest(path))
        with owned(where, project) as opened, Told(header.study, progress, project) as told:
            pending = Pending(read(header.manifest, opened.get), opened, header.stage)
            taking = _Taking(header, path.name, pending, origin, problems)
            recorder = taking.take(file, opened, told)
            results = results_of(where, opened, recorder.run or _former(header, opened))
    return taken(results, header.stage, recorder, problems, origin)


def _known(header: Header, store: Any, name: str) -> None:
    runs = store.runs(RunQuery(study=header.study, limit=EVERY))
    if not any(run.manifest == header.manifest for run in runs):
        raise Invalid(
            f"{name}: answers a bundle of another store: there is no run of {header.study} with the plan "
            f"{short(header.manifest)} here"
        )


def _former(header: Header, store: Any) -> str:
    """The newest run of the plan: the last that came to its end, or at least began."""
    runs = store.runs(RunQuery(study=header.study, limit=EVERY))
    newest = [run.id for run in runs if run.manifest == header.manifest]
    return former(store, header.study, header.manifest) or newest[0]


@dataclass(frozen=True)
class _Taking:
    """The answers of one file, on their way into a store."""

    header: Header
    name: str
    pending: Pending
    origin: Origin
    problems: Problems

    def take(self, file: BinaryIO, store: Any, told: Told) -> Recorder:
        stage, layout = self.header.stage, self.pending.layout
        recorder = Recorder(
            store,
            self.header.manifest,
            len(layout),
            stage,
            stage,
            incarnation(store),
            self.origin,
            SystemClock().now,
            self.problems.add,
        )
        for group in grouped(self._incoming(self._answers(file))):
            recorder.take(group)
            told(recorder.ended.total() + recorder.same, recorder.same, recorder.ended[State.failed])
        if recorder.run:
            left = sum(1 for _ in self.pending.items()) if stage == EVALUATE else 0
            others = standing(read(self.header.manifest, store.get), store, recorder.run)
            recorder.finish({**others, f"{EVALUATE}.{LEFT}": left})
        return recorder

    def _answers(self, file: BinaryIO) -> Iterator[tuple[int, Answer]]:
        for line in lines(file, 2):
            if not isinstance(line, Line):
                self.problems.add(self.name, *line)
            elif read_footer(line) is None:
                try:
                    yield line.number, read_answer(line)
                except Invalid as error:
                    self.problems.add(self.name, line.number, str(error))

    def _incoming(self, answers: Iterator[tuple[int, Answer]]) -> Iterator[Incoming]:
        """Each answer as its item's result; the foreign ones, and those to other work, are refused."""
        while chunk := list(islice(answers, CHUNK)):
            items = self.pending.known([(answer.n, answer.id) for _, answer in chunk])
            for number, answer in chunk:
                try:
                    yield self._result(number, answer, items.get((answer.n, answer.id)))
                except Invalid as error:
                    self.problems.add(self.name, number, str(error))

    def _result(self, number: int, answer: Answer, item: Item | None) -> Incoming:
        if item is None:
            raise Invalid(f"answers {short(answer.id)}, which is no item of this plan")
        if digest_bytes(self.pending.document(item)) != answer.item:
            raise Invalid(f"answers {short(answer.id)} with the digest of another item")
        where, told = (
            (self.name, number),
            Circumstances(self.origin, answer.took, answer.metrics, answer.about),
        )
        if answer.error is not None:
            said = answer.error
            failure = Failure("Bundle", said) if isinstance(said, str) else said
            return failed(where, item.id, failure, told)
        value = normalise(answer.output, "output")
        return succeeded(where, item.id, score_value(value) if self.header.stage == EVALUATE else value, told)
