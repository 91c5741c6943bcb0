"""`peira surface`: where a score is best, over factors that are numbers."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.api.look import Opened
from peira.cli.asked import Level, Score, show
from peira.cli.options import Json, RunName, Store


def surface(
    run: RunName = "",
    factor: Annotated[
        list[str] | None,
        typer.Option("--factor", metavar="NAME", help="Over this factor; repeatable. Else all numbers."),
    ] = None,
    score: Score = None,
    lowest: Annotated[bool, typer.Option("--lowest", help="Less is better.")] = False,
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say where a score is best, over factors that are numbers.

    A second-order surface: the best setting within what was run and how sure that is, where the surface turns
    and how, and whether it fits. Needs three or more values of each factor.

    \b
    Examples:
      peira surface
      peira surface 3f2a91 --factor temperature --factor length --score match
    """
    found = Opened(store).results(run).surface(*(factor or ()), score=score, level=level, lowest=lowest)
    show(found, as_json)
