"""`peira diff`: what changed between two versions of a study."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from peira.app.diff import diff as compared
from peira.app.session import Session
from peira.cli.options import Json, Store, chosen
from peira.cli.output import CommandOutput

Side = "file.py, file.py:name, a .toml, .yaml or .json file, or the id of a run or frozen plan."


def diff(
    a: Annotated[str, typer.Argument(metavar="A", help=f"The earlier one: {Side}")],
    b: Annotated[str, typer.Argument(metavar="B", help="The later one, named in the same way.")],
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say what changed from one study, run or frozen plan to another.

    And what follows from it: which trials can be reused, which must be run again and why, and which are only
    scored again. Runs nothing.

    \b
    Examples:
      peira diff 3f2a91 capitals.py
      peira diff 3f2a91 8d01c4 --json
    """
    out = CommandOutput(as_json)
    with Session.find(store) as session:
        found = compared(chosen(a, session), chosen(b, session), store=session)
        out.document(msgspec.to_builtins(found))
        out.text(str(found))
