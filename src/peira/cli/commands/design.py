"""`peira design`: what a design can and cannot estimate, before anything is spent."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from peira.app.design import describe, design_table, study_of_factors
from peira.app.session import Session
from peira.cli.options import Alpha, Json, Power, Store, chosen
from peira.cli.output import CommandOutput, note
from peira.cli.study_options import options_from
from peira.core.files import write_whole
from peira.errors import Invalid
from peira.results.rows import line, text
from peira.spec.factors import Factor
from peira.spec.study import Study


def design(
    study: Annotated[
        str, typer.Argument(metavar="[STUDY]", help="A file, a run id; or none, with --factor.")
    ] = "",
    factor: Annotated[
        list[str] | None,
        typer.Option(
            "--factor",
            metavar="NAME=LEVELS",
            help="Without a study: model=a,b or temperature=0..1. Repeatable.",
        ),
    ] = None,
    name: Annotated[
        str,
        typer.Option("--design", metavar="NAME", help="With --factor: a design, or JSON with options."),
    ] = "",
    seed: Annotated[int, typer.Option("--seed", metavar="N", help="With --factor: the seed (0).")] = 0,
    csv: Annotated[
        str | None,
        typer.Option("--csv", metavar="FILE", help="Write its runs as a table; - for stdout."),
    ] = None,
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
      peira design capitals.py --csv design.csv
      peira design --factor model=a,b --factor t=0..1 --design latin_hypercube
    """
    out = CommandOutput(as_json)
    if bool(study) == bool(factor) or (study and (name or seed)):
        raise Invalid("give a study, or factors with --factor (and then --design, --seed)")
    with Session.find(store, study) as session:
        given = chosen(study, session) if study else _factorial(factor or [], name, seed)
        if csv is not None:
            table = _table(*design_table(given, store=session))
        if csv == "-" and not as_json:
            out.text(table.replace("\r\n", "\n").rstrip("\n"))
            return
        found = describe(
            given,
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
        if csv not in (None, "-"):
            write_whole(Path(str(csv)), table.encode())
            note(f"written to {csv}")


def _table(columns: Sequence[str], rows: Sequence[Mapping[str, Any]]) -> str:
    """The table of a design as CSV."""
    lines = [line(columns), *(line([text(row.get(name)) for name in columns]) for row in rows)]
    return "".join(lines)


def _factorial(given: Sequence[str], name: str, seed: int) -> Study:
    """The study of factors and a design that options name."""
    problems: list[str] = []
    factors = [found for option in given if (found := _factor(option, problems)) is not None]
    if problems:
        raise Invalid(problems)
    return study_of_factors(factors, options_from(name) if name else None, seed)


def _factor(option: str, problems: list[str]) -> Factor | None:
    """The factor of NAME=LEVEL,LEVEL or NAME=LOW..HIGH; a problem is added to `problems`."""
    name, equals, levels = (part.strip() for part in option.partition("="))
    low, dots, high = levels.partition("..")
    try:
        if not (name and equals and levels):
            raise Invalid("write NAME=LEVEL,LEVEL or NAME=LOW..HIGH")
        if dots:
            return Factor(name, low=float(low), high=float(high))
        return Factor(name, [_level(one.strip()) for one in levels.split(",")])
    except Invalid as error:
        problems += [f"--factor {option}: {problem}" for problem in error.problems]
    except ValueError:
        problems.append(f"--factor {option}: {levels!r} is not a range of numbers")
    return None


def _level(word: str) -> Any:
    """A level: a number if it is one, true, false, or else the text."""
    try:
        found = json.loads(word)
    except ValueError:
        return word
    return found if isinstance(found, (bool, int, float)) else word
