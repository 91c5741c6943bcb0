"""`peira means`, `slices`, `confusion`, `quantiles`, `ratio`, `surface`, `hypotheses`, `trust`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
import typer

from peira.analysis.judges.labels import Labels
from peira.analysis.results import Results
from peira.app.store.view import looking
from peira.cli.analysis_options import (
    TERMINAL,
    Level,
    Lowest,
    Presentable,
    Presentation,
    Score,
    only_factor,
    show,
)
from peira.cli.options import Json, RunName, Store
from peira.cli.output import CommandOutput, note
from peira.errors import Invalid

By = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="FACTOR", help="For each level of this factor, or agent; repeatable."),
]


def means(
    run: RunName = "",
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="FACTOR", help="A factor of the grid; repeatable. Else the only one."),
    ] = None,
    at: Annotated[
        list[str] | None,
        typer.Option(
            "--at", metavar="FACTOR=LEVEL", help="Hold a factor at this level; repeatable, also for one."
        ),
    ] = None,
    within: Annotated[
        list[str] | None,
        typer.Option("--within", metavar="FACTOR", help="Compare at equal levels of this; repeatable."),
    ] = None,
    baseline: Annotated[
        str | None, typer.Option("--baseline", metavar="LEVEL", help="Compare with this level of the first.")
    ] = None,
    interaction: Annotated[
        bool, typer.Option("--interaction", help="Differences of differences between the factors.")
    ] = False,
    correction: Annotated[
        str,
        typer.Option("--correction", metavar="NAME", help="holm, bh, bonferroni, tukey, dunnett or none."),
    ] = "holm",
    score: Score = None,
    level: Level = 0.95,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Show means over factors, adjusted for the others, and contrasts.

    A row for every combination of levels, as the model of the design expects it of all cases; factors that
    are not named are averaged over with equal weights, whatever was run more often or lost. Contrasts between
    the rows are one family.

    \b
    Examples:
      peira means --by model --by style --within style
      peira means 3f2a91 --by model --at style=plain --baseline small
      peira means --by model --by style --interaction --correction tukey
    """
    with looking(store) as opened:
        results = opened.results(run)
        found = results.marginal_means(
            *(by or [only_factor(results)]),
            at=_levels_at(at or ()),
            within=within or (),
            baseline=baseline,
            interaction=interaction,
            correction=None if correction == "none" else correction,
            score=score,
            level=level,
        )
        show(found, shown)


def _levels_at(given: Sequence[str]) -> dict[str, list[str]]:
    """The levels of each factor; Invalid with every option that is not FACTOR=LEVEL."""
    if problems := [f"--at: write FACTOR=LEVEL, not {one!r}" for one in given if "=" not in one]:
        raise Invalid(problems)
    found: dict[str, list[str]] = {}
    for one in given:
        name, _, level = one.partition("=")
        found.setdefault(name.strip(), []).append(level.strip())
    return found


def slices(
    run: RunName = "",
    by: Annotated[str, typer.Option("--by", metavar="FACTOR", help="Of this, instead of slices.")] = "slice",
    score: Score = None,
    level: Level = 0.95,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Show the means of slices, small ones pulled towards the rest.

    A slice of three cases that are all right is no proof: its mean is pulled towards the others as far as its
    own evidence is weak.

    \b
    Examples:
      peira slices
      peira slices 3f2a91 --by cluster --score match
    """
    with looking(store) as opened:
        show(opened.results(run).slices(by, score=score, level=level), shown)


def confusion(
    run: RunName = "",
    where: Annotated[
        str, typer.Option("--where", metavar="EXPRESSION", help='Only these trials: model == "small".')
    ] = "",
    level: Level = 0.95,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Show which answers were given for which expected ones.

    The confusion matrix, and for each label how many of those expected were answered (recall) and how many
    of those answered were expected (precision). For answers that are labels: short texts, whole numbers,
    true and false.

    \b
    Examples:
      peira confusion
      peira confusion 3f2a91 --where 'model == "small"'
    """
    with looking(store) as opened:
        results = opened.results(run)
        show((results.where(where) if where else results).confusion(level=level), shown)


def quantiles(
    run: RunName = "",
    by: By = None,
    score: Annotated[
        str, typer.Option("--score", metavar="NAME", help="Of this number; else of the seconds taken.")
    ] = "took",
    q: Annotated[
        list[float] | None, typer.Option("--q", metavar="Q", help="Which (0.5, 0.9, 0.99); repeatable.")
    ] = None,
    level: Level = 0.95,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Show medians and tails: of seconds, or of any number.

    Intervals assume nothing about the distribution, and count cases, not repeats of them.

    \b
    Examples:
      peira quantiles
      peira quantiles 3f2a91 --by model --q 0.5 --q 0.95
    """
    with looking(store) as opened:
        found = opened.results(run)
        show(found.quantiles(score, *(by or ()), q=tuple(q or (0.5, 0.9, 0.99)), level=level), shown)


def ratio(
    what: Annotated[
        str, typer.Argument(metavar="TOP/BOTTOM", help="Two numbers of each trial, as cost/match.")
    ],
    run: RunName = "",
    by: By = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="fieller (default), or delta.")
    ] = "fieller",
    level: Level = 0.95,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Show one total per another: cost per success.

    Scores, cost, took, or metrics that agents report. Fieller's interval says when there are too few
    successes to bound the ratio.

    \b
    Examples:
      peira ratio cost/match
      peira ratio took/match 3f2a91 --by model
    """
    top, slash, bottom = what.partition("/")
    if not (top and slash and bottom):
        raise Invalid(f"TOP/BOTTOM: write two names with a slash between them, as cost/match; not {what!r}")
    with looking(store) as opened:
        found = opened.results(run).ratio(top, bottom, *(by or ()), method=method, level=level)
        show(found, shown)


def surface(
    run: RunName = "",
    factor: Annotated[
        list[str] | None,
        typer.Option("--factor", metavar="NAME", help="Over this factor; repeatable. Else all numbers."),
    ] = None,
    score: Score = None,
    lowest: Lowest = False,
    level: Level = 0.95,
    store: Store = None,
    shown: Presentation = TERMINAL,
) -> None:
    """Say where a score is best, over factors that are numbers.

    A second-order surface: the best setting within what was run and how sure that is, where the surface turns
    and how, and whether it fits. Needs three or more values of each factor.

    \b
    Examples:
      peira surface
      peira surface 3f2a91 --factor temperature --factor length --score match
    """
    with looking(store) as opened:
        found = opened.results(run).surface(*(factor or ()), score=score, level=level, lowest=lowest)
        show(found, shown)


def hypotheses(run: RunName = "", store: Store = None, shown: Presentation = TERMINAL) -> None:
    """Say what became of the hypotheses that a study declared.

    Each is supported, rejected or undecided: by the declared test, at the declared alpha, with the declared
    correction over its plan. What a stopping rule followed is told as that rule saw it.

    \b
    Examples:
      peira hypotheses
      peira hypotheses 3f2a91 --json
    """
    with looking(store) as opened:
        show(opened.results(run).hypotheses(), shown)


def trust(
    run: RunName = "",
    labels: Annotated[
        str | None,
        typer.Option(
            "--labels", metavar="FILE", help="What people say: a CSV or JSONL file, or a field of metadata."
        ),
    ] = None,
    people: Annotated[
        str | None,
        typer.Option("--people", metavar="SCORE", help="What people say: a score of `person`."),
    ] = None,
    judge: Annotated[
        str | None, typer.Option("--judge", metavar="SCORE", help="The judge's score; as --score.")
    ] = None,
    score: Score = None,
    cut: Annotated[
        float | None, typer.Option("--cut", metavar="X", help="Scores and labels of at least X are a yes.")
    ] = None,
    by: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="FACTOR", help="Corrected means by this factor; repeatable."),
    ] = None,
    method: Annotated[
        str, typer.Option("--method", metavar="NAME", help="prediction-powered (default) or rogan-gladen.")
    ] = "prediction-powered",
    level: Level = 0.95,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Say how far a judge can be trusted: agreement, biases, corrected means.

    A row of the file is a label and the output it is about: its trial, or its case with as many of the
    factors and repeat as it takes. A CSV file of the results with a column `label` added is one. Without
    labels only what sways the judge is measured: the order of pairs, and length. With --people the labels are
    what people said by an evaluator `person`; of several raters their own agreement is shown, too.

    \b
    Examples:
      peira trust 3f2a91 --labels labels.csv --by model
      peira trust --labels human --score judge --cut 0.5
      peira trust 3f2a91 --judge helpful --people right
      peira trust 8d01c4
    """
    out = CommandOutput(as_json)
    with looking(store) as opened:
        results = opened.results(run)
        if labels is not None and people is not None:
            raise Invalid("--labels and --people: say once what people said")
        if labels is None and people is None and (by or cut is not None):
            raise Invalid("--labels or --people: say what people said; --by and --cut are about that")
        said: Labels | None = labels if people is None else results.people(people)
        found = _findings(results, said, score or judge, cut, by or (), method, level)
        if people is not None and (raters := results.raters(people, level=level)).raters > 1:
            found["raters"] = raters
        out.document({name: msgspec.Raw(one.to_json().encode()) for name, one in found.items()})
        out.text("\n\n".join(map(str, found.values())))
        if said is None:
            note("with --labels or --people: how far it agrees with people, and corrected means")


def _findings(
    results: Results,
    labels: Labels | None,
    score: str | None,
    cut: float | None,
    by: Sequence[str],
    method: str,
    level: float,
) -> dict[str, Presentable]:
    """The findings by name, in the order in which they are shown."""
    biases: Presentable = results.biases(labels=labels, score=score, level=level)
    if labels is None:
        return {"biases": biases}
    agreement = results.agreement(labels, score=score, cut=cut, level=level)
    found: dict[str, Presentable] = {"agreement": agreement, "biases": biases}
    if agreement.bias is not None:  # texts have no mean to correct
        found["corrected"] = results.corrected(labels, *by, score=score, cut=cut, method=method, level=level)
    return found
