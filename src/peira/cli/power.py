"""`peira power`: how many cases it takes, and what so many cases can show."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.analysis.planning import Question, plan_for, plan_from
from peira.api.look import Opened
from peira.cli.asked import Factor, First, Score, Second, only_factor, show
from peira.cli.options import Json, RunName, Store
from peira.errors import Invalid


def power(
    run: RunName = "",
    by: Factor = None,
    first: First = None,
    second: Second = None,
    score: Score = None,
    deviation: Annotated[
        float | None,
        typer.Option("--deviation", metavar="X", help="The spread, instead of a run's: of case differences."),
    ] = None,
    unpaired: Annotated[
        bool, typer.Option("--unpaired", help="With --deviation: of single values, sides on other cases.")
    ] = False,
    difference: Annotated[
        float | None, typer.Option("--difference", metavar="X", help="To be seen; else the one there was.")
    ] = None,
    cases: Annotated[
        int | None, typer.Option("--cases", metavar="N", help="How many; else those there were.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", help="With so many repeats of each case.")
    ] = None,
    alpha: Annotated[float, typer.Option("--alpha", metavar="P", help="Of the test (0.05).")] = 0.05,
    wanted: Annotated[float, typer.Option("--power", metavar="P", help="The chance to see it (0.8).")] = 0.8,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say how many cases it takes to tell two sides apart.

    And with what chance so many cases show a difference, and how small a one. The spread comes from an
    earlier run, or is given.

    \b
    Examples:
      peira power 3f2a91 --by model --difference 0.02
      peira power --deviation 0.4 --difference 0.05
    """
    question = Question(difference, cases, repeats, alpha, wanted)
    if deviation is not None:
        if run or by or first or second or score or repeats:
            raise Invalid("--deviation: stands for a run; leave out RUN, --by, --score and --repeats")
        show(plan_for(deviation, question, unpaired), as_json)
        return
    if unpaired:
        raise Invalid("--unpaired: needs --deviation; a run is planned for as it was paired")
    results = Opened(store).results(run)
    show(plan_from(results, by or only_factor(results), question, first, second, score), as_json)
