"""`import_outputs`: existing outputs become trials, of a given study or of a study made from them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, islice
from pathlib import Path
from typing import Any

from peira.app.imports.intake import ImportProgress, ImportResult, ImportSource, import_result, sources_of
from peira.app.imports.study import OutputPlace, Survey
from peira.app.run import RunOptions, execute
from peira.app.session import Session, SessionLike
from peira.app.store.listing import list_missing
from peira.app.store.results import results_of
from peira.app.studies import StudyLike, plan_of
from peira.core.clock import SystemClock
from peira.core.contracts import Store
from peira.core.ids import canonical, digest_bytes
from peira.core.log.events import Failure, Result, State
from peira.data.outputs import RecordedOutput, Source
from peira.data.outputs.record import ABSENT
from peira.engine.imports import (
    ENDED,
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
from peira.engine.stages import EVALUATE, GENERATE, TRANSFORM
from peira.errors import Invalid
from peira.evaluators.imported_scores import ImportedScore
from peira.plan.expansion import Plan
from peira.plan.manifest import keep, read
from peira.plan.score_ids import ScoreIds, output_digest
from peira.plan.trial_lookup import TrialLookup
from peira.plan.trials import Place
from peira.spec.data_files import Problems, read_cases
from peira.spec.modules import refuse_while_loading

MOST_MESSAGE, CHUNK = 2000, 500
Placing = Callable[[RecordedOutput], OutputPlace]
"""A function from an output to what finds its trial."""


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
    wide: Mapping[str, Sequence[str]] | None = None,
    store: SessionLike = None,
    progress: bool | None = None,
) -> ImportResult:
    """Import outputs that were produced elsewhere.

    Sources are rows, or files of them (JSONL, CSV, Parquet), logs of Inspect (`.eval`, `.json`), sample files
    of the LM evaluation harness (`samples_*.jsonl`), and results of promptfoo, DeepEval and OpenAI evals. The
    scores in such files are scores of the evaluators `imported(NAME)`, and the record of each output is
    attached to its trial.

    With a `study`, each output becomes the result of the trial with its case, factors and repeat. Without
    one, the outputs make a study of their own, called `name`, with this `transform` and these `evaluators`;
    its cases are those of the outputs, or of a file of `cases`. Nothing that is recorded is overwritten;
    importing again is idempotent. An output that matches no trial, or several, is refused, and the others are
    recorded.

    `fields` maps meanings to columns (`{"output": "answer.text"}`); `factors` are the columns that are
    factors, by default all without another meaning. `wide` is for tables with a column for each model
    (`{"model": ["gpt-5", "claude"]}`): the columns are levels of the factor, and their cells outputs.
    """
    refuse_while_loading()
    wanted = ImportSource(sources_of(source), dict(fields or {}), factors, dict(wide or {}))
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
    return _import(wanted, plan, _as_said, session, progress)


def _as_said(one: RecordedOutput) -> OutputPlace:
    """The place of an output, by what it says itself."""
    return OutputPlace(one.case, one.facts)


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
    done = _import(wanted, plan, _as_said if cases is not None else survey.place, session, progress)
    done = replace(done, offers=survey.offers)
    if not (evaluators or transform or done.unscored) or _judged(done, session):
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
    wanted: ImportSource, plan: Plan, placing: Placing, session: Session, progress: bool | None
) -> ImportResult:
    """Record the outputs as results of the plan's trials, and their scores, as a run."""
    problems, origin = Problems(), wanted.origin
    matched = _matched(wanted.outputs(problems), plan, placing, problems)
    chunks = grouped(_incoming(one, trial, origin) for one, _, trial in matched)
    first = next(chunks, None)  # before the store is opened: if everything is refused, none is created
    if first is None:
        problems.refuse()
        raise Invalid("there are no outputs")
    with session.owned() as store:
        manifest = keep(plan, store.put, store=store)
        known = (store.incarnation, origin, SystemClock().now, problems.add)
        recorder = Recorder(store, manifest, len(plan), GENERATE, GENERATE, *known)
        with ImportProgress(plan.study.name, progress, session.project) as report:
            for chunk in chain([first], chunks):
                recorder.take(chunk)
                report(recorder.ended.total() + recorder.same, recorder.same, recorder.ended[State.failed])
        scores = Recorder(store, manifest, len(plan), EVALUATE, EVALUATE, *known, run=recorder.run)
        importing = _ScoreImport(plan, store, origin)
        again = _matched(wanted.outputs(Problems()), plan, placing, Problems())
        for some in grouped(importing.incoming(again)):
            scores.take(some)
        recorder.run = recorder.run or scores.run
        run = recorder.run or newest_ended_run(store, plan.study.name, manifest) or recorder.begin()
        if recorder.run:
            counts = {f"{EVALUATE}.{state}": n for state, n in scores.ended.items()}
            recorder.finish({**standing(read(manifest, store.get), store, run), **counts})
        list_missing(store)
        results = results_of(session, store, run)
    done = import_result(results, GENERATE, recorder, problems, origin)
    return replace(done, scores=scores.ended.total(), unscored=importing.missing)


class _ScoreImport:
    """The scores that came with outputs, as results of the plan's `imported` evaluators."""

    def __init__(self, plan: Plan, store: Store, origin: ImportOrigin) -> None:
        self._store, self._origin = store, origin
        self._names = {
            digest: evaluator.name
            for digest, evaluator in plan.evaluators.items()
            if isinstance(evaluator, ImportedScore)
        }
        takes = {digest: evaluator.takes for digest, evaluator in plan.evaluators.items()}
        self._ids = ScoreIds(plan.common, takes)
        self.missing = 0
        """How many scores of imported outputs did not come with them."""

    def incoming(self, matched: Iterator[tuple[RecordedOutput, Place, str]]) -> Iterator[ImportedResult]:
        """The scores of outputs whose own result is recorded."""
        while self._names and (some := list(islice(matched, CHUNK))):
            rows = self._store.find("task", [trial for _, _, trial in some])
            for one, place, trial in some:
                row = rows.get(trial)
                if row is None or row.state is not State.succeeded or one.output is ABSENT:
                    continue
                if output_digest(row.result) == digest_bytes(canonical(one.output)):
                    yield from self._scores(one, place, trial, row.result)

    def _scores(
        self, one: RecordedOutput, place: Place, trial: str, result: Result
    ) -> Iterator[ImportedResult]:
        for evaluator, score in self._ids.scores(place, trial, result, result):
            if evaluator not in self._names:
                continue
            if (name := self._names[evaluator]) in one.scores:
                where, circumstances = (one.file, one.number), ImportDetails(self._origin)
                yield succeeded(where, score, one.scores[name], circumstances)
            else:
                self.missing += 1


def _matched(
    outputs: Iterator[RecordedOutput], plan: Plan, placing: Placing, problems: Problems
) -> Iterator[tuple[RecordedOutput, Place, str]]:
    """Each output with its place and trial; those without a trial are refused."""
    matching, layout = TrialLookup(plan.layout), plan.layout
    chosen = None if layout.chosen is None else {layout.trial_id(place) for place in layout.places()}
    met: Counter[str] = Counter()
    for one in outputs:
        try:
            case, facts = placing(one)
            conditions = matching.conditions(one.agent, one.condition, facts, one.written)
            known = one.input is not ABSENT
            place = matching.place(conditions, case, one.input if known else None, known)
            repeat = one.repeat
            if repeat is None:
                first = layout.trial_id(place)
                repeat, met[first] = met[first], met[first] + 1
            place = matching.repeated(place, repeat)
            trial = layout.trial_id(place)
            if chosen is not None and trial not in chosen:
                raise Invalid("its trial is not in the part of the study that the budget leaves")
        except Invalid as error:
            for problem in error.problems:
                problems.add(one.file, one.number, problem)
        else:
            yield one, place, trial


def _incoming(one: RecordedOutput, trial: str, origin: ImportOrigin) -> ImportedResult:
    """An output as the result of this trial."""
    where = (one.file, one.number)
    circumstances = ImportDetails(origin, one.took, one.metrics, one.about, one.attached)
    if one.output is ABSENT:
        failure = Failure("Recorded", one.error[:MOST_MESSAGE], one.trace)
        return failed(where, trial, failure, circumstances)
    return succeeded(where, trial, one.output, circumstances)
