"""`peira leaderboard`: who is best, and how sure that is."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.api.look import Opened
from peira.cli.asked import Level, Reduce, Score, results_of, show
from peira.cli.options import Json, RunName, Store
from peira.cli.output import Output


def leaderboard(
    run: RunName = "",
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="FACTOR", help="What makes an entry; repeatable. Else all that varies."),
    ] = None,
    score: Score = None,
    lowest_first: Annotated[bool, typer.Option("--lowest-first", help="Less is better.")] = False,
    wins: Annotated[bool, typer.Option("--wins", help="Also who won against whom, case by case.")] = False,
    reduce: Reduce = "",
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Rank what was compared, with intervals on means and ranks.

    Entries that share a letter cannot be told apart. The last column is the chance that nothing else is as
    good, as cheap and as fast.

    \b
    Examples:
      peira leaderboard
      peira leaderboard 3f2a91 --by model --score match --wins
    """
    results = results_of(Opened(store), run, reduce)
    found = results.leaderboard(*(by or ()), score=score, level=level, lowest_first=lowest_first)
    show(found, as_json)
    if wins and not as_json:
        Output().text(f"\n{found.win_matrix()}")
