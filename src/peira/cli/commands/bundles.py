"""`peira bundle`: pending work as a file, done anywhere, and imported again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

import peira.app as app
from peira.app.bundles.answers import bundle_import
from peira.app.bundles.export import ExportedBundle, bundle_export
from peira.app.bundles.work import WorkedBundle, bundle_work
from peira.app.imports.intake import ImportResult
from peira.app.session import Session
from peira.cli import errors, run_summary
from peira.cli.options import Json, Limit, Parallel, Progress, Store, Where, chosen, restricted
from peira.cli.output import CommandOutput, note
from peira.cli.run_summary import next_command
from peira.core.ids import short
from peira.core.text.words import counted
from peira.engine.stages import EVALUATE, GENERATE
from peira.errors import Invalid


class BundleAction(StrEnum):
    """The actions of `peira bundle`."""

    export = "export"
    work = "work"
    take = "import"


def bundle(
    ctx: typer.Context,
    action: Annotated[BundleAction, typer.Argument(metavar="ACTION", help="export, work or import.")],
    name: Annotated[
        str,
        typer.Argument(
            metavar="NAME", help="To export: a study or run. To work off: a bundle. To import: its answers."
        ),
    ],
    output: Annotated[
        str | None,
        typer.Option("--output", "-o", metavar="FILE", help="The file to write."),
    ] = None,
    stage: Annotated[
        str, typer.Option("--stage", metavar="STAGE", help="To export: generate or evaluate.")
    ] = GENERATE,
    study: Annotated[
        str | None,
        typer.Option("--study", metavar="STUDY", help="To work off: the study that has the agents' code."),
    ] = None,
    where: Where = None,
    limit: Limit = None,
    parallel: Parallel = None,
    store: Store = None,
    as_json: Json = False,
    progress: Progress = None,
) -> int:
    """Hand out pending work as a file, and take in what came of it.

    A bundle holds the trials that have no output yet (or, with --stage evaluate, the outputs that have no
    score), each with a digest. `work` works it off on any machine that has the code, with no store; so can
    any script: docs/stages.md says how. `import` checks every digest, refuses what is foreign or altered,
    line by line, and never overwrites a result.

    \b
    Examples:
      peira bundle export capitals.py -o work.bundle
      peira bundle work work.bundle --study capitals.py -o answers.bundle
      peira bundle import answers.bundle
    """
    out = CommandOutput(as_json)
    given = {"--output": output, "--study": study, "--where": where, "--limit": limit, "--parallel": parallel}
    _check(action, {**given, "--stage": stage if stage != GENERATE else None})
    if action is not BundleAction.take and output is None:
        raise Invalid(
            f"--output: say which file to write, like -o {'work' if action == 'export' else 'answers'}.bundle"
        )
    if action is BundleAction.export:
        with Session.find(store) as session:
            return _report_export(
                bundle_export(
                    chosen(name, session),
                    str(output),
                    stage=stage,
                    where=restricted(where),
                    limit=limit,
                    store=session,
                    progress=progress,
                ),
                stage,
                out,
            )
    if action is BundleAction.work:
        done = bundle_work(name, str(output), study=study, parallel=parallel, progress=progress)
        return _report_work(done, ctx.obj, out)
    with Session.find(store) as session:
        return _report_import(bundle_import(name, store=session, progress=progress), session, store, out)


def _check(action: BundleAction, given: dict[str, Any]) -> None:
    """Raise Invalid if an option does not belong to the action."""
    allowed = {
        BundleAction.export: ("--output", "--where", "--limit", "--stage"),
        BundleAction.work: ("--output", "--study", "--parallel"),
        BundleAction.take: (),
    }
    wrong = [option for option, value in given.items() if value and option not in allowed[action]]
    if wrong:
        raise Invalid(f"{option}: is not for `peira bundle {action}`" for option in wrong)


def _report_export(done: ExportedBundle, stage: str, out: CommandOutput) -> int:
    """Report an export; returns the exit code."""
    out.document({"file": str(done.path), "stage": stage, "items": done.items, "sha256": done.digest})
    what = "output" if stage == GENERATE else "score"
    out.text(f"{done.path}: {counted(done.items, what)} to make (sha256 {short(done.digest)})")
    return 0


def _report_work(done: WorkedBundle, arguments: Any, out: CommandOutput) -> int:
    """Report work that was done; returns the exit code."""
    left = done.items - done.answered
    out.document(
        {
            "file": str(done.answers),
            "items": done.items,
            "answered": done.answered,
            "failed": done.failed,
            "left": left,
            "status": done.finished.status.value,
        }
    )
    remarks = {f"{done.failed:,} failed": done.failed, f"{left:,} not done": left}
    more = "".join(f", {text}" for text, count in remarks.items() if count)
    out.text(f"{done.answers}: {counted(done.answered, 'answer')} to {counted(done.items, 'item')}{more}")
    if done.finished.exit_code == 130:
        return errors.say([f"interrupted; to go on: {errors.resume_command(arguments)}"], 130)
    return done.finished.exit_code


def _report_import(done: ImportResult, session: Session, store: str | None, out: CommandOutput) -> int:
    """Report an import; returns the exit code."""
    results, account = done.results, app.account_of(session, done.results.run_id)
    out.document(
        {
            **run_summary.summary(results, account),
            "imported_from": done.origin,
            "stage": done.stage,
            "recorded": done.recorded,
            "failed": done.failed,
            "same": done.same,
            "refused": done.refused,
            "problems": list(done.problems),
        }
    )
    what = "score" if done.stage == EVALUATE else "output"
    facts = {
        f"{counted(done.recorded, what)} recorded": True,
        f"{counted(done.failed, 'failure')} recorded": done.failed,
        f"{done.same:,} there already": done.same,
        f"{done.refused:,} refused": done.refused,
    }
    out.text(f"imported from {done.origin}: {', '.join(text for text, count in facts.items() if count)}\n")
    if done.stage == EVALUATE:
        out.text(run_summary.text(results, account, results.table()))
    else:
        out.text(run_summary.headline(results, account))
    if done.stage == GENERATE:
        note(f"to go on: {next_command('run', results.run_id, store)}")
    return errors.say(done.problems, 1) if done.refused else int(bool(done.failed))
