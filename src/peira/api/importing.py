"""Outputs that exist already, taken in as trials: onto a study, or as a study of their own."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

from peira.api.outside import Wanted, sources_of
from peira.api.recorded import Survey
from peira.api.results import results_of
from peira.api.running import Wishes, execute
from peira.api.stores import StoreLike, exists, incarnation, locate, owned, reading
from peira.api.studies import StudyLike, plan_of
from peira.api.taken import Taken, taken
from peira.api.telling import Told
from peira.core.clock import SystemClock
from peira.core.events import Failure, State
from peira.data.recorded import Recorded, Source
from peira.data.recorded.value import ABSENT
from peira.engine.recording import (
    ENDED,
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
from peira.engine.work import EVALUATE, GENERATE, TRANSFORM
from peira.errors import Invalid
from peira.plan.expand import Plan
from peira.plan.manifest import keep, read
from peira.plan.matching import Matching
from peira.spec.modules import refuse_while_loading
from peira.spec.project import Project
from peira.spec.rows import Problems
from peira.spec.tables import read_cases

MOST_MESSAGE = 2000
Named = Callable[[Recorded], str | None]


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
    store: StoreLike = None,
    progress: bool | None = None,
) -> Taken:
    """Take in outputs that were made elsewhere: rows, or files of them (JSONL, CSV, Parquet), logs of Inspect
    (`.eval`), sample files of the LM evaluation harness (`samples_*.jsonl`).

    Onto a `study`, each becomes the result of the trial with its case, its factors and its repeat. Without
    one they make a study of their own, called `name`, whose answers the `transform` finds and which is judged
    by the `evaluators`; its cases are theirs, or those of a file of `cases`. Nothing that is recorded is
    overwritten, and what is imported again changes nothing. An output that belongs to no trial, or to
    several, is refused, and the others are taken.

    `fields` say where a row has a column (`{"output": "answer.text"}`), `factors` which columns are factors:
    all that have no other meaning, unless they are named.
    """
    refuse_while_loading()
    wanted = Wanted(sources_of(source), dict(fields or {}), factors)
    project = Project.find()
    project.load_plugins()
    if study is None:
        return _as_study(wanted, cases, transform, evaluators, name, store, project, progress)
    own = {"cases": cases, "name": name, "transform": transform, "evaluators": evaluators}
    problems = [f"{what}: a study has its own" for what, said in own.items() if said]
    if problems:
        raise Invalid(problems)
    where = locate(store, project)
    with _planning(where, project) as opened:
        plan = plan_of(study, opened, project, agents=False)
    return _import(wanted, plan, lambda one: one.case, where, project, progress)


def _as_study(
    wanted: Wanted,
    cases: str | Path | None,
    transform: Any,
    evaluators: Sequence[Any],
    name: str,
    store: StoreLike,
    project: Project,
    progress: bool | None,
) -> Taken:
    survey = Survey(Problems())
    survey.take(wanted.outputs(survey.problems), cases=cases is None)
    given = None if cases is None else read_cases(Path(cases))
    data = {"imported": wanted.origin.what, "sha256": wanted.origin.digest}
    study = survey.study(name or survey.task or _name(wanted.sources[0]), given, transform, evaluators, data)
    where = locate(store, project)
    with _planning(where, project) as opened:
        plan = plan_of(study, opened, project)
    named = (lambda one: one.case) if cases is not None else survey.case_name
    done = _import(wanted, plan, named, where, project, progress)
    if not (evaluators or transform) or _judged(done, where, project):
        return done
    wishes = Wishes(store=where, stages=(TRANSFORM, EVALUATE), progress=progress)
    return replace(done, results=execute(plan, wishes).results)


def _name(source: Source) -> str:
    """What outputs are called after: their file, or what they are."""
    return Path(source).stem if isinstance(source, str | Path) else "recorded"


def _judged(done: Taken, where: Path | Any, project: Project) -> bool:
    """Whether nothing is new, and what there is was judged before."""
    if done.recorded or done.failed:
        return False
    with reading(where, project) as store:
        run = store.find("run", [done.results.run_id])[done.results.run_id]
        return run.status in ENDED and any(
            key.startswith((f"{TRANSFORM}.", f"{EVALUATE}.")) for key in run.counts
        )


@contextmanager
def _planning(where: Path | Any, project: Project) -> Iterator[Any]:
    """The store to plan against; None if there is none yet."""
    if not exists(where, project):
        yield None
        return
    with reading(where, project) as opened:
        yield opened


def _import(
    wanted: Wanted, plan: Plan, named: Named, where: Path | Any, project: Project, progress: bool | None
) -> Taken:
    problems, origin = Problems(), wanted.origin
    matched = _matched(wanted.outputs(problems), plan, named, origin, problems)
    chunks = grouped(matched)
    first = next(chunks, None)  # before there is a store: what is refused altogether makes none
    if first is None:
        problems.refuse()
        raise Invalid("there are no outputs")
    with owned(where, project) as store:
        manifest = keep(plan, store.put)
        recorder = Recorder(
            store,
            manifest,
            len(plan),
            GENERATE,
            GENERATE,
            incarnation(store),
            origin,
            SystemClock().now,
            problems.add,
        )
        with Told(plan.study.name, progress, project) as told:
            for chunk in chain([first], chunks):
                recorder.take(chunk)
                told(recorder.ended.total() + recorder.same, recorder.same, recorder.ended[State.failed])
        run = recorder.run or former(store, plan.study.name, manifest) or recorder.begin()
        if recorder.run:
            recorder.finish(standing(read(manifest, store.get), store, run))
        results = results_of(where, store, run)
    return taken(results, GENERATE, recorder, problems, origin)


def _matched(
    outputs: Iterator[Recorded], plan: Plan, named: Named, origin: Origin, problems: Problems
) -> Iterator[Incoming]:
    """Each output as the result of its trial; those that have none are refused."""
    matching, layout = Matching(plan.layout), plan.layout
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


def _incoming(one: Recorded, trial: str, origin: Origin) -> Incoming:
    where, told = (one.file, one.number), Circumstances(origin, one.took, one.metrics)
    if one.output is ABSENT:
        return failed(where, trial, Failure("Recorded", one.error[:MOST_MESSAGE]), told)
    return succeeded(where, trial, one.output, told)
