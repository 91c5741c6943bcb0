"""Taking in the answers to a bundle: each is checked, and recorded as the result of its item."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO

from peira.analysis.results import Results
from peira.api.bundles import CHUNK, opened_file
from peira.api.look import results_of
from peira.api.outside import file_digest
from peira.api.stores import StoreLike, incarnation, locate, owned, reading
from peira.api.telling import Told
from peira.core.clock import SystemClock
from peira.core.contracts import RunQuery
from peira.core.events import Failure, State
from peira.core.ids import normalise, short
from peira.engine.pending import Item, Pending, check_stage
from peira.engine.recording import Incoming, Recorder, failed, former, grouped, standing, succeeded
from peira.engine.work import EVALUATE
from peira.errors import Invalid
from peira.evaluators.scores import score_value
from peira.plan.bundle import Answer, Header, Line, lines, read_answer, read_footer, read_header, sealed
from peira.plan.manifest import read
from peira.spec.modules import refuse_while_loading
from peira.spec.project import Project
from peira.spec.rows import Problems

EVERY = 1_000_000


@dataclass(frozen=True)
class Taken:
    """What came of taking answers in. `recorded` and `failed` are new, `same` were there already; what was
    `refused` is told line by line, the first of it."""

    results: Results
    stage: str
    recorded: int
    failed: int
    same: int
    refused: int
    problems: tuple[str, ...]
    origin: str


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
        origin = f"bundle {path.name} (sha256 {short(file_digest(path))})"
        with owned(where, project) as opened, Told(header.study, progress, project) as told:
            recorder, results = _take(header, file, path.name, opened, where, origin, problems, told)
    ended = recorder.ended
    return Taken(
        results,
        header.stage,
        ended[State.succeeded],
        ended[State.failed],
        recorder.same,
        problems.count,
        tuple(problems.lines()),
        origin,
    )


def _known(header: Header, store: Any, name: str) -> None:
    runs = store.runs(RunQuery(study=header.study, limit=EVERY))
    if not any(run.manifest == header.manifest for run in runs):
        raise Invalid(
            f"{name}: answers a bundle of another store: there is no run of {header.study} with the plan "
            f"{short(header.manifest)} here"
        )


def _take(
    header: Header,
    file: BinaryIO,
    name: str,
    store: Any,
    where: Any,
    origin: str,
    problems: Problems,
    told: Told,
) -> tuple[Recorder, Results]:
    of = read(header.manifest, store.get)
    pending = Pending(of, store, header.stage)
    recorder = Recorder(
        store,
        header.manifest,
        len(pending.layout),
        header.stage,
        header.stage,
        incarnation(store),
        origin,
        SystemClock().now,
        problems.add,
    )
    for group in grouped(
        _incoming(_answers(file, name, problems), pending, header.stage, name, origin, problems)
    ):
        recorder.take(group)
        told(recorder.ended.total() + recorder.same, recorder.same, recorder.ended[State.failed])
    if recorder.run:
        left = sum(1 for _ in pending.items()) if header.stage == EVALUATE else 0
        recorder.finish({**standing(of, store, recorder.run), f"{EVALUATE}.left": left})
    run = recorder.run or former(store, header.study, header.manifest) or recorder.begin()
    return recorder, results_of(where, store, run)


def _answers(file: BinaryIO, name: str, problems: Problems) -> Iterator[tuple[int, Answer]]:
    for line in lines(file, 2):
        if not isinstance(line, Line):
            problems.add(name, *line)
        elif read_footer(line) is None:
            try:
                yield line.number, read_answer(line)
            except Invalid as error:
                problems.add(name, line.number, str(error))


def _incoming(
    answers: Iterator[tuple[int, Answer]],
    pending: Pending,
    stage: str,
    name: str,
    origin: str,
    problems: Problems,
) -> Iterator[Incoming]:
    """Each answer as the result of its item's task; the foreign ones, and those to other work, are
    refused."""
    while chunk := list(islice(answers, CHUNK)):
        items = pending.known([(answer.n, answer.id) for _, answer in chunk])
        for number, answer in chunk:
            try:
                item = items.get((answer.n, answer.id))
                yield _result((name, number), answer, item, pending, stage, origin)
            except Invalid as error:
                problems.add(name, number, str(error))


def _result(
    where: tuple[str, int], answer: Answer, item: Item | None, pending: Pending, stage: str, origin: str
) -> Incoming:
    if item is None:
        raise Invalid(f"answers {short(answer.id)}, which is no item of this plan")
    if sealed(pending.document(item))[:64].decode() != answer.item:
        raise Invalid(f"answers {short(answer.id)} with the digest of another item")
    if answer.error is not None:
        said = answer.error
        failure = Failure("Bundle", said) if isinstance(said, str) else said
        return failed(where, item.id, failure, origin, answer.took, answer.metrics, answer.about)
    value = normalise(answer.output, "output")
    value = score_value(value) if stage == EVALUATE else value
    return succeeded(where, item.id, value, origin, answer.took, answer.metrics, answer.about)
