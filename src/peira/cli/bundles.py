"""`peira bundle`: pending work as a file, worked off anywhere, and taken in again."""

from __future__ import annotations

from enum import StrEnum
from typing import Annotated, Any

import typer

from peira.api.answers import bundle_import
from peira.api.bundles import Exported, bundle_export
from peira.api.taken import Taken
from peira.api.working import Worked, bundle_work
from peira.cli import ending, errors
from peira.cli.next import command
from peira.cli.options import Json, Limit, Parallel, Progress, Store, Where, chosen, restricted
from peira.cli.output import Output, note
from peira.core.ids import short
from peira.core.words import counted
from peira.engine.work import EVALUATE, GENERATE
from peira.errors import Invalid


class Action(StrEnum):
    export = "export"
    work = "work"
    take = "import"


def bundle(
    ctx: typer.Context,
    action: Annotated[Action, typer.Argument(metavar="ACTION", help="export, work or import.")],
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
    out = Output(as_json)
    given = {"--output": output, "--study": study, "--where": where, "--limit": limit, "--parallel": parallel}
    _check(action, {**given, "--stage": stage if stage != GENERATE else None})
    if action is not Action.take and output is None:
        raise Invalid(
            f"--output: say which file to write, like -o {'work' if action == 'export' else 'answers'}.bundle"
        )
    if action is Action.export:
        return _exported(
            bundle_export(
                chosen(name, store),
                str(output),
                stage=stage,
                where=restricted(where),
                limit=limit,
                store=store,
                progress=progress,
            ),
            stage,
            out,
        )
    if action is Action.work:
        done = bundle_work(name, str(output), study=study, parallel=parallel, progress=progress)
        return _worked(done, ctx.obj, out)
    return _taken(bundle_import(name, store=store, progress=progress), store, out)


def _check(action: Action, given: dict[str, Any]) -> None:
    """Every option is for some of the actions."""
    meant = {
        Action.export: ("--output", "--where", "--limit", "--stage"),
        Action.work: ("--output", "--study", "--parallel"),
        Action.take: (),
    }
    wrong = [option for option, said in given.items() if said and option not in meant[action]]
    if wrong:
        raise Invalid(f"{option}: is not for `peira bundle {action}`" for option in wrong)


def _exported(done: Exported, stage: str, out: Output) -> int:
    out.document({"file": str(done.path), "stage": stage, "items": done.items, "sha256": done.digest})
    what = "output" if stage == GENERATE else "score"
    out.text(f"{done.path}: {counted(done.items, what)} to make (sha256 {short(done.digest)})")
    return 0


def _worked(done: Worked, arguments: Any, out: Output) -> int:
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
    said = {f"{done.failed:,} failed": done.failed, f"{left:,} not done": left}
    more = "".join(f", {text}" for text, there in said.items() if there)
    out.text(f"{done.answers}: {counted(done.answered, 'answer')} to {counted(done.items, 'item')}{more}")
    if done.finished.exit_code == 130:
        return errors.say([f"interrupted; to go on: {errors.again(arguments)}"], 130)
    return done.finished.exit_code


def _taken(done: Taken, store: str | None, out: Output) -> int:
    out.document(
        {
            **ending.summary(done.results),
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
    out.text(f"imported from {done.origin}: {', '.join(text for text, there in facts.items() if there)}\n")
    out.text(ending.text(done.results, "") if done.stage == EVALUATE else ending.headline(done.results))
    if done.stage == GENERATE:
        note(f"to go on: {command('run', done.results.run_id, store)}")
    return errors.say(done.problems, 1) if done.refused else int(bool(done.failed))
