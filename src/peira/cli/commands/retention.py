"""`peira gc`, `delete`, `merge`, `migrate`: delete runs, add those of another store, renew a store."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from peira.app.session import Session
from peira.app.store.migration import merge as merge_stores
from peira.app.store.migration import migrate as migrate_store
from peira.app.store.retention import Deletion, collect
from peira.app.store.retention import delete as delete_runs
from peira.cli.options import Json, OfStudy, Store
from peira.cli.output import CommandOutput, grid, moment, note
from peira.cli.render import run_document
from peira.core.ids import short
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.spec.limits import Keep

DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what would be deleted.")]


def gc(
    age: Annotated[
        str | None, typer.Option("--age", metavar="TIME", help="Delete runs older than this: 30d, 12h.")
    ] = None,
    count: Annotated[
        int | None, typer.Option("--count", metavar="N", help="Keep this many of each study, the newest.")
    ] = None,
    size: Annotated[
        str | None, typer.Option("--size", metavar="SIZE", help="Delete the oldest until it has this: 2GB.")
    ] = None,
    study: OfStudy = "",
    dry_run: DryRun = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Delete runs that are not kept, and make the store smaller.

    Without options, what [keep] in peira.toml says. Runs with a name, frozen plans, and runs that are under
    way or wait for a batch are kept, and so is whatever a kept run needs: trials, scores and calls that it
    reused. What deleted runs spent still counts for budgets. Try --dry-run first.

    \b
    Examples:
      peira gc --age 30d --dry-run
      peira gc --count 5 --study capitals
      peira gc --size 2GB
    """
    out, session = CommandOutput(as_json), Session.find(store)
    given: dict[str, Any] = {"age": age, "count": count, "size": size, "study": study or None}
    fields = {name: value for name, value in given.items() if value is not None}
    keep = Keep(**fields) if fields else session.project.keep
    if not keep.bounded:
        raise Invalid("say what to keep: --age, --count or --size, or [keep] in peira.toml")
    _show(collect(keep, session, dry_run=dry_run), dry_run, out)


def delete(
    runs: Annotated[list[str], typer.Argument(metavar="RUN...", help="Runs, by their names or ids.")],
    dry_run: DryRun = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Delete runs. What other runs need of them is kept.

    Trials and calls that another run uses stay, and are not made or bought again. What the deleted runs spent
    still counts for budgets.

    \b
    Examples:
      peira delete 3f2a91 --dry-run
      peira delete 3f2a91 first-try
    """
    out = CommandOutput(as_json)
    _show(delete_runs(runs, Session.find(store), dry_run=dry_run), dry_run, out)


def _show(found: Deletion, dry_run: bool, out: CommandOutput) -> None:
    """Show what was deleted, or would be."""
    out.document(
        {
            "dry_run": dry_run,
            "deleted": [run_document(run) for run in found.runs],
            "kept": list(found.refused),
            "bytes_before": found.before,
            "bytes_after": found.after,
        }
    )
    for line in found.refused:
        note(f"kept: {line}")
    if found.runs:
        rows = [
            (short(r.id), r.study, r.status.value, f"{r.trials:,}", moment(r.planned)) for r in found.runs
        ]
        out.text(grid(["run", "study", "status", "trials", "begun"], rows))
    what = counted(len(found.runs), "run")
    if found.after is None:
        out.text(f"{what} would be deleted" if found.runs else "nothing to delete")
    else:
        out.text(f"{what} deleted: {_megabytes(found.before)}, now {_megabytes(found.after)}")


def _megabytes(size: int) -> str:
    return f"{size / 1000**2:,.1f} MB"


def migrate(store: Store = None, as_json: Json = False) -> None:
    """Bring a store up to date.

    A store of an earlier version is also brought up to date when it is opened. This command says so, and
    completes what other programs read (the views runs, trials, scores and calls) for runs that were killed,
    or were made by an earlier version.

    \b
    Examples:
      peira migrate
      peira migrate --store capitals.db
    """
    out, session = CommandOutput(as_json), Session.find(store)
    found = migrate_store(session)
    path = session.store if store is None else store
    out.document(
        {"store": str(path), "version_before": found.before, "version": found.after, "plans": found.listed}
    )
    if found.before == found.after:
        out.text(
            f"{path}: up to date" if found.after is None else f"{path}: version {found.after}, up to date"
        )
    else:
        out.text(f"{path}: from version {found.before} to {found.after}")
    if found.listed:
        out.text(f"the trials of {counted(found.listed, 'plan')} can be read by other programs now")


def merge(
    other: Annotated[str, typer.Argument(metavar="OTHER", help="The store whose runs are added.")],
    ours: Annotated[
        bool, typer.Option("--ours", help="Keep this store's result where both have a different one.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would be added.")] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Add the runs of another store to this one.

    Trials and calls that both have are there once, with this store's result; each run shows what it showed
    before, and what it spent counts once. The other store is only read. What contradicts is refused, a line
    each, and nothing is changed: a name that two runs have, a run that has gone on differently, a trial or
    score with another result.

    \b
    Examples:
      peira merge colleague.db --dry-run
      peira merge colleague.db --store ours.db
      peira merge laptop.db --store postgresql://me@host/lab
    """
    out = CommandOutput(as_json)
    found = merge_stores(other, store, ours=ours, dry_run=dry_run)
    listed = [run for run in found.runs if run.manifest]
    out.document(
        {
            "dry_run": dry_run,
            "added": [run_document(run) for run in listed],
            "events": found.records,
            "in_both": found.shared,
        }
    )
    if not found.records:
        out.text("nothing to add: everything is here already")
        return
    rows = [
        (short(run.id), run.study, run.status.value, f"{run.trials:,}", moment(run.planned)) for run in listed
    ]
    if rows:
        out.text(grid(["run", "study", "status", "trials", "begun"], rows))
    word = "would be added" if dry_run else "added"
    out.text(f"{counted(len(listed), 'run')} {word}, {counted(found.records, 'event')}")
    if found.shared:
        note(f"{counted(found.shared, 'result')} in both stores: those of this store are kept")
