"""`peira run` and `peira score`."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from msgspec.structs import replace

import peira.app as app
from peira.app.run import BegunRun, OnBegin, RunOptions, RunOutcome, execute
from peira.app.session import Session
from peira.app.studies import StudyLike, judged_by
from peira.cli import background_run, errors, run_summary
from peira.cli.options import (
    Fresh,
    From,
    Json,
    Limit,
    Log,
    Parallel,
    Progress,
    RetryFailed,
    Store,
    StudyName,
    Unconfined,
    Wait,
    Where,
    restricted,
)
from peira.cli.output import CommandOutput, fitted, note, program
from peira.cli.run_summary import limits_in, next_command
from peira.cli.study_options import (
    AgentCommand,
    Evaluator,
    Named,
    StudyOptions,
    Transform,
    evaluators_and_transform,
    study_argument,
    with_agent_command,
)
from peira.core.ids import short
from peira.core.log.events import Status
from peira.core.registry import nearest
from peira.core.text.words import counted
from peira.engine.kinds import BATCH
from peira.engine.run import RunEnd
from peira.engine.stages import EVALUATE, STAGES, TRANSFORM
from peira.errors import Invalid, OverBudget, Unknown
from peira.results.reasons import failure_reasons, reason_lines
from peira.results.trials import FAILED
from peira.spec.limits import Policy


def run(
    ctx: typer.Context,
    study: StudyName,
    asked: StudyOptions,
    parallel: Parallel = None,
    runner: Annotated[
        str | None,
        typer.Option(
            "--runner", metavar="NAME", help="local (threads or asyncio), process, ray, or a plug-in's."
        ),
    ] = None,
    where: Where = None,
    earlier: From = None,
    limit: Limit = None,
    retry_failed: RetryFailed = None,
    fresh: Fresh = False,
    stage: Annotated[
        str | None,
        typer.Option("--stage", metavar="STAGE", help="Only this stage: generate, transform or evaluate."),
    ] = None,
    fail_fast: Annotated[bool, typer.Option("--fail-fast", help="Stop at the first failure.")] = False,
    timeout: Annotated[
        str | None, typer.Option("--timeout", metavar="TIME", help="Most that an attempt may take: 90s, 5m.")
    ] = None,
    detached: Annotated[
        bool, typer.Option("--detach", help="Leave it running without this terminal, and return.")
    ] = False,
    batch: Annotated[
        bool, typer.Option("--batch", help="Hand calls in as batches: answered later, for half the price.")
    ] = False,
    whole: Annotated[
        bool, typer.Option("--whole", help="Run the whole plan, whatever its stopping rule says.")
    ] = False,
    name: Annotated[
        str, typer.Option("--name", metavar="NAME", help="A name for this run, to find it again by.")
    ] = "",
    tag: Annotated[
        list[str] | None, typer.Option("--tag", metavar="TAG", help="A tag of this run; may be repeated.")
    ] = None,
    agent_command: AgentCommand = None,
    wait_for_people: Annotated[
        bool,
        typer.Option("--wait-for-people", help="Stay while trials wait for people, and go on with answers."),
    ] = False,
    workers: Annotated[
        int | None,
        typer.Option(
            "--workers",
            metavar="N",
            help="Execute it with N processes here; more may join from anywhere. 0: only submit it.",
        ),
    ] = None,
    unconfined: Unconfined = False,
    wait: Wait = False,
    log: Log = None,
    store: Store = None,
    as_json: Json = False,
    progress: Progress = None,
    announce: Annotated[int | None, typer.Option(hidden=True)] = None,
) -> int:
    """Run a study, or go on with it: what is recorded is not done again.

    One Ctrl-C lets running trials finish, a second cancels them; nothing recorded is lost, and the same
    command goes on. A run's id runs that run's own plan again, even if its files have changed or gone.
    From another terminal `peira pause`, `resume` and `cancel` control it, and `peira adjust` raises
    --parallel or its budget while it goes on.

    \b
    Examples:
      peira run capitals.py --parallel 8
      peira run capitals.py --where model=small --limit 20
      peira run harder.py --from 3f2a91 --where "score.match < 1"
      peira run capitals.py --detach
      peira run capitals.py --name gpt5-first --tag paper
      peira run gsm8k --model openai:gpt-5-mini --limit 20
      peira run capitals.py --agent-command "claude -p {input}"
      peira run 3f2a91 --no-retry-failed
      peira run capitals.py --workers 4 --store postgresql://me@host/db
    """
    out = CommandOutput(as_json)
    overrides: dict[str, Any] = {
        "retry_failed": retry_failed,
        "fail_fast": fail_fast or None,
        "timeout": timeout,
    }
    options = RunOptions(
        parallel=parallel,
        runner=runner,
        policy=Policy(**{name: value for name, value in overrides.items() if value is not None}),
        where=restricted(where),
        limit=limit,
        fresh=fresh,
        earlier=earlier,
        progress=progress,
        wait=None if wait else 0.0,
        log=log,
        batch=batch,
        whole=whole,
        stages=_stages(stage),
        name=name,
        tags=tuple(tag or ()),
        wait_for_people=wait_for_people,
        workers=workers,
    )
    with Session.find(store, study) as session:
        store = session.store_option(store)
        study_or_id = with_agent_command(study_argument(study, session, asked), agent_command)
        if workers == 0:
            from peira.cli.commands.control.worker import submitted  # opens all that workers need

            return submitted(study_or_id, options, session, store, out)
        if detached:
            return background_run.start(ctx.obj, session.store, store, out)
        begun = background_run.announced(announce) if announce is not None else _announce(progress)
        outcome = execute(study_or_id, replace(options, store=session), begun)
        return _summarise(outcome, session, store, ctx.obj, out)


def score(
    ctx: typer.Context,
    study: StudyName,
    asked: StudyOptions,
    parallel: Parallel = None,
    where: Where = None,
    limit: Limit = None,
    evaluator: Evaluator = None,
    transform: Transform = None,
    name: Named = "",
    retry_failed: RetryFailed = None,
    unconfined: Unconfined = False,
    wait: Wait = False,
    log: Log = None,
    store: Store = None,
    as_json: Json = False,
    progress: Progress = None,
) -> int:
    """Judge the outputs there are; never calls the agent.

    A new evaluator, another transform or a corrected reference judges what is stored; scores that are up to
    date are kept. With --evaluator or --transform stored work is judged otherwise than the study says, and
    both evaluations are kept: give it a name to look at it again, as RUN@NAME.

    \b
    Examples:
      peira score capitals.py
      peira score 3f2a91 --evaluator includes --as lenient
      peira score 3f2a91 --transform last_number --evaluator judges.py:near
      peira show 3f2a91@lenient
    """
    out = CommandOutput(as_json)
    options = RunOptions(
        parallel=parallel,
        policy={} if retry_failed is None else {"retry_failed": retry_failed},
        where=restricted(where),
        limit=limit,
        progress=progress,
        wait=None if wait else 0.0,
        log=log,
        stages=(TRANSFORM, EVALUATE),
        evaluation=name,
    )
    with Session.find(store, study) as session:
        store = session.store_option(store)
        if not session.exists:
            raise Unknown(f"there is nothing to score: no store at {session.store}")
        study_or_id = study_argument(study, session, asked)
        judged: StudyLike = study_or_id
        if evaluator or transform:
            judged = judged_by(study_or_id, *evaluators_and_transform(evaluator, transform), session)
        outcome = execute(judged, replace(options, store=session), _announce(progress))
        return _summarise(outcome, session, store, ctx.obj, out)


def _stages(only: str | None) -> tuple[str, ...]:
    """The stages to run; `evaluate` includes transform."""
    if only is None:
        return STAGES
    if only not in STAGES:
        raise Invalid(f"stage: {only!r} is not known{nearest(only, STAGES)}")
    return (TRANSFORM, EVALUATE) if only == EVALUATE else (only,)


def _announce(progress: bool | None) -> OnBegin | None:
    """A callback that prints the run's id once it is durable; None with --quiet."""
    if progress is False:
        return None

    def begun(run: BegunRun) -> None:
        trials = f", {counted(run.trials, 'trial')}" if run.trials is not None else ""
        note(f"run {short(run.run)}{trials}")

    return begun


def _nothing_to_score(outcome: RunOutcome, out: CommandOutput, session: Session) -> int:
    """1, and a line that says so, if only later stages were asked for and no trial has an output."""
    counts = outcome.results.counts
    planned, left = counts.get("planned", 0), counts.get("left", 0)
    if not planned or left < planned or outcome.finished.exit_code:
        return 0
    results = outcome.results
    account = app.account_of(session, results.run_id)
    document = run_summary.document(outcome, account, results.table())
    out.document({**document, "reason": "no trial has an output", "exit_code": 1})
    trials = counted(planned, "trial")
    return errors.say([f"nothing to score: none of {trials} has an output yet; `peira run` makes them"], 1)


def _has_open_batches(session: Session) -> bool:
    """Whether batches are not collected; what reads them is opened only if there are any."""
    with session.reading() as store:
        return bool(store.queued(BATCH)) or any(task.kind == BATCH for task in store.active())


def _summarise(
    outcome: RunOutcome, session: Session, store: str | None, arguments: Any, out: CommandOutput
) -> int:
    """Show the summary of a run, and how to go on; returns the exit code."""
    results, finished = outcome.results, outcome.finished
    if code := _nothing_to_score(outcome, out, session):
        return code
    account, table = app.account_of(session, results.run_id), results.table()
    counts, run = results.counts, results.run_id
    wrong = any(counts.get(state) for state in (*FAILED, "kept")) or any(
        "failed" in state for state in counts
    )
    reasons = failure_reasons(results.failures) if wrong else []
    out.document(run_summary.document(outcome, account, table, reasons))
    out.text(run_summary.text(results, account, table, finished.reason))
    if _has_open_batches(session):
        calls = counted(sum(batch.calls for batch in app.open_batches(session)), "call")
        note(f"handed in and not answered yet: {calls}; `peira batch status` says where they stand")
    for line in reason_lines(reasons):
        note(fitted(line))
    if any(reason.is_failure for reason in reasons):
        note(f"failures: {next_command('show', run, store)} --failures")
    if finished.exit_code == 130:
        return errors.say([f"interrupted; to go on: {errors.resume_command(arguments)}"], 130)
    if finished.status is Status.waiting:
        where = f" --store {shlex.quote(store)}" if store else ""
        then = errors.resume_command(arguments)
        note(f"{waiting_for_people(counts)}: {program()} inbox{where}; then: {then}")
    if finished.status in (Status.stopped, Status.cancelled):
        note(_go_on(finished, errors.resume_command(arguments), list(map(str, reasons))))
    if counts.get("left") and finished.exit_code == 0:
        note(f"without an output yet: {counted(counts['left'], 'trial')}; `peira run` makes them")
    return finished.exit_code


def waiting_for_people(counts: Mapping[str, int]) -> str:
    """What waits, in a few words."""
    scores = counts.get("scores waiting", 0)
    parts = [counted(counts.get("waiting", 0), "trial"), counted(scores, "score")]
    said = [part for part in parts if not part.startswith("0 ")]
    return f"{' and '.join(said)} waiting for people"


OWN_LIMIT = re.compile(r"exhausted: (agent|graph): ")
"""How a trial ended that reached a limit of its agent, and none of the study."""


def _go_on(finished: RunEnd, command: str, reasons: Sequence[str] = ()) -> str:
    """What to do next with a run that was stopped."""
    first = ""
    limited = [reason for reason in reasons if "exhausted: " in reason]
    if limited and all(map(OWN_LIMIT.search, limited)):
        return f"{finished.status}; to go on: raise the limits of the agent (most, visits), then {command}"
    if finished.exit_code == OverBudget.exit_code:
        first = f"raise {limits_in(finished.reason) or 'the budget'}, then "
    elif finished.status is Status.stopped:
        first = "mend what failed, then "
    return f"{finished.status}; to go on: {first}{command}"
