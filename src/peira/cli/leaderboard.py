"""`peira leaderboard`: who is best, and how sure that is."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.analysis.games import is_contest
from peira.analysis.leaderboard import Leaderboard
from peira.analysis.standings import Standings
from peira.api.look import Opened
from peira.cli.asked import Level, Reduce, Score, results_of, show
from peira.cli.options import Json, RunName, Store
from peira.cli.output import Output
from peira.errors import Invalid


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
    bootstrap: Annotated[
        bool, typer.Option("--bootstrap", help="Of a contest: intervals from cases drawn again.")
    ] = False,
    elo: Annotated[bool, typer.Option("--elo", help="Of a contest: also Elo's ratings.")] = False,
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Rank what was compared, with intervals on means and ranks.

    Entries that share a letter cannot be told apart. The last column is the chance that nothing else is as
    good, as cheap and as fast. Of a contest it ranks the sides, by Bradley and Terry's model.

    \b
    Examples:
      peira leaderboard
      peira leaderboard 3f2a91 --by model --score match --wins
      peira leaderboard 8d01c4 --elo
    """
    results = results_of(Opened(store), run, reduce)
    found: Leaderboard | Standings
    if is_contest(results.trials):
        if by or score or lowest_first or reduce:
            raise Invalid("a contest ranks its sides; leave out --by, --score, --lowest-first and --reduce")
        found = results.standings(level=level, method="bootstrap" if bootstrap else "covariance", elo=elo)
    else:
        if bootstrap or elo:
            raise Invalid("--bootstrap and --elo are about a contest; make one with `peira contest`")
        found = results.leaderboard(*(by or ()), score=score, level=level, lowest_first=lowest_first)
    show(found, as_json)
    if wins and not as_json:
        Output().text(f"\n{found.win_matrix()}")
