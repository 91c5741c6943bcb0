"""`import_outputs`: existing outputs become trials, of a given study or of a study made from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from peira.app.imports.intake import ImportProgress, ImportResult, ImportSource, import_result, sources_of
from peira.app.imports.study import Survey
from peira.app.run import RunOptions, execute
from peira.app.session import Session, SessionLike
from peira.app.store.results import results_of
from peira.app.studies import StudyLike, plan_of
from peira.core.clock import SystemClock
from peira.core.log.events import Failure, State
from peira.data.outputs import RecordedOutput, Source
from peira.data.outputs.record import ABSENT
from peira.engine.imports import (
    ENDED,
    Circumstances,
    ImportOrigin,
    Incoming,
    Recorder,
    failed,
    grouped,
    newest_ended_run,
    standing,
    succeeded,
)
from peira.engine.stages import EVALUATE, GENERATE, TRANSFORM
from peira.errors import Invalid
from peira.plan.expansion import Plan
from peira.plan.manifest import keep, read
from peira.plan.trial_lookup import TrialLookup
from peira.spec.data_files import Problems, read_cases
from peira.spec.modules import refuse_while_loading

MOST_MESSAGE = 2000
Named = Callable[[RecordedOutput], str | None]
"""A function from an output to the id of its case."""


def import_outputs(
    source: Source | Sequence[Source],
    study: StudyLike | None = None,
    *,
    cases: str | Path | None = None,
    transform: Any = None,
    evaluators: Sequence[Any] = (),
    name: str = "",
    fields: Mapping[str, str] | None = None,
    factors: Sequence[str] | None = None,
    store: SessionLike = None,
    progress: bool | None = None,
) -> ImportResult:
    """Import outputs that were produced elsewhere.

    Sources are rows, or files of them (JSONL, CSV, Parquet), logs of Inspect (`.eval`), and sample files of
    the LM evaluation harness (`samples_*.jsonl`).

    With a `study`, each output becomes the result of the trial with its case, factors and repeat. Without
    one, the outputs make a study of their own, called `name`, with this `transform` and these `evaluators`;
    its cases are those of the outputs, or of a file of `cases`. Nothing that is recorded is overwritten;
    importing again is idempotent. An output that matches no trial, or several, is refused, and the others are
    recorded.

    `fields` maps meanings to columns (`{"output": "answer.text"}`); `factors` are the columns that are
    factors, by default all without another meaning.
    """
    refuse_while_loading()
    wanted = ImportSource(sources_of(source), dict(fields or {}), factors)
    session = Session.find(store)
    session.project.load_plugins()
    if study is None:
        return _as_study(wanted, cases, transform, evaluators, name, session, progress)
    own = {"cases": cases, "name": name, "transform": transform, "evaluators": evaluators}
    problems = [f"{what}: a study has its own" for what, value in own.items() if value]
    if problems:
        raise Invalid(problems)
    with session.reading_if_any() as opened:
        plan = plan_of(study, opened, session.project, agents=False)
    return _import(wanted, plan, lambda one: one.case, session, progress)


def _as_study(
    wanted: ImportSource,
    cases: str | Path | None,
    transform: Any,
    evaluators: Sequence[Any],
    name: str,
    session: Session,
    progress: bool | None,
) -> ImportResult:
    """Import outputs as a study of their own, and score them."""
    survey = Survey(Problems())
    survey.take(wanted.outputs(survey.problems), cases=cases is None)
    given = None if cases is None else read_cases(Path(cases))
    data = {"imported": wanted.origin.what, "sha256": wanted.origin.digest}
    study = survey.study(name or survey.task or _name(wanted.sources[0]), given, transform, evaluators, data)
    with session.reading_if_any() as opened:
        plan = plan_of(study, opened, session.project)
    named = (lambda one: one.case) if cases is not None else survey.case_name
    done = _import(wanted, plan, named, session, progress)
    if not (evaluators or transform) or _judged(done, session):
        return done
    options = RunOptions(store=session, stages=(TRANSFORM, EVALUATE), progress=progress)
    return replace(done, results=execute(plan, options).results)


def _name(source: Source) -> str:
    """The default name of the study: that of the file, or "recorded"."""
    return Path(source).stem if isinstance(source, str | Path) else "recorded"


def _judged(done: ImportResult, session: Session) -> bool:
    """Whether nothing is new, and everything was scored before."""
    if done.recorded or done.failed:
        return False
    with session.reading() as store:
        run = store.find("run", [done.results.run_id])[done.results.run_id]
        return run.status in ENDED and any(
            key.startswith((f"{TRANSFORM}.", f"{EVALUATE}.")) for key in run.counts
        )


def _import(
    wanted: ImportSource, plan: Plan, named: Named, session: Session, progress: bool | None
) -> ImportResult:
    """Record the outputs as results of the plan's trials, as a run."""
    problems, origin = Problems(), wanted.origin
    matched = _matched(wanted.outputs(problems), plan, named, origin, problems)
    chunks = grouped(matched)
    first = next(chunks, None)  # before the store is opened: if everything is refused, none is created
    if first is None:
        problems.refuse()
        raise Invalid("there are no outputs")
    with session.owned() as store:
        manifest = keep(plan, store.put)
        recorder = Recorder(
            store,
            manifest,
            len(plan),
            GENERATE,
            GENERATE,
            store.incarnation,
            origin,
            SystemClock().now,
            problems.add,
        )
        with ImportProgress(plan.study.name, progress, session.project) as report:
            for chunk in chain([first], chunks):
                recorder.take(chunk)
                report(recorder.ended.total() + recorder.same, recorder.same, recorder.ended[State.failed])
        run = recorder.run or newest_ended_run(store, plan.study.name, manifest) or recorder.begin()
        if recorder.run:
            recorder.finish(standing(read(manifest, store.get), store, run))
        results = results_of(session, store, run)
    return import_result(results, GENERATE, recorder, problems, origin)


def _matched(
    outputs: Iterator[RecordedOutput], plan: Plan, named: Named, origin: ImportOrigin, problems: Problems
) -> Iterator[Incoming]:
    """Each output as the result of its trial; those without a trial are refused."""
    matching, layout = TrialLookup(plan.layout), plan.layout
    chosen = None if layout.chosen is None else {layout.trial_id(place) for place in layout.places()}
    met: Counter[str] = Counter()
    for one in outputs:
        try:
            conditions = matching.conditions(one.agent, one.condition, one.facts, one.written)
            known = one.input is not ABSENT
            place = matching.place(conditions, named(one), one.input if known else None, known)
            repeat = one.repeat
            if repeat is None:
                first = layout.trial_id(place)
                repeat, met[first] = met[first], met[first] + 1
            trial = layout.trial_id(matching.repeated(place, repeat))
            if chosen is not None and trial not in chosen:
                raise Invalid("its trial is not in the part of the study that the budget leaves")
        except Invalid as error:
            for problem in error.problems:
                problems.add(one.file, one.number, problem)
        else:
            yield _incoming(one, trial, origin)


def _incoming(one: RecordedOutput, trial: str, origin: ImportOrigin) -> Incoming:
    """An output as the result of this trial."""
    where, circumstances = (one.file, one.number), Circumstances(origin, one.took, one.metrics)
    if one.output is ABSENT:
        return failed(where, trial, Failure("Recorded", one.error[:MOST_MESSAGE]), circumstances)
    return succeeded(where, trial, one.output, circumstances)
