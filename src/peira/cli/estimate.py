"""`peira estimate`: what a run would take, before it takes anything."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated

import msgspec
import typer

from peira.api.planning import estimate as expected
from peira.cli.benchmarks import Data, Model, Variant, meant
from peira.cli.options import Batched, Fresh, Json, Limit, Parallel, Store, StudyName, Where, restricted
from peira.cli.output import Output
from peira.errors import Invalid

Assume = Annotated[
    list[str] | None,
    typer.Option(
        "--assume",
        metavar="NAME=N",
        help="calls or seconds of a trial, input_tokens or output_tokens of a call; model=NAME.",
    ),
]


def estimate(
    study: StudyName,
    model: Model = None,
    variant: Variant = None,
    data: Data = None,
    parallel: Parallel = None,
    where: Where = None,
    limit: Limit = None,
    fresh: Fresh = False,
    assume: Assume = None,
    batch: Batched = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say what a run would take: calls, tokens, cost, time. Runs nothing.

    From what earlier runs of the study took, else from the lengths of the prompts; what is assumed is said,
    and may be said better. What is not known is called unknown. What is recorded costs nothing.

    \b
    Examples:
      peira estimate capitals.py
      peira estimate capitals.py --assume calls=3 --assume output_tokens=400
      peira estimate capitals.py --batch
    """
    out = Output(as_json)
    found = expected(
        meant(study, store, model, variant, data),
        store=store,
        parallel=parallel,
        where=restricted(where),
        limit=limit,
        fresh=fresh,
        assume=_assumed(assume or ()),
        batch=batch,
    )
    out.document(msgspec.to_builtins(found))
    out.text(str(found))


def _assumed(given: Iterable[str]) -> dict[str, float | str]:
    said: dict[str, float | str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"assume: write NAME=VALUE, like output_tokens=300, not {text!r}")
        said[name.strip()] = _number(value.strip())
    return said


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text
