"""The commands that run and score studies."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from peira.api.batching import open_batches
from peira.api.rescoring import judged_by
from peira.api.running import Begun, Outcome, Wishes, execute
from peira.api.stores import exists, locate
from peira.cli import detach, ending, errors
from peira.cli.benchmarks import Data, Model, Variant, meant
from peira.cli.next import command
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
from peira.cli.otherwise import Evaluator, Named, Transform, otherwise
from peira.cli.output import Output, note
from peira.core.ids import short
from peira.core.registry import nearest
from peira.core.words import counted
from peira.engine.execution import Execution
from peira.engine.work import EVALUATE, STAGES, TRANSFORM
from peira.errors import Invalid, Unknown
from peira.spec.limits import Policy
from peira.spec.project import Project


def run(
    ctx: typer.Context,
    study: StudyName,
    model: Model = None,
    variant: Variant = None,
    data: Data = None,
    parallel: Parallel = None,
    runner: Annotated[
        str | None, typer.Option("--runner", metavar="NAME", help="local (threads or asyncio) or process.")
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

    \b
    Examples:
      peira run capitals.py --parallel 8
      peira run capitals.py --where model=small --limit 20
      peira run harder.py --from 3f2a91 --where "score.match < 1"
      peira run capitals.py --detach
      peira run gsm8k --model openai:gpt-5-mini --limit 20
      peira run 3f2a91 --no-retry-failed
    """
    out = Output(as_json)
    said: dict[str, Any] = {"retry_failed": retry_failed, "fail_fast": fail_fast or None, "timeout": timeout}
    wishes = Wishes(
        store=store,
        parallel=parallel,
        runner=runner,
        policy=Policy(**{name: value for name, value in said.items() if value is not None}),
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
    )
    asked = meant(study, store, model, variant, data)
    if detached:
        return detach.start(ctx.obj, store, out)
    begun = detach.announced(announce) if announce is not None else _started(progress)
    return _ended(execute(asked, wishes, begun), store, ctx.obj, out)


def score(
    ctx: typer.Context,
    study: StudyName,
    model: Model = None,
    variant: Variant = None,
    data: Data = None,
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
    out, project = Output(as_json), Project.find()
    if not exists(store, project):
        raise Unknown(f"there is nothing to score: no store at {locate(store, project)}")
    wishes = Wishes(
        store=store,
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
    asked = meant(study, store, model, variant, data)
    judged = judged_by(asked, *otherwise(evaluator, transform), store) if evaluator or transform else asked
    return _ended(execute(judged, wishes, _started(progress)), store, ctx.obj, out)


def _stages(only: str | None) -> tuple[str, ...]:
    if only is None:
        return STAGES
    if only not in STAGES:
        raise Invalid(f"stage: {only!r} is not known{nearest(only, STAGES)}")
    return (TRANSFORM, EVALUATE) if only == EVALUATE else (only,)


def _started(progress: bool | None) -> Begun | None:
    """Tell the run's id as soon as there is one, for whoever wants to watch or cancel it."""
    if progress is False:
        return None

    def begun(run: str, execution: Execution) -> None:
        trials = execution.source.size
        note(f"run {short(run)}" + (f", {counted(trials, 'trial')}" if trials is not None else ""))

    return begun


def _ended(outcome: Outcome, store: str | None, arguments: Any, out: Output) -> int:
    """Show what came of it, and how to go on; returns the exit code."""
    finished = outcome.finished
    out.document(ending.document(outcome))
    out.text(ending.text(outcome.results, finished.reason))
    if waiting := open_batches(store):
        calls = counted(sum(batch.calls for batch in waiting), "call")
        note(f"handed in and not answered yet: {calls}; `peira batch status` says where they stand")
    if finished.exit_code == 130:
        return errors.say([f"interrupted; to go on: {errors.again(arguments)}"], 130)
    counts, run = outcome.results.counts, outcome.results.run_id
    if counts.get("left") and finished.exit_code == 0:
        note(f"without an output yet: {counted(counts['left'], 'trial')}; `peira run` makes them")
    if any(n for state, n in counts.items() if "failed" in state or state == "kept"):
        note(f"failures: {command('show', run, store)} --failures")
    return finished.exit_code
