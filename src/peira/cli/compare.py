"""`peira compare`: two runs, or the levels of a factor within one."""

from __future__ import annotations

from typing import Annotated, get_args

import typer

from peira.analysis.family import Correction
from peira.api.look import Opened
from peira.cli.asked import Factor, First, Level, Reduce, Score, Second, only_factor, results_of, show
from peira.cli.options import Json, Store
from peira.core.registry import nearest
from peira.errors import Invalid


def compare(
    a: Annotated[str, typer.Argument(metavar="[A]", help="A run; without it, the newest.")] = "",
    b: Annotated[str, typer.Argument(metavar="[B]", help="Another run, to compare the first with.")] = "",
    by: Factor = None,
    first: First = None,
    second: Second = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="LEVEL", help="Compare all others with this level.")
    ] = None,
    score: Score = None,
    slice: Annotated[
        str | None, typer.Option("--slice", metavar="NAME", help="Only cases of this slice.")
    ] = None,
    correction: Annotated[
        str,
        typer.Option("--correction", metavar="NAME", help="holm (default), bh, dunnett, tukey, none."),
    ] = "holm",
    margin: Annotated[
        float | None, typer.Option("--margin", metavar="X", help="A difference too small to matter.")
    ] = None,
    test: Annotated[
        str, typer.Option("--test", metavar="NAME", help="permutation, wilcoxon, ...; else what fits.")
    ] = "",
    reduce: Reduce = "",
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Compare two runs, or the levels of a factor, case by case.

    The difference with its interval, a test, an effect size, and what it rests on. Several comparisons are
    one family, corrected together.

    \b
    Examples:
      peira compare 3f2a91 8d01c4
      peira compare 3f2a91 --by model --baseline small
      peira compare --by style --margin 0.02 --json
    """
    opened = Opened(store)
    results = results_of(opened, a, reduce)
    if b and (by or first or second or baseline):
        raise Invalid("B: two runs are compared whole; leave out --by, --first, --second and --baseline")
    found = results.compare(
        results_of(opened, b, reduce) if b else by or only_factor(results),
        first,
        second,
        score=score,
        slice=slice,
        baseline=baseline,
        correction=_correction(correction),
        level=level,
        margin=margin,
        test=test,
    )
    show(found, as_json)


def _correction(name: str) -> Correction | None:
    known = {str(one): one for one in get_args(Correction)}
    if name not in ("none", *known):
        raise Invalid(f"--correction: there is no {name!r}{nearest(name, ['none', *known])}")
    return known.get(name)
