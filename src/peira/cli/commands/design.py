"""`peira design`: what a design can and cannot estimate, before anything is spent."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.app.design import describe
from peira.app.session import Session
from peira.cli.options import Alpha, Json, Power, Store, StudyName, chosen
from peira.cli.output import CommandOutput, note


def design(
    study: StudyName,
    effect: Annotated[
        float | None,
        typer.Option("--effect", metavar="E", help="The difference to be seen, in units of the score."),
    ] = None,
    noise: Annotated[
        float, typer.Option("--noise", metavar="S", help="Standard deviation of a trial of one case.")
    ] = 1.0,
    case_noise: Annotated[
        float, typer.Option("--case-noise", metavar="S", help="How much cases differ in an effect.")
    ] = 0.0,
    power: Power = 0.8,
    alpha: Alpha = 0.05,
    formula: Annotated[
        str | None,
        typer.Option("--formula", metavar="F", help="The model: main, interactions, a + b + a:b, ..."),
    ] = None,
    plot: Annotated[
        str | None, typer.Option("--plot", metavar="FILE", help="Draw the runs: a .svg, .png or .pdf file.")
    ] = None,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say what a design can and cannot tell. Runs nothing.

    Which effects are confounded, how even it is, and how small an effect it would show; then the tables. With
    design = "auto" also what was chosen, and why.

    \b
    Examples:
      peira design capitals.py
      peira design capitals.py --effect 0.1 --noise 0.4
      peira design capitals.py --formula "model * style" --plot design.svg
    """
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        found = describe(
            chosen(study, session),
            store=session,
            formula=formula,
            effect=effect,
            noise=noise,
            case_noise=case_noise,
            power=power,
            alpha=alpha,
        )
        drawn = found.plot(plot) if plot else []
        out.document(found.to_json())
        out.text(str(found))
        for file in drawn:
            note(f"drawn in {file}")
