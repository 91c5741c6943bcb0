"""`peira list`: what can be named in studies and on the command line."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.app.catalogue import LISTED, catalogue
from peira.app.session import Session
from peira.cli.options import Json, Store
from peira.cli.output import CommandOutput, grid


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
