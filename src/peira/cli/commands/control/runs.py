"""`peira cancel`, `pause`, `resume` and `adjust`: control of runs from another process."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from peira.app.control import Cancellation, CancelledTrials, adjust_run, cancel_trials, pause_run, resume_run
from peira.app.control import cancel as stop
from peira.app.session import Session
from peira.cli import errors
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput
from peira.cli.render import run_document
from peira.cli.run_summary import next_command
from peira.core.clock import seconds
from peira.core.ids import short
from peira.core.log.state import Run
from peira.core.text.words import counted
from peira.errors import Invalid

OneRun = Annotated[str, typer.Argument(metavar="RUN", help="A run's name, or first digits of its id.")]


def cancel(
    run: OneRun,
    trials: Annotated[
        list[str] | None,
        typer.Argument(metavar="[TRIAL...]", help="Only these trials: first digits of their ids."),
    ] = None,
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Stop a run, wherever it is running, and say what was stopped.

    Running trials are ended too, and questions to people are void. What was recorded stays, and the run can
    be gone on with. With trials only those are cancelled, whether they are queued, waiting or running, and
    the run goes on. The exit code is 1 if everything that was named was over already.

    \b
    Examples:
      peira cancel 3f2a91
      peira cancel 3f2a91 a04c77 b1e9
    """
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        if trials:
            return _report_trials(cancel_trials(run, trials, session), out)
        found = stop(run, session)
    stopped = {"cancelled": found.done, "stopped_running": found.running, "never_started": found.unstarted}
    out.document({**run_document(found.run), **stopped})
    if not found.done:
        return errors.say([f"run {short(found.run.id)} was over already: {found.run.status}"], 1)
    out.text(_cancelled_text(found, store))
    return 0


def _cancelled_text(found: Cancellation, store: str | None) -> str:
    """What a cancellation stopped."""
    left = counted(found.unstarted, "trial")
    stopped = f"{found.running} running stopped, {left} not begun"
    return (
        f"run {short(found.run.id)} of {found.run.study} is cancelled: "
        f"{stopped if found.alive else f'its process had gone, {left} not begun'}\n"
        f"to go on with it: {next_command('run', found.run.id, store)}"
    )


def _report_trials(found: CancelledTrials, out: CommandOutput) -> int:
    """Say which trials were cancelled; returns the exit code."""
    over = {short(trial): state for trial, state in found.over.items()}
    out.document({"run": found.run, "cancelled": list(found.cancelled), "over": dict(found.over)})
    if found.cancelled:
        out.text(f"cancelled: {', '.join(map(short, found.cancelled))}")
    said = [f"trial {trial} was over already: {state}" for trial, state in over.items()]
    errors.say(said, 0)
    return int(not found.cancelled)


def pause(run: OneRun, store: Store = None, as_json: Json = False) -> int:
    """Let a run begin nothing more until it is resumed.

    What is running may finish. The exit code is 1 if no process executes the run.

    \b
    Examples:
      peira pause 3f2a91
      peira resume 3f2a91
    """
    with Session.find(store) as session:
        return _report(pause_run(run, session), CommandOutput(as_json), "begins nothing more", store)


def resume(run: OneRun, store: Store = None, as_json: Json = False) -> int:
    """Let a paused run go on.

    A run whose process has gone is gone on with by `peira run`. The exit code is 1 if no process executes it.

    \b
    Examples:
      peira resume 3f2a91
    """
    with Session.find(store) as session:
        return _report(resume_run(run, session), CommandOutput(as_json), "goes on", store)


def adjust(
    run: OneRun,
    parallel: Annotated[int, typer.Option("--parallel", "-p", metavar="N", help="Trials at once.")] = 0,
    money: Annotated[float, typer.Option("--money", metavar="USD", help="Raise budget.money to this.")] = 0.0,
    tokens: Annotated[int, typer.Option("--tokens", metavar="N", help="Raise budget.tokens to this.")] = 0,
    calls: Annotated[int, typer.Option("--calls", metavar="N", help="Raise budget.calls to this.")] = 0,
    time: Annotated[str, typer.Option("--time", metavar="TIME", help="Raise budget.time to this: 2h.")] = "",
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Raise limits of a run under way: trials at once, its budget.

    A limit that the run does not have, or that is higher already, stays as it is. The study's own budget
    counts again in the next run. The exit code is 1 if no process executes the run.

    \b
    Examples:
      peira adjust 3f2a91 --parallel 16
      peira adjust 3f2a91 --money 5 --time 2h
    """
    limits: dict[str, Any] = {"money": money, "tokens": tokens, "calls": calls}
    limits["time"] = seconds(time) if time else 0
    budget = {name: most for name, most in limits.items() if most}
    if parallel < 0 or any(most < 0 for most in budget.values()):
        raise Invalid("adjust: limits can only be raised")
    if not (parallel or budget):
        raise Invalid("adjust: say which limit: --parallel, --money, --tokens, --calls or --time")
    with Session.find(store) as session:
        found = adjust_run(run, session, parallel=parallel, budget=budget)
        return _report(found, CommandOutput(as_json), "has these limits now", store)


def _report(found: tuple[Run, bool], out: CommandOutput, done: str, store: str | None) -> int:
    """Say what became of a command to a run; returns the exit code."""
    run, obeyed = found
    out.document({**run_document(run), "done": obeyed})
    if not obeyed:
        again = next_command("run", run.id, store)
        return errors.say([f"run {short(run.id)} is not under way: {run.status}; {again} goes on"], 1)
    out.text(f"run {short(run.id)} of {run.study} {done}")
    return 0
