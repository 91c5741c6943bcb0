"""`bundle_work`: do the work in a bundle, on any machine with the code, without the study's store.

Results are kept in a store of their own beside the file of answers until everything is answered.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from peira.app.bundles.export import CHUNK, opened_file
from peira.app.models import by_model, models_of
from peira.app.run import WORKERS, local_runner
from peira.app.store.access import owned, store_folder
from peira.core.clock import SystemClock
from peira.core.codec import decode
from peira.core.contracts import Agent, Evaluator, Op, Runner
from peira.core.files import whole_file
from peira.core.ids import Json, compose, digest
from peira.core.log.events import Result, RunPlanned, RunStarted, State
from peira.core.log.state import Task
from peira.engine.context import CallSettings, RunContext
from peira.engine.execution import Execution
from peira.engine.run import RunDriver, RunEnd
from peira.engine.sources.bundle import BundleSource
from peira.engine.sources.pending_work import check_stage
from peira.engine.stages import GENERATE
from peira.errors import Invalid
from peira.plan.bundle import (
    BundleAnswer,
    BundleDigest,
    BundleHeader,
    BundleLine,
    lines,
    read_footer,
    read_header,
    written,
)
from peira.plan.expansion import evaluator_digest, live_agents
from peira.plan.manifest import EvaluatorPart
from peira.report.progress import display
from peira.spec.case import with_evaluators
from peira.spec.data_files import Problems
from peira.spec.limits import Budget, Policy
from peira.spec.modules import refuse_while_loading
from peira.spec.plugins import as_evaluator
from peira.spec.project import Project
from peira.spec.study import Study
from peira.spec.study_files import load


@dataclass(frozen=True)
class WorkedBundle:
    """The outcome: the file of answers, the bundle's items, the answers, and failures among them."""

    answers: Path
    items: int
    answered: int
    failed: int
    finished: RunEnd


def bundle_work(
    path: str | Path,
    answers: str | Path,
    *,
    study: Study | str | Path | None = None,
    parallel: int | None = None,
    progress: bool | None = None,
) -> WorkedBundle:
    """Do the work in a bundle, and write the answers to a file for `bundle_import`.

    The `study` (or its file) has the agents, which must be those that the bundle was made for; built-in
    evaluators need none. Its policy and budget apply. Called again, it continues with items without an
    answer, and retries failures.
    """
    refuse_while_loading()
    if parallel is not None and parallel < 1:
        raise Invalid(f"parallel: must be at least 1, not {parallel}")
    project, path, answers = Project.find(), Path(path), Path(answers)
    project.load_plugins()
    header, items = checked(path)
    live = None if study is None else project.apply(study if isinstance(study, Study) else load(study))
    agents, evaluators = _parts(header, live)
    source = BundleSource(header.stage, items, documents(path), agents, evaluators, bool(header.transform))
    scratch = _folder(answers)
    with owned(scratch / "work.db", project) as store:
        finished = _conduct(header, source, store, live, project, parallel, progress)
        answered, failures = _write(path, answers, store)
    if answered == items and not failures:
        shutil.rmtree(scratch, ignore_errors=True)
    return WorkedBundle(answers, items, answered, failures, finished)


def _folder(answers: Path) -> Path:
    """The folder of the intermediate store."""
    scratch = answers.with_name(f"{answers.name}.work")
    try:
        scratch.mkdir(exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot write {answers}: {error.strerror or error}") from None
    return scratch


def checked(path: Path) -> tuple[BundleHeader, int]:
    """The header of a bundle and the number of its items; Invalid, with every problem, if it was altered."""
    problems, seal, footer = Problems(), BundleDigest(), None
    with opened_file(path) as file:
        header, _ = read_header(file, path.name)
        check_stage(header.stage)
        for line in lines(file, 2):
            if not isinstance(line, BundleLine):
                problems.add(path.name, *line)
            elif (found := read_footer(line)) is not None:
                footer = found
            else:
                seal.add(line.digest)
    problems.refuse()
    if footer is None:
        raise Invalid(f"{path.name}: has no end; it was cut off")
    if footer != seal.footer:
        raise Invalid(f"{path.name}: does not hold the {footer.end:,} items that it was written with")
    return header, seal.count


def documents(path: Path) -> Iterator[bytes]:
    """The documents of all items."""
    return (line.document for line in _items(path))


def _items(path: Path) -> Iterator[BundleLine]:
    """The lines of a bundle's items, without header and footer."""
    with opened_file(path) as file:
        read_header(file, path.name)
        for line in lines(file, 2):
            if isinstance(line, BundleLine) and read_footer(line) is None:
                yield line


def _parts(header: BundleHeader, study: Study | None) -> tuple[Mapping[str, Agent], Mapping[str, Evaluator]]:
    """The agents or evaluators that the bundle needs."""
    if header.stage == GENERATE:
        if study is None:
            raise Invalid(f"study: say which has the agents of {header.study}; a bundle holds no code")
        return _agents(header, study), {}
    return {}, _evaluators(header, study)


def _agents(header: BundleHeader, study: Study) -> dict[str, Agent]:
    """The agents by label; Invalid if their code differs from that of the bundle."""
    live, problems = live_agents(study), []
    for label, known in header.agents.items():
        if label not in live:
            problems.append(f"agent {label}: {study.name} has none of that name")
        elif digest(live[label].identity) != known:
            problems.append(f"agent {label}: its code here is not the code that the bundle was made for")
    if problems:
        raise Invalid(problems)
    return {label: live[label] for label in header.agents}


def _evaluators(header: BundleHeader, study: Study | None) -> dict[str, Evaluator]:
    """The evaluators by digest, from the study or built in; Invalid if one is missing."""
    known = {} if study is None else {evaluator_digest(e): e for e in _declared(study)}
    known |= {
        d: made
        for d, part in header.evaluators.items()
        if (made := _made(part)) is not None and d not in known
    }
    lost = [part.name for d, part in header.evaluators.items() if d not in known]
    if lost:
        place = "its code here is not the same" if study else "say the study that has it"
        raise Invalid(f"evaluator {name}: {place}" for name in lost)
    return {d: known[d] for d in header.evaluators}


def _declared(study: Study) -> Iterator[Evaluator]:
    """All evaluators of a study, with those of its cases."""
    yield from study.resolved_evaluators()
    for cases in study.case_sets.values():
        for _, case in with_evaluators(cases):
            yield from case.resolved_evaluators()


def _made(part: EvaluatorPart) -> Evaluator | None:
    """The built-in evaluator with this name and configuration, if its digest is equal here."""
    config = part.identity.get("config") if isinstance(part.identity, Mapping) else None
    if not isinstance(config, Mapping):
        return None
    try:
        made = as_evaluator({"name": part.name, **config})
    except Invalid:
        return None
    return made if evaluator_digest(made) == part.digest else None


def _conduct(
    header: BundleHeader,
    source: BundleSource,
    store: Any,
    study: Study | None,
    project: Project,
    parallel: int | None,
    progress: bool | None,
) -> RunEnd:
    """Run the items to their end."""
    number, clock = store.incarnation, SystemClock()
    policy, budget = (Policy(), Budget()) if study is None else (study.policy, study.budget)
    run = compose("run", header.manifest, uuid.uuid4().hex)
    planned = RunPlanned(store.put(written(header)[65:-1]), header.study, source.size)
    store.commit([Op(run, (planned, RunStarted(str(number), number)))]).result()
    work_root = store_folder(store, "work")
    context = RunContext(run, str(number), store, policy, clock, work_root=work_root)
    calls = CallSettings(models=models_of(project), budget=by_model(project, budget))
    execution = Execution(context, source, calls)
    workers = parallel or project.parallel or WORKERS
    runners: dict[str, tuple[Runner, int]] = {
        cls: (local_runner(awaits), workers) for cls, awaits in source.classes
    }
    shown = False if progress is None and project.progress == "none" else progress
    with display(header.study, shown) as show:
        return RunDriver(execution, runners, on_progress=show, on_notice=show.notice).conduct()


def _write(path: Path, answers: Path, store: Any) -> tuple[int, int]:
    """Write an answer for every item that ended; returns the numbers of answers and of failures."""
    count = failures = 0
    with opened_file(path) as file:
        _, first = read_header(file, path.name)
    items = _items(path)
    with whole_file(answers) as out:
        out.write(first)
        while chunk := list(islice(items, CHUNK)):
            parsed = [(line, decode(line.document)) for line in chunk]
            rows: dict[str, Task] = store.find("task", [item["id"] for _, item in parsed])
            for line, item in parsed:
                answer = _answer(line, item, rows.get(item["id"]), store)
                if answer is not None:
                    count, failures = count + 1, failures + (answer.error is not None)
                    out.write(written(answer))
    return count, failures


def _answer(line: BundleLine, item: Mapping[str, Json], row: Task | None, store: Any) -> BundleAnswer | None:
    """The answer to an item; None if it has not ended."""
    if row is None or row.state not in (State.succeeded, State.failed):
        return None  # stopped, limited or in doubt: still to be done
    result: Result = row.result
    metrics = {name: value for name, value in result.metrics.items() if name != "spent"}
    facts: dict[str, Any] = {"took": result.took, "metrics": metrics, "about": result.about}
    if row.state is not State.succeeded:
        return BundleAnswer(
            item["n"], item["id"], line.digest, error=result.failure or row.state.value, **facts
        )
    output = decode(store.get(result.blob) if result.blob else bytes(result.output))
    return BundleAnswer(item["n"], item["id"], line.digest, output, **facts)
