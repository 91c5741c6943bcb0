"""`peira effects`: what each factor does, and what factors do together."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.api.look import Opened
from peira.cli.asked import Level, Reduce, Score, results_of, show
from peira.cli.options import Json, RunName, Store
from peira.core.registry import nearest
from peira.errors import Invalid

MODELS = ("paired", "linear", "logistic", "anova2", "anova3")


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
        typer.Option("--model", metavar="NAME", help="paired (default), linear, logistic, anova2, anova3."),
    ] = "paired",
    reduce: Reduce = "",
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say what each factor does, and what factors do together.

    Main effects and interactions with intervals, each case its own control; or by a mixed model with cases as
    a random effect (linear, logistic); or the classical table of sums of squares (anova2, anova3).

    \b
    Examples:
      peira effects
      peira effects 3f2a91 --factor model --factor style --model logistic
    """
    results, names = results_of(Opened(store), run, reduce), factor or ()
    if model in ("linear", "logistic"):
        kind = "linear" if model == "linear" else "logistic"
        show(results.mixed(*names, score=score, kind=kind, level=level), as_json)  # type: ignore[arg-type]
    elif model in ("anova2", "anova3"):
        show(results.anova(*names, score=score, type=2 if model == "anova2" else 3, order=order), as_json)
    elif model == "paired":
        show(results.effects(*names, score=score, level=level, order=order), as_json)
    else:
        raise Invalid(f"--model: there is no {model!r}{nearest(model, MODELS)}")
