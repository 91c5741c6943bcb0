"""The commands that act on a store: stop a run in it, check it."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.api.control import Cancelled
from peira.api.control import cancel as stop
from peira.api.stores import locate, reading
from peira.cli import errors
from peira.cli.next import command
from peira.cli.options import Json, Store
from peira.cli.output import Output
from peira.cli.told import run_document
from peira.core.ids import short
from peira.core.words import counted
from peira.errors import StoreInUse
from peira.spec.project import Project
from peira.stores.verify import verify as problems_of


def cancel(
    run: Annotated[str, typer.Argument(metavar="RUN", help="The first digits of the run's id.")],
    store: Store = None,
    as_json: Json = False,
) -> int:
    """Stop a run, wherever it is running, and say what was stopped.

    Running trials are ended too. What was recorded stays, and the run can be gone on with. The exit code
    is 1 if the run was over already.

    \b
    Examples:
      peira cancel 3f2a91
    """
    out = Output(as_json)
    found = stop(run, store)
    stopped = {"cancelled": found.done, "stopped_running": found.running, "never_started": found.unstarted}
    out.document({**run_document(found.run), **stopped})
    if not found.done:
        return errors.say([f"run {short(found.run.id)} was over already: {found.run.status}"], 1)
    out.text(_told(found, store))
    return 0


def _told(found: Cancelled, store: str | None) -> str:
    left = counted(found.unstarted, "trial")
    stopped = f"{found.running} running stopped, {left} not started"
    return (
        f"run {short(found.run.id)} of {found.run.study} is cancelled: "
        f"{stopped if found.alive else f'its process had gone, {left} not done'}\n"
        f"to go on with it: {command('run', found.run.id, store)}"
    )


def verify(store: Store = None, as_json: Json = False) -> int:
    """Check a store: replay its events, check every digest.

    Says every way in which the store contradicts itself. The exit code is 1 if there is one.

    \b
    Examples:
      peira verify
      peira verify --store capitals.db
    """
    out, project = Output(as_json), Project.find()
    path = locate(store, project)
    with reading(store, project) as opened:
        if opened.owner() is not None:
            raise StoreInUse(f"the store {path} is in use: it can be checked once that run has ended")
        problems = problems_of(opened)
    out.document({"store": str(path), "ok": not problems, "problems": problems})
    for problem in problems:
        out.text(problem)
    out.text(f"{path}: {counted(len(problems), 'problem') if problems else 'sound'}")
    return int(bool(problems))
