"""`peira plan`, `estimate` and `diff`: what a run would do, what it would cost, what changed."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import typer

from peira.app.diff import diff as compared
from peira.app.plan import estimate as expected
from peira.app.plan import plan as preview
from peira.app.plan import plan_document
from peira.app.session import Session
from peira.cli.options import (
    Batched,
    Fresh,
    From,
    Json,
    Limit,
    Parallel,
    Store,
    StudyName,
    Where,
    chosen,
    restricted,
)
from peira.cli.output import CommandOutput
from peira.cli.output import note as note_line
from peira.cli.study_options import (
    StudyOptions,
    study_argument,
)
from peira.errors import Invalid


def plan(
    study: StudyName,
    asked: StudyOptions,
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
    document: Annotated[
        Path | None,
        typer.Option("--document", metavar="FILE", help="Write the whole study: .md, .html, .tex, .txt."),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="With --document: overwrite a file that is there.")
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
      peira plan capitals.py --document capitals.html
    """
    out = CommandOutput(as_json)
    with Session.find(store, study) as session:
        given = study_argument(study, session, asked)
        if document is not None:
            made = plan_document(given, store=session, where=restricted(where), limit=limit)
            written = made.save(document, force)
            note_line(f"the study is written to {written}")
        found = preview(
            given,
            store=session,
            where=restricted(where),
            limit=limit,
            fresh=fresh,
            earlier=earlier,
            freeze=freeze,
            note=note,
            amend=amend,
            batch=batch,
        )
        out.document(found.document())
        out.text(str(found))


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
    asked: StudyOptions,
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
    out = CommandOutput(as_json)
    with Session.find(store, study) as session:
        found = expected(
            study_argument(study, session, asked),
            store=session,
            parallel=parallel,
            where=restricted(where),
            limit=limit,
            fresh=fresh,
            assume=_assumed(assume or ()),
            batch=batch,
        )
        out.document(found.document())
        out.text(str(found))


def _assumed(given: Iterable[str]) -> dict[str, float | str]:
    """Assumptions from NAME=N."""
    assumptions: dict[str, float | str] = {}
    for text in given:
        name, equals, value = text.partition("=")
        if not equals:
            raise Invalid(f"assume: write NAME=VALUE, like output_tokens=300, not {text!r}")
        assumptions[name.strip()] = _number(value.strip())
    return assumptions


def _number(text: str) -> float | str:
    """A number, or the text if it is not one."""
    try:
        return float(text)
    except ValueError:
        return text


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
        out.document(found.document())
        out.text(str(found))
