"""Working off a bundle, on any machine that has the code: no store of the study's is needed.

What is done is kept in a store of the work's own beside the answers, so that a stopped one goes on where it
was, and no call is paid for twice. That is gone once every item has its answer.
"""

from __future__ import annotations

import shutil
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from peira.api.bundles import CHUNK, opened_file, whole_file
from peira.api.models import by_model, models_of
from peira.api.running import WORKERS
from peira.api.stores import beside, incarnation, owned
from peira.core.clock import SystemClock
from peira.core.codec import decode
from peira.core.contracts import Agent, Evaluator, Op, Runner
from peira.core.events import Result, RunPlanned, RunStarted, State
from peira.core.ids import Json, compose, digest
from peira.core.registry import registry
from peira.core.state import Task
from peira.engine.bundled import BundleSource
from peira.engine.conduct import Conductor, Finished
from peira.engine.execution import Execution
from peira.engine.pending import check_stage
from peira.engine.work import GENERATE
from peira.errors import Invalid
from peira.plan.bundle import Answer, Header, Line, Seal, lines, read_footer, read_header, written
from peira.plan.expand import evaluator_digest, live_agents
from peira.plan.manifest import EvaluatorPart
from peira.report.live import display
from peira.spec.evaluators import as_evaluator
from peira.spec.limits import Budget, Policy
from peira.spec.load import load
from peira.spec.modules import refuse_while_loading
from peira.spec.project import Project
from peira.spec.rows import Problems
from peira.spec.study import Study


@dataclass(frozen=True)
class Worked:
    """What came of working a bundle off: how many items it has, and how many of the answers are failures."""

    answers: Path
    items: int
    answered: int
    failed: int
    finished: Finished


def bundle_work(
    path: str | Path,
    answers: str | Path,
    *,
    study: Study | str | Path | None = None,
    parallel: int | None = None,
    progress: bool | None = None,
) -> Worked:
    """Work off a bundle, and write the answers to a file for `bundle_import`.

    The `study` (or its file) has the agents, which must be those that the bundle was made for; evaluators
    that come with peira need none. Its policy and its budget hold here. Run again, it goes on with what has
    no answer, and tries again what failed."""
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
    return Worked(answers, items, answered, failures, finished)


def _folder(answers: Path) -> Path:
    """Where what is done is kept until it is all answered."""
    scratch = answers.with_name(f"{answers.name}.work")
    try:
        scratch.mkdir(exist_ok=True)
    except OSError as error:
        raise Invalid(f"cannot write {answers}: {error.strerror or error}") from None
    return scratch


def checked(path: Path) -> tuple[Header, int]:
    """The header of a bundle and the number of its items; Invalid, with every problem, if it was altered."""
    problems, seal, footer = Problems(), Seal(), None
    with opened_file(path) as file:
        header, _ = read_header(file, path.name)
        check_stage(header.stage)
        for line in lines(file, 2):
            if not isinstance(line, Line):
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
    return (line.document for line in _items(path))


def _items(path: Path) -> Iterator[Line]:
    with opened_file(path) as file:
        read_header(file, path.name)
        for line in lines(file, 2):
            if isinstance(line, Line) and read_footer(line) is None:
                yield line


def _parts(header: Header, study: Study | None) -> tuple[Mapping[str, Agent], Mapping[str, Evaluator]]:
    if header.stage == GENERATE:
        if study is None:
            raise Invalid(f"study: say which has the agents of {header.study}; a bundle holds no code")
        return _agents(header, study), {}
    return {}, _evaluators(header, study)


def _agents(header: Header, study: Study) -> dict[str, Agent]:
    live, problems = live_agents(study), []
    for label, known in header.agents.items():
        if label not in live:
            problems.append(f"agent {label}: {study.name} has none of that name")
        elif digest(live[label].identity) != known:
            problems.append(f"agent {label}: its code here is not the code that the bundle was made for")
    if problems:
        raise Invalid(problems)
    return {label: live[label] for label in header.agents}


def _evaluators(header: Header, study: Study | None) -> dict[str, Evaluator]:
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
    yield from study.resolved_evaluators()
    for cases in study.case_sets.values():
        for case in cases:
            yield from case.resolved_evaluators()


def _made(part: EvaluatorPart) -> Evaluator | None:
    """The evaluator of that name and configuration, if it comes with peira and is the same here."""
    config = part.identity.get("config") if isinstance(part.identity, Mapping) else None
    if not isinstance(config, Mapping):
        return None
    try:
        made = as_evaluator({"name": part.name, **config})
    except Invalid:
        return None
    return made if evaluator_digest(made) == part.digest else None


def _conduct(
    header: Header,
    source: BundleSource,
    store: Any,
    study: Study | None,
    project: Project,
    parallel: int | None,
    progress: bool | None,
) -> Finished:
    number, clock = incarnation(store), SystemClock()
    policy, budget = (Policy(), Budget()) if study is None else (study.policy, study.budget)
    run = compose("run", header.manifest, uuid.uuid4().hex)
    planned = RunPlanned(store.put(written(header)[65:-1]), header.study, source.size)
    store.commit([Op(run, (planned, RunStarted(str(number), number)))]).result()
    work_root = beside(store, "work")
    execution = Execution(
        run,
        source,
        store,
        policy,
        owner=str(number),
        work_root=work_root,
        models=models_of(project),
        budget=by_model(project, budget),
        clock=clock,
    )
    workers = parallel or project.parallel or WORKERS
    runners: dict[str, tuple[Runner, int]] = {
        cls: (registry.make("runner", "loop" if awaits else "threads"), workers)
        for cls, awaits in source.classes
    }
    shown = False if progress is None and project.progress == "none" else progress
    with display(header.study, shown) as show:
        conductor = Conductor(
            execution, runners, time_limit=budget.time, on_progress=show, on_notice=show.notice
        )
        return conductor.conduct()


def _write(path: Path, answers: Path, store: Any) -> tuple[int, int]:
    """Write an answer for every item that came to an end; how many there are, and how many are failures."""
    count = failures = 0
    with opened_file(path) as file:
        _, first = read_header(file, path.name)
    items = _items(path)
    with whole_file(answers) as out:
        out.write(first)
        while chunk := list(islice(items, CHUNK)):
            asked = [(line, decode(line.document)) for line in chunk]
            rows: dict[str, Task] = store.find("task", [item["id"] for _, item in asked])
            for line, item in asked:
                answer = _answer(line, item, rows.get(item["id"]), store)
                if answer is not None:
                    count, failures = count + 1, failures + (answer.error is not None)
                    out.write(written(answer))
    return count, failures


def _answer(line: Line, item: Mapping[str, Json], row: Task | None, store: Any) -> Answer | None:
    if row is None or row.state not in (State.succeeded, State.failed):
        return None  # what a limit, a stop or a doubt kept from its end is work still to be done
    result: Result = row.result
    metrics = {name: value for name, value in result.metrics.items() if name != "spent"}
    told: dict[str, Any] = {"took": result.took, "metrics": metrics, "about": result.about}
    if row.state is not State.succeeded:
        return Answer(item["n"], item["id"], line.digest, error=result.failure or row.state.value, **told)
    output = decode(store.get(result.blob) if result.blob else bytes(result.output))
    return Answer(item["n"], item["id"], line.digest, output, **told)
