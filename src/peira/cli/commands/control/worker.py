"""`peira worker`, and `peira run --workers 0`: runs that several processes execute together."""

from __future__ import annotations

import shlex
from typing import Annotated

import typer

from peira.app.run import RunOptions
from peira.app.session import Session
from peira.app.studies import StudyLike
from peira.app.workers import LEASE, WorkerOptions, submit_shared, work
from peira.cli import errors
from peira.cli.options import Json, Parallel, Progress, Store, Unconfined, Wait
from peira.cli.output import CommandOutput, note, program
from peira.cli.run_summary import next_command
from peira.core.clock import seconds
from peira.core.ids import short
from peira.core.log.events import Status
from peira.core.log.state import UNDER_WAY, Run
from peira.core.text.words import counted
from peira.engine.kinds import STAGES
from peira.engine.run import RunEnd
from peira.engine.workers.worker import LEFT_TO_OTHERS
from peira.errors import Invalid
from peira.spec.project import parallel_problem

SHORTEST_LEASE = 2.0
"""Seconds of the shortest lease: it is renewed every second."""


def worker(
    parallel: Parallel = None,
    classes: Annotated[
        list[str] | None,
        typer.Option(
            "--classes",
            metavar="CLASS,...",
            help="Only these classes of work: generate (agents), transform, evaluate (scores).",
        ),
    ] = None,
    run: Annotated[
        str, typer.Option("--run", metavar="RUN", help="Only this run: its name, or first digits of its id.")
    ] = "",
    stay: Annotated[bool, typer.Option("--stay", help="Wait for further runs instead of ending.")] = False,
    allow_different: Annotated[
        bool,
        typer.Option("--allow-different", help="Work although packages differ from those of the run."),
    ] = False,
    lease: Annotated[
        str | None,
        typer.Option("--lease", metavar="TIME", help="Silence after which others take over its work (30s)."),
    ] = None,
    unconfined: Unconfined = False,
    wait: Wait = False,
    store: Store = None,
    as_json: Json = False,
    progress: Progress = None,
) -> int:
    """Execute runs of a shared store, together with other processes.

    Start as many as you like, on any machine that reaches the database; each takes parts of the oldest run
    that was submitted (`peira run --workers 0`) until none is left. The study is rebuilt from what the run
    recorded, so none of its files need be here; data that agents read, and keys of models, are this
    machine's. One Ctrl-C lets running trials finish and leaves the rest to others; after kill -9 others take
    over once the lease is over. With --classes it does only a part of the work, such as the scores of trials
    that other workers execute; a run is over when workers have done all of them.

    \b
    Examples:
      peira worker --store postgresql://me@host/db --parallel 8
      peira worker --stay
      peira worker --classes evaluate
    """
    out = CommandOutput(as_json)
    silence = LEASE if lease is None else seconds(lease)
    options = WorkerOptions(
        parallel=parallel,
        classes=STAGES if classes is None else _names(classes),
        allow_different=allow_different,
        stay=stay,
        run=run,
        lease=silence,
        wait=None if wait else 0.0,
    )
    problems = [problem for problem in [parallel_problem(parallel), *options.problems()] if problem]
    if silence < SHORTEST_LEASE:
        problems.append(f"lease: must be at least {SHORTEST_LEASE:g} s, not {silence:g}")
    if problems:
        raise Invalid(problems)
    quiet = progress is False

    def begun(row: Run) -> None:
        if not quiet:
            note(f"working on run {short(row.id)} of {row.study}, {counted(row.trials, 'trial')}")

    def ended(row: Run, end: RunEnd) -> None:
        if not quiet and end.status is not Status.interrupted:
            rest = f"; {end.reason}" if row.status in UNDER_WAY and end.reason == LEFT_TO_OTHERS else ""
            note(f"run {short(row.id)}: {row.status}{rest}")

    with Session.find(store) as session:
        last = work(session, options, begun, ended, note)
    out.document({"status": None if last is None else last.status.value})
    if last is None:
        if not quiet:
            out.text("there is no run to work on")
        return 0
    if last.status is Status.interrupted:
        where = f" --store {shlex.quote(store)}" if store else ""
        return errors.say(
            [f"stopped; what is left is for others, and to go on: {program()} worker{where}"], 130
        )
    return 0


def _names(classes: list[str]) -> tuple[str, ...]:
    """The names in lists that are separated by commas, each once."""
    names = (name.strip() for some in classes for name in some.split(","))
    return tuple(dict.fromkeys(name for name in names if name))


def submitted(
    study: StudyLike, options: RunOptions, session: Session, store: str | None, out: CommandOutput
) -> int:
    """Submit a run without executing it, and say how to go on."""
    run = submit_shared(study, options, session)
    out.document({"run": run})
    where = f" --store {shlex.quote(store)}" if store else ""
    out.text(
        f"run {short(run)} waits for workers\n"
        f"  work:   {program()} worker{where}\n"
        f"  watch:  {next_command('watch', run, store)}\n"
        f"  stop:   {next_command('cancel', run, store)}"
    )
    return 0
