"""`peira compare`, `effects` and `leaderboard`: compare runs or levels, effects of factors, ranks."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from peira.analysis.compare.family import Correction
from peira.analysis.compare.imputation import Missing
from peira.analysis.effects.mixed_models import Kind
from peira.analysis.ranking.leaderboard import Leaderboard
from peira.analysis.ranking.tournament import Standings, is_contest
from peira.app.store.view import looking
from peira.cli.analysis_options import (
    TERMINAL,
    Factor,
    First,
    Level,
    Presentation,
    Reduce,
    Score,
    Second,
    only_factor,
    results_of,
    show,
)
from peira.cli.options import Latest, RunName, Store
from peira.cli.output import CommandOutput
from peira.core.registry import nearest
from peira.errors import Invalid

Lost = Annotated[
    str,
    typer.Option(
        "--missing",
        metavar="HOW",
        help="Of lost trials: ended (leave them out, show bounds), impute, worst.",
    ),
]


def missing_option(name: str) -> Missing:
    """The value of --missing; Invalid for any other."""
    known: dict[str, Missing] = {str(one): one for one in get_args(Missing)}
    if name not in known:
        raise Invalid(f"--missing: there is no {name!r}{nearest(name, known)}")
    return known[name]


def compare(
    a: Annotated[str, typer.Argument(metavar="[A]", help="A run; without it, the newest.")] = "",
    others: Annotated[
        list[str] | None, typer.Argument(metavar="[B]...", help="Other runs, to compare the first with.")
    ] = None,
    by: Factor = None,
    first: First = None,
    second: Second = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="LEVEL", help="Compare all others with this level.")
    ] = None,
    score: Score = None,
    slice: Annotated[
        str | None, typer.Option("--slice", metavar="NAME", help="Only cases of this slice.")
    ] = None,
    correction: Annotated[
        str,
        typer.Option("--correction", metavar="NAME", help="As declared, or holm, bh, dunnett, tukey, none."),
    ] = "declared",
    margin: Annotated[
        float | None, typer.Option("--margin", metavar="X", help="A difference too small to matter.")
    ] = None,
    test: Annotated[
        str, typer.Option("--test", metavar="NAME", help="permutation, wilcoxon, ...; else what fits.")
    ] = "",
    reduce: Reduce = "",
    effect: Annotated[
        str,
        typer.Option("--effect", metavar="NAME", help="cohen d, cliffs delta, odds ratio, ...; else fits."),
    ] = "",
    interval: Annotated[
        str, typer.Option("--interval", metavar="NAME", help="bootstrap; else what fits.")
    ] = "",
    missing: Lost = "ended",
    level: Level = 0.95,
    latest: Latest = False,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Compare two runs, or the levels of a factor, case by case.

    The difference with its interval, a test, an effect size, and what it rests on. Of several runs every pair
    is compared. Several comparisons are one family, corrected together.

    \b
    Examples:
      peira compare 3f2a91 8d01c4
      peira compare 3f2a91 --by model --baseline small
      peira compare --by style --margin 0.02 --json
      peira compare 3f2a91 8d01c4 77ab02 -o runs.md
    """
    with looking(store) as opened:
        results = results_of(opened, a, reduce, latest)
        if others and (by or first or second or baseline):
            raise Invalid("B: runs are compared whole; leave out --by, --first, --second and --baseline")
        with_runs = [results_of(opened, other, reduce, latest) for other in others or ()]
        found = results.compare(
            with_runs or by or only_factor(results),
            first,
            second,
            score=score,
            slice=slice,
            baseline=baseline,
            correction=_correction(correction),
            level=level,
            margin=margin,
            test=test,
            effect=effect,
            interval=interval,
            missing=missing_option(missing),
        )
        show(found, shown)


def _correction(name: str) -> Correction | None:
    """The correction of this name; None for "none"."""
    known = {str(one): one for one in get_args(Correction)}
    if name not in ("none", *known):
        raise Invalid(f"--correction: there is no {name!r}{nearest(name, ['none', *known])}")
    return known.get(name)


MODELS = ("paired", "linear", "logistic", "marginal", "anova2", "anova3", "split-plot")
"""The models of --model."""


def effects(
    run: RunName = "",
    factor: Annotated[
        list[str] | None,
        typer.Option("--factor", metavar="NAME", help="Only this factor; repeatable. Else all that vary."),
    ] = None,
    score: Score = None,
    order: Annotated[
        int, typer.Option("--order", metavar="N", help="Interactions of up to this many factors (2).")
    ] = 2,
    formula: Annotated[
        str,
        typer.Option("--formula", metavar="TERMS", help="The terms of the model, like a + b + a:b."),
    ] = "",
    model: Annotated[
        str,
        typer.Option(
            "--model",
            metavar="NAME",
            help="paired (default), linear, logistic, marginal, anova2, anova3, split-plot.",
        ),
    ] = "paired",
    reduce: Reduce = "",
    random: Annotated[
        list[str] | None,
        typer.Option("--random", metavar="NAME", help="With linear: this factor is a sample; repeatable."),
    ] = None,
    level: Level = 0.95,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Say what each factor does, and what factors do together.

    Main effects and interactions with intervals, each case its own control. Or by a mixed model with cases as
    a random effect: linear, logistic (of a given case), marginal (of the average case). Or the classical
    table of sums of squares: anova2, anova3; with factors set for whole plots tested against plots:
    split-plot.

    \b
    Examples:
      peira effects
      peira effects 3f2a91 --factor model --factor style --model logistic
    """
    with looking(store) as opened:
        results, names = results_of(opened, run, reduce), factor or ()
        kinds = {str(one): one for one in get_args(Kind)}
        if random and model != "linear":
            raise Invalid("--random: needs --model linear")
        if formula and model != "paired":
            raise Invalid("--formula: is for --model paired, the default")
        if model in kinds:
            found = results.mixed(*names, score=score, kind=kinds[model], level=level, random=random or ())
            show(found, shown)
        elif model in ("anova2", "anova3"):
            show(results.anova(*names, score=score, type=2 if model == "anova2" else 3, order=order), shown)
        elif model == "split-plot":
            show(results.strata(*names, score=score, order=order), shown)
        elif model == "paired":
            found_effects = results.effects(*names, score=score, level=level, order=order, formula=formula)
            show(found_effects, shown)
        else:
            raise Invalid(f"--model: there is no {model!r}{nearest(model, MODELS)}")


def leaderboard(
    run: RunName = "",
    others: Annotated[
        list[str] | None, typer.Argument(metavar="[RUN]...", help="Other runs, to rank with the first.")
    ] = None,
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
    length_controlled: Annotated[
        bool, typer.Option("--length-controlled", help="Of a contest: as if answers were equally long.")
    ] = False,
    missing: Lost = "ended",
    level: Level = 0.95,
    latest: Latest = False,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Rank what was compared, with intervals on means and ranks.

    Entries that share a letter cannot be told apart. The last column is the chance that nothing else is as
    good, as cheap and as fast. Of a contest it ranks the sides, by Bradley and Terry's model. Several runs
    are ranked with each other, on the cases that every two of them have in common.

    \b
    Examples:
      peira leaderboard
      peira leaderboard 3f2a91 --by model --score match --wins
      peira leaderboard 8d01c4 --elo
      peira leaderboard 3f2a91 8d01c4 77ab02
    """
    with looking(store) as opened:
        results = results_of(opened, run, reduce, latest)
        found: Leaderboard | Standings
        with_runs = [results_of(opened, other, reduce, latest) for other in others or ()]
        if is_contest(results.trials):
            if with_runs:
                raise Invalid("RUN: a contest is ranked by itself")
            if by or score or lowest_first or reduce or missing != "ended":
                raise Invalid(
                    "a contest ranks its sides; leave out --by, --score, --lowest-first, --reduce, --missing"
                )
            found = results.standings(
                level=level,
                method="bootstrap" if bootstrap else "covariance",
                elo=elo,
                length_controlled=length_controlled,
            )
        else:
            if bootstrap or elo or length_controlled:
                raise Invalid(
                    "--bootstrap, --elo and --length-controlled are about a contest; make one with "
                    "`peira contest`"
                )
            found = results.leaderboard(
                *(by or ()),
                score=score,
                level=level,
                lowest_first=lowest_first,
                missing=missing_option(missing),
                others=with_runs,
            )
        show(found, shown)
        if wins and not shown.as_json:
            CommandOutput().text(f"\n{found.win_matrix()}")
