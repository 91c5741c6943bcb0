"""`peira contest`: outputs of a run compared pairwise by a judge."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from peira.analysis.ranking.contest import PEOPLE
from peira.analysis.ranking.contest import contest as contested
from peira.app.models import named
from peira.app.run import RunOptions, execute
from peira.app.store.spending import account_of
from peira.app.store.view import looking
from peira.cli.analysis_options import Level, only_factor
from peira.cli.options import Json, Limit, Parallel, Progress, RunName, Store, Wait
from peira.cli.output import CommandOutput, note, program
from peira.cli.run_summary import headline, next_command, summary
from peira.core.log.events import Status
from peira.errors import Invalid


def contest(
    run: RunName = "",
    judge: Annotated[
        list[str] | None,
        typer.Option("--judge", metavar="MODEL", help="The model that judges, or people; repeatable."),
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
      peira contest --by model --judge people
    """
    out = CommandOutput(as_json)
    with looking(store) as opened:
        results = opened.results(run)
        if not judge:
            raise Invalid("--judge: name the model that is to judge")
        project = opened.session.project
        project.load_plugins()
        for model in [one for one in judge if one != PEOPLE]:
            named(project, model)  # raises if there is no such model, before anything runs
        study = contested(results, by or only_factor(results), judge, criteria, ties=ties)
        options = RunOptions(
            store=opened.session,
            parallel=parallel,
            limit=limit,
            progress=progress,
            wait=None if wait else 0.0,
        )
        outcome = execute(study, options)
        found = outcome.results.standings(level=level)
        standings = msgspec.Raw(found.to_json().encode())
        account = account_of(opened.session, outcome.results.run_id)
        out.document(
            {
                **summary(outcome.results, account),
                "exit_code": outcome.finished.exit_code,
                "standings": standings,
            }
        )
        out.text(f"{headline(outcome.results, account, outcome.finished.reason)}\n\n{found}")
        note(f"again: {next_command('leaderboard', outcome.results.run_id, store)} --wins --elo")
        if outcome.finished.status is Status.waiting:
            note(f"pairs wait for people: {program()} inbox; then the same command again")
        return outcome.finished.exit_code
