"""`peira work`: execute a work plan, look at its units, retry, cancel and merge them."""

from __future__ import annotations

import shlex
import sys
import time
from pathlib import Path
from typing import Annotated

import typer

from peira.app.session import Session
from peira.app.work.control import cancel_units, retry_unit
from peira.app.work.merge import MergeResult, apply_changes, commit_changes, write_folder
from peira.app.work.run import WorkOptions, WorkOutcome, execute_plan
from peira.app.work.view import UnitView, WorkView, find_work
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, grid, note, program
from peira.core.ids import short
from peira.core.text.words import counted, lasting
from peira.errors import Invalid, MergeConflict

ACTIONS = ("show", "logs", "retry", "cancel", "merge")
FOLLOW_EVERY = 0.2


def work(
    target: Annotated[
        str, typer.Argument(metavar="PLAN|ACTION", help="A plan file, or show, logs, retry, cancel, merge.")
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="[UNIT...]", help="For actions: the units that are meant."),
    ] = None,
    run: Annotated[
        str, typer.Option("--run", metavar="RUN", help="For actions: the run; without it, the newest.")
    ] = "",
    parallel: Annotated[
        int | None, typer.Option("--parallel", metavar="N", help="Units at once; as the plan says (4).")
    ] = None,
    fail_fast: Annotated[
        bool, typer.Option("--fail-fast", help="Begin nothing more once a unit has failed.")
    ] = False,
    base: Annotated[
        str | None, typer.Option("--base", metavar="BASE", help="Start from this folder, or git:REF.")
    ] = None,
    apply: Annotated[
        bool, typer.Option("--apply", help="Change the files of the base, if all units succeeded.")
    ] = False,
    into: Annotated[
        Path | None, typer.Option("--into", metavar="FOLDER", help="Write the result to a new folder.")
    ] = None,
    follow: Annotated[bool, typer.Option("--follow", help="With logs: until the unit has ended.")] = False,
    wait: Annotated[
        float, typer.Option("--wait", metavar="SECONDS", min=0, help="How long to wait for the store (0).")
    ] = 0.0,
    quiet: Annotated[bool, typer.Option("--quiet", help="Show no progress.")] = False,
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Execute a work plan: units in confined workspaces, each after its needs.

    What succeeded before from the same content is not done again, so the same command goes on after any stop.
    Ctrl-C finishes what runs; a second one ends it. Exits with 0 if all units succeeded, with 1 if not, with
    2 if the plan has problems: then nothing is executed, and the run is recorded as refused.

    \b
    Examples:
      peira work plan.toml --parallel 4
      peira work show
      peira work logs api --follow
      peira work cancel api
      peira work retry api
      peira work merge --apply
    """
    out = CommandOutput(as_json)
    units = words or []
    with Session.find(store, target if target not in ACTIONS else None) as session:
        if target in ACTIONS:
            refuse = {"parallel": parallel, "fail-fast": fail_fast or None, "base": base}
            problems = [f"--{name}: has no meaning for {target}" for name, given in refuse.items() if given]
            if problems and target != "retry":
                raise Invalid(problems)
            return _act(
                target, units, session, run, out, store, apply=apply, into=into, follow=follow, wait=wait
            )
        if units:
            raise Invalid(f"{target}: takes no units; to execute some again use retry")
        if run:
            raise Invalid("--run: is for actions; a plan makes a new run")
        options = WorkOptions(parallel, fail_fast or None, base, wait, False if quiet else None)
        return _execute(Path(target), session, options, out, store, apply=apply, into=into)


def _execute(
    plan: Path | str,
    session: Session,
    options: WorkOptions,
    out: CommandOutput,
    store: str | None,
    apply: bool = False,
    into: Path | None = None,
) -> int:
    merged: list[MergeResult] = []
    problems: list[str] = []

    def on_end(view: WorkView, *_: object) -> None:
        try:
            if found := commit_changes(view, view.store.get):
                merged.append(found)
            if into is not None:
                merged.append(write_folder(view, into, view.store.get))
            if apply and view.succeeded:
                merged.append(apply_changes(view, view.store.get))
        except Invalid as error:
            problems.extend(error.problems)

    outcome = execute_plan(plan, session, options, on_end)
    _tell(outcome, merged, problems, out, session.store_option(store))
    if apply and not outcome.succeeded:
        note("nothing was applied: not all units succeeded; peira work merge --apply applies what did")
    return outcome.exit_code or (1 if problems else 0)


def _tell(
    outcome: WorkOutcome,
    merged: list[MergeResult],
    problems: list[str],
    out: CommandOutput,
    store: str | None,
) -> None:
    """Say how a plan ended, and what to type next to find the store."""
    where = [one.where for one in merged]
    out.document({**outcome.document(), "merged": where, "problems": problems})
    out.text(_table(outcome.units.values()))
    for one in merged:
        out.text(one.sentence())
    for problem in problems:
        note(f"peira: {problem}")
    failed = [name for name, one in outcome.units.items() if one.state == "failed"]
    if failed:
        where = ["--store", store] if store else []
        out.text(f"see why: {shlex.join([program(), 'work', 'logs', failed[0], *where])}")


def _table(units: object) -> str:
    """The units as a table."""
    rows = [
        (
            one.name,
            f"{one.state} (reused)" if one.reused else one.state,
            lasting(one.took) if one.took and not one.reused else "",
            "" if one.cost is None else f"${one.cost:.4f}",
            one.why.splitlines()[0] if one.why else _made(one),
        )
        for one in units  # type: ignore[attr-defined]
    ]
    return grid(("unit", "state", "time", "cost", ""), rows)


def _made(one: UnitView) -> str:
    return counted(len(one.result.changes), "changed file") if one.result.changes else ""


def _act(
    action: str,
    units: list[str],
    session: Session,
    run: str,
    out: CommandOutput,
    given: str | None,
    *,
    apply: bool,
    into: Path | None,
    follow: bool,
    wait: float,
) -> int:
    """Do something with a run there is; `given` is what --store said."""
    if action in ("logs", "retry", "cancel") and not units:
        raise Invalid(f"work {action}: which unit? give its name")
    if action == "cancel":
        return _cancel(units, session, run, out)
    if action == "retry":
        outcome = retry_unit(session, units, run, wait)
        _tell(outcome, [], [], out, session.store_option(given))
        return outcome.exit_code
    if action == "logs":
        return _logs(units, session, run, out, follow)
    with session.reading() as store:
        view = find_work(session, store, run)
        if action == "show":
            chosen = [view.find(name) for name in units] or list(view.units.values())
            out.document(view.document())
            reason = f": {view.run.reason}" if view.run.reason else ""
            out.text(f"run {short(view.run.id)} of {view.run.study}, {view.run.status.value}{reason}")
            if chosen:
                out.text(_table(chosen))
            return 0
        try:
            found = _merge(view, apply, into)
        except MergeConflict as conflicts:
            out.document({"run": view.run.id, "conflicts": list(conflicts.problems)})
            for problem in conflicts.problems:
                note(f"peira: {problem}")
            return 1
        out.document({"run": view.run.id, "merged": found.where, "changed": list(found.changed)})
        out.text(found.sentence())
        return 0


def _merge(view: WorkView, apply: bool, into: Path | None) -> MergeResult:
    """Merge a run to where it was asked for, by default to its ref."""
    if into is not None:
        return write_folder(view, into, view.store.get)
    if apply:
        return apply_changes(view, view.store.get)
    found = commit_changes(view, view.store.get)
    if found is None:
        raise Invalid("merge: there is nothing for a ref: no git repository, or no changes; --into, --apply")
    return found


def _cancel(units: list[str], session: Session, run: str, out: CommandOutput) -> int:
    states = cancel_units(session, units, run)
    out.document({"units": states})
    for name, state in states.items():
        out.text(f"{name}: {state}")
    return 0 if all(state == "cancelled" for state in states.values()) else 1


def _logs(units: list[str], session: Session, run: str, out: CommandOutput, follow: bool) -> int:
    """Print what units printed."""
    found: dict[str, str] = {}
    for name in units:
        shown = 0
        while True:
            with session.reading() as store:
                view = find_work(session, store, run)
                unit = view.find(name)
                log = view.log(unit)
            if out.json:
                found[name] = log.decode(errors="replace")
            elif len(log) > shown:
                sys.stdout.buffer.write(log[shown:])
                sys.stdout.buffer.flush()
                shown = len(log)
            if not follow or unit.state not in ("running", "waiting", "cancelling"):
                break
            time.sleep(FOLLOW_EVERY)
    out.document({"logs": found})
    return 0
