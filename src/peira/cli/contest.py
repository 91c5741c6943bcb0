"""`peira contest`: what a run gave out, side against side, before a judge."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from peira.analysis.contest import contest as contested
from peira.api.look import Opened
from peira.api.models import named
from peira.api.running import Wishes, execute
from peira.cli.asked import Level, only_factor
from peira.cli.ending import headline, summary
from peira.cli.next import command
from peira.cli.options import Json, Limit, Parallel, Progress, RunName, Store, Wait
from peira.cli.output import Output, note
from peira.errors import Invalid
from peira.spec.project import Project


def contest(
    run: RunName = "",
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="MODEL", help="The model that judges; repeatable, for several."),
    ] = None,
    by: Annotated[
        str | None, typer.Option("--by", metavar="FACTOR", help="The sides: levels of this factor, or agent.")
    ] = None,
    criteria: Annotated[
        str | None, typer.Option("--criteria", metavar="TEXT", help="What makes an answer better.")
    ] = None,
    ties: Annotated[
        bool, typer.Option("--ties/--no-ties", help="Whether the judge may call two answers equal.")
    ] = True,
    limit: Limit = None,
    parallel: Parallel = None,
    level: Level = 0.95,
    wait: Wait = False,
    store: Store = None,
    as_json: Json = False,
    progress: Progress = None,
) -> int:
    """Let a judge compare the outputs of a run, two by two.

    Every two outputs of the same case are shown to the judge in both orders; only what it says both times
    counts as a win. It is a study of its own: what is judged is not judged again.

    \b
    Examples:
      peira contest 3f2a91 --by model --judge openai:gpt-5-mini
      peira contest --by style --judge strict --criteria "Shorter is better."
    """
    out, results = Output(as_json), Opened(store).results(run)
    if not judge:
        raise Invalid("--judge: name the model that is to judge")
    project = Project.find()
    project.load_plugins()
    for model in judge:
        named(project, model)  # says that there is no such model before anything runs
    study = contested(results, by or only_factor(results), judge, criteria, ties=ties)
    wishes = Wishes(
        store=store, parallel=parallel, limit=limit, progress=progress, wait=None if wait else 0.0
    )
    outcome = execute(study, wishes)
    found = outcome.results.standings(level=level)
    standings = msgspec.Raw(found.to_json().encode())
    out.document(
        {**summary(outcome.results), "exit_code": outcome.finished.exit_code, "standings": standings}
    )
    out.text(f"{headline(outcome.results, outcome.finished.reason)}\n\n{found}")
    note(f"again: {command('leaderboard', outcome.results.run_id, store)} --wins --elo")
    return outcome.finished.exit_code
