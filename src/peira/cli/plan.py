"""`peira plan`: what a run would do."""

from __future__ import annotations

from typing import Annotated

import typer

from peira.api.planning import plan as preview
from peira.cli.benchmarks import Data, Model, Variant, meant
from peira.cli.options import Batched, Fresh, From, Json, Limit, Store, StudyName, Where, restricted
from peira.cli.output import Output


def plan(
    study: StudyName,
    model: Model = None,
    variant: Variant = None,
    data: Data = None,
    store: Store = None,
    where: Where = None,
    earlier: From = None,
    limit: Limit = None,
    fresh: Fresh = False,
    batch: Batched = False,
    freeze: Annotated[
        bool, typer.Option("--freeze", help="Keep the plan: every later result says how it deviates.")
    ] = False,
    note: Annotated[
        str, typer.Option("--note", metavar="TEXT", help="With --freeze: what is to be remembered of it.")
    ] = "",
    amend: Annotated[
        bool, typer.Option("--amend", help="With --freeze: freeze another plan beside the one there is.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Say what a run would do, and what of it is new. Runs nothing.

    Conditions, trials, what is reused from the store, what is new, and why: changed code, a new level, more
    repeats. A plan that is frozen before it is run is a pre-registration; `peira runs --status frozen` lists
    them.

    \b
    Examples:
      peira plan capitals.py
      peira plan capitals.py --where style=plain --limit 20
      peira plan capitals.py --freeze --note "before the first run"
    """
    out = Output(as_json)
    found = preview(
        meant(study, store, model, variant, data),
        store=store,
        where=restricted(where),
        limit=limit,
        fresh=fresh,
        earlier=earlier,
        freeze=freeze,
        note=note,
        amend=amend,
        batch=batch,
    )
    out.document(found.to_json())
    out.text(str(found))
