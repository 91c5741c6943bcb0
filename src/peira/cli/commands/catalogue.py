"""`peira list`: what can be named in studies and on the command line; `peira prices`: what models cost."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.app.catalogue import LISTED, catalogue
from peira.app.models import PriceRow, price_list
from peira.app.session import Session
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, grid
from peira.core.models import Usage
from peira.errors import Invalid


def list_(
    what: Annotated[str, typer.Argument(metavar="[KIND]", help=f"One of {', '.join(LISTED)}.")] = "",
    store: Store = None,
    as_json: Json = False,
) -> None:
    """List what can be named: evaluators, transforms, designs, models and more.

    Each with a line about it. Those of plug-ins and of the project file are among them. `model-keys` are the
    keys of a model in the project file.

    \b
    Examples:
      peira list
      peira list evaluators
      peira list models --json
    """
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        if not what:
            counts = {name: len(catalogue(name, session.project)) for name in LISTED}
            out.document({"kinds": counts})
            out.text(grid(["list", "how many"], [[name, n] for name, n in counts.items()]))
            return
        found = catalogue(what, session.project)
        out.document({"kind": what, "items": [one._asdict() for one in found]})
        out.text(grid([what, "what it is"], found, whole=True))


def prices(
    models: Annotated[
        list[str] | None,
        typer.Argument(metavar="[MODEL...]", help="Models; without a provider, at all that sell it."),
    ] = None,
    tokens_in: Annotated[int, typer.Option("--input", min=0, help="Tokens that a call reads.")] = 1000,
    tokens_out: Annotated[int, typer.Option("--output", min=0, help="Tokens that a call writes.")] = 500,
    calls: Annotated[int, typer.Option(min=1, help="How many calls.")] = 1000,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Compare what models cost, at every provider that sells them.

    The cheapest first. Prices are those of the project file, or of the installed table of prices, which is
    named; nothing is fetched. What is not in it is not known, which is not free. `peira estimate` says what
    a study costs.

    \b
    Examples:
      peira prices gpt-4o claude-3-5-sonnet-latest
      peira prices openai:gpt-4o groq:llama-3.3-70b-versatile --input 4000
    """
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        if not models and not session.project.models:
            raise Invalid("prices: name a model; the project file has none")
        found = price_list(session.project, models or [], Usage(tokens_in, tokens_out), calls)
    out.document({"calls": calls, "models": [one._asdict() for one in found]})
    header = ["model", "$ per M in", "$ per M out", "a call", f"{calls:,} calls"]
    out.text(grid(header, [_prices(one) for one in found], whole=True))
    out.text("\n".join(f"prices: {source}" for source in dict.fromkeys(one.source for one in found)))


def _prices(row: PriceRow) -> list[str]:
    """The cells of a row; a dash for what is not known."""
    amounts = (row.input, row.output, row.call, row.total)
    return [row.model, *("-" if one is None else f"{one:,.4g}" for one in amounts)]
