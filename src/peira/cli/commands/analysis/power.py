"""`peira power` and `worth`: how many cases are needed, and what more of them are worth."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.analysis.power import Planning, PowerQuestion, plan_for, plan_from, plan_matched, plan_rates
from peira.app.store.view import looking
from peira.cli.analysis_options import (
    TERMINAL,
    Factor,
    First,
    Level,
    Lowest,
    Presentation,
    Score,
    Second,
    only_factor,
    show,
)
from peira.cli.options import Alpha, Power, RunName, Store
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
    won: Annotated[
        float | None,
        typer.Option("--won", metavar="P", help="The share of cases that only the first side gets right ..."),
    ] = None,
    lost: Annotated[
        float | None, typer.Option("--lost", metavar="P", help="... and that only the second does.")
    ] = None,
    rates: Annotated[
        tuple[float, float] | None,
        typer.Option("--rates", metavar="P Q", help="Shares that are right, sides on other cases."),
    ] = None,
    cluster: Annotated[
        float,
        typer.Option("--cluster", metavar="N", help="With --deviation: the size of a cluster of cases ..."),
    ] = 1.0,
    correlation: Annotated[
        float, typer.Option("--correlation", metavar="R", help="... and how much its cases correlate.")
    ] = 0.0,
    difference: Annotated[
        float | None,
        typer.Option("--difference", metavar="X", help="The difference to detect; else the one observed."),
    ] = None,
    cases: Annotated[
        int | None, typer.Option("--cases", metavar="N", help="How many cases; else those of the run.")
    ] = None,
    repeats: Annotated[
        int | None, typer.Option("--repeats", metavar="N", help="With this many repeats of each case.")
    ] = None,
    alpha: Alpha = 0.05,
    wanted: Power = 0.8,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Say how many cases it takes to tell two sides apart.

    And the chance that a number of cases shows a difference, and the smallest one it shows. The spread comes
    from an earlier run, or is given: as a deviation, or for yes/no answers as shares.

    \b
    Examples:
      peira power 3f2a91 --by model --difference 0.02
      peira power --deviation 0.4 --difference 0.05 --cluster 4 --correlation 0.3
      peira power --won 0.12 --lost 0.08
    """
    question = PowerQuestion(difference, cases, repeats, alpha, wanted)
    given = [deviation is not None, won is not None or lost is not None, rates is not None]
    if any(given):
        if sum(given) > 1 or run or by or first or second or score or repeats:
            raise Invalid(
                "--deviation, --won and --lost, --rates: say one of them, and no RUN, --by or --score"
            )
        show(_plan_from_options(deviation, won, lost, rates, question, unpaired, cluster, correlation), shown)
        return
    if unpaired or cluster != 1 or correlation:
        raise Invalid("--unpaired, --cluster: need --deviation; a run is planned for as it was run")
    with looking(store) as opened:
        results = opened.results(run)
        show(plan_from(results, by or only_factor(results), question, first, second, score), shown)


def worth(
    run: RunName = "",
    by: Factor = None,
    more: Annotated[int, typer.Option("--more", metavar="N", help="How many more cases (100).")] = 100,
    score: Score = None,
    lowest: Lowest = False,
    per_point: Annotated[
        float | None,
        typer.Option("--per-point", metavar="X", help="US dollars that a score higher by 1 is worth."),
    ] = None,
    level: Level = 0.95,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Say what it is worth to run more cases before choosing a level.

    How narrow intervals will be, how likely differences will be clear and another level will be chosen, and
    by how much the choice is expected to improve: the expected value of sample information. All are
    forecasts, with what is not known of means and spread averaged over.

    \b
    Examples:
      peira worth --by model --more 200
      peira worth 3f2a91 --by style --more 50 --per-point 1000
    """
    with looking(store) as opened:
        results = opened.results(run)
        found = results.worth(
            by or only_factor(results), more, score=score, lowest=lowest, per_point=per_point, level=level
        )
        show(found, shown)


def _plan_from_options(
    deviation: float | None,
    won: float | None,
    lost: float | None,
    rates: tuple[float, float] | None,
    question: PowerQuestion,
    unpaired: bool,
    cluster: float,
    correlation: float,
) -> Planning:
    """The plan from a deviation, from shares of discordant cases, or from rates."""
    if deviation is not None:
        return plan_for(deviation, question, unpaired, cluster, correlation)
    if unpaired or cluster != 1 or correlation:
        raise Invalid("--unpaired, --cluster: need --deviation")
    if rates is not None:
        return plan_rates(*rates, question)
    if won is None or lost is None:
        raise Invalid("--won, --lost: say both")
    return plan_matched(won, lost, question)
