"""`peira effects`: what each factor does, and what factors do together."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from peira.analysis.mixed import Kind
from peira.api.look import Opened
from peira.cli.asked import Level, Reduce, Score, results_of, show
from peira.cli.options import Json, RunName, Store
from peira.core.registry import nearest
from peira.errors import Invalid

MODELS = ("paired", "linear", "logistic", "marginal", "anova2", "anova3", "split-plot")


def effects(
    run: RunName = "",
    factor: Annotated[
        list[str] | None,
        typer.Option("--factor", metavar="NAME", help="Only this factor; repeatable. Else all that vary."),
    ] = None,
    score: Score = None,
    order: Annotated[
        int, typer.Option("--order", metavar="N", help="Interactions of up to so many factors (2).")
    ] = 2,
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
    as_json: Json = False,
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
    results, names = results_of(Opened(store), run, reduce), factor or ()
    kinds = {str(one): one for one in get_args(Kind)}
    if random and model != "linear":
        raise Invalid("--random: needs --model linear")
    if model in kinds:
        found = results.mixed(*names, score=score, kind=kinds[model], level=level, random=random or ())
        show(found, as_json)
    elif model in ("anova2", "anova3"):
        show(results.anova(*names, score=score, type=2 if model == "anova2" else 3, order=order), as_json)
    elif model == "split-plot":
        show(results.strata(*names, score=score, order=order), as_json)
    elif model == "paired":
        show(results.effects(*names, score=score, level=level, order=order), as_json)
    else:
        raise Invalid(f"--model: there is no {model!r}{nearest(model, MODELS)}")
