"""The sections of a report: functions from the report to blocks, in one list.

To add a section to every format, write a function here and add a line to `SECTIONS`. Another package offers
one as a plug-in of the kind "section": a function without parameters that makes a `Section`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from peira.core.registry import registry
from peira.core.text.result_value import TextGrid
from peira.report.blocks import (
    Bullet,
    Bullets,
    Details,
    FigureBlock,
    FormatOnly,
    GridBlock,
    Heading,
    Notes,
    Paragraph,
    ReportBlock,
    ReportFormat,
    Transcripts,
    TrialsButton,
    VerdictLine,
    Verdicts,
    chosen_for,
)
from peira.report.labels import spread
from peira.report.plots.curves import calibration, cases, convergence, pareto, sensitivity
from peira.report.plots.distributions import costs, distribution, seconds
from peira.report.plots.effects import forest, half_normal, interaction
from peira.report.sections import _cells as cells
from peira.report.value import Report, ReportedCondition, Scored

# Sections as values

Blocks = Iterator[ReportBlock]
FORMS: tuple[ReportFormat, ...] = ("html", "md", "tex")
PAGE: tuple[ReportFormat, ...] = ("html",)
TEXT: tuple[ReportFormat, ...] = ("md",)
PAPER: tuple[ReportFormat, ...] = ("tex",)
SCREEN: tuple[ReportFormat, ...] = ("html", "md")


@dataclass(frozen=True)
class Section:
    """A section: its anchor id, the function that makes its blocks, and the formats it is in.

    A section without blocks is left out.
    """

    id: str
    blocks: Callable[[Report], Iterable[ReportBlock]]
    forms: tuple[ReportFormat, ...] = FORMS


@dataclass(frozen=True)
class WrittenSection:
    """A section with its blocks for one format."""

    id: str
    blocks: tuple[ReportBlock, ...]


def sections_of(report: Report, form: ReportFormat, sections: Sequence[Section]) -> list[WrittenSection]:
    """The non-empty sections of a report in this format, in order.

    Blocks for other formats are removed, so that writers render all they get.
    """
    mine = (section for section in sections if form in section.forms)
    written = [WrittenSection(one.id, tuple(chosen_for(form, one.blocks(report)))) for one in mine]
    return [one for one in written if one.blocks]


# Sections


def result(report: Report) -> Blocks:
    """The main score: forest plot, means and notes."""
    if (main := report.main) is None:
        return
    yield Heading(main.name, aside="(lower is better)" if main.lower_is_better else "")
    caption = "Filled: declared before the run, or a mean; hollow: exploratory"
    caption = caption if any(point.zero for point in main.points) else ""
    yield FigureBlock("forest", forest(report), caption, forest(report, narrow=True), _points(main))
    yield from _means(main)
    yield FigureBlock("distribution", distribution(report))
    yield FormatOnly(TEXT, tuple(_together(main)))
    yield Notes(main.notes)


def hypotheses(report: Report) -> Blocks:
    """The verdicts on the declared hypotheses."""
    if report.findings:
        yield Heading("Hypotheses")
        yield _verdicts(report)


def effects(report: Report) -> Blocks:
    """The effects and interactions of the main score."""
    main = report.main
    if main is None or main.effects is None or not main.effects.effects:
        return
    yield Heading("Effects and interactions")
    yield FigureBlock("interaction", interaction(report), small=interaction(report, narrow=True))
    yield _effects(main)
    about = "Effects that no hypothesis is about are exploratory; these"
    about = about if report.declared else "All of this is exploratory. These"
    yield Paragraph(f"{about} p-values are not corrected for being many.", quiet=True)
    yield FigureBlock("half-normal", half_normal(report))
    if main.effects.means:
        table = GridBlock(TextGrid(*cells.marginal_cells(main)), numeric=(2,))
        yield Details("Means by level of each factor", (table,))


def ranking(report: Report) -> Blocks:
    """The leaderboard of the main score."""
    if report.main is None or report.main.board is None:
        return
    yield Heading("Ranking")
    yield Paragraph(report.main.ranking)
    yield GridBlock(TextGrid(*cells.board_cells(report.main.board)), numeric=(2, 4, 5, 6, 7))
    yield Paragraph(
        "Ranks hold together with the chance that the intervals say; entries that share a letter cannot be "
        "told apart.",
        quiet=True,
    )


def slices(report: Report) -> Blocks:
    """The means of the slices of cases."""
    if report.slices is None or not report.slices.slices:
        return
    yield Heading("Slices")
    yield Paragraph(
        "Means of parts of the cases; those of small parts are pulled towards the rest.", quiet=True
    )
    [grid] = report.slices.grids()
    yield GridBlock(grid, numeric=(1, 2, 3, 4), caption="Means by slice of the cases.")


def other_scores(report: Report) -> Blocks:
    """The other scores, collapsed."""
    if len(report.scores) < 2:
        return
    yield Heading("Other scores")
    for one in report.scores[1:]:
        inside: list[ReportBlock] = [*map(Paragraph, one.sentences), *_means(one)]
        inside += [_effects(one)] if one.effects is not None and one.effects.effects else []
        yield Details(one.name, tuple(inside), cells.headline(one), strong=True)


def other_scores_in_full(report: Report) -> Blocks:
    """The other scores, expanded."""
    for one in report.scores[1:]:
        yield Heading(one.name, level=3)
        yield FigureBlock("forest", None, grid=_points(one))
        yield from _means(one)
        yield from _together(one)
        yield Notes(one.notes)


def cost(report: Report) -> Blocks:
    """Cost and time, and the Pareto plot."""
    yield Heading("Cost and time")
    yield from map(Paragraph, report.spending.lines)
    if report.spending.rows:
        yield GridBlock(TextGrid(report.spending.header, report.spending.rows), numeric=(1, 2, 3, 4))
    yield FigureBlock("pareto", pareto(report))
    yield FigureBlock("costs", costs(report))
    yield FigureBlock("seconds", seconds(report))


def failures(report: Report) -> Blocks:
    """Failures and worst-case bounds."""
    lost = report.lost
    yield Heading("Failures and what is missing")
    yield Paragraph(lost.sentence)
    if lost.kinds:
        header = ["stage", "cause", "kind", "how many", "for example", "where"]
        yield GridBlock(TextGrid(header, cells.failure_cells(lost.kinds)), numeric=(3,))
    if lost.bounds:
        introduction = "What that could have changed, had everything that is missing gone badly or well:"
        yield FormatOnly(PAGE, (Paragraph(introduction),))
        yield _list(lost.bounds)
    if lost.curves:
        yield Heading("How different would the lost trials have to be?", level=3)
        yield _list([one.sentence for one in lost.curves])
        yield FigureBlock("sensitivity", sensitivity(report), SENSITIVITY, grid=_curve_grid(report))


SENSITIVITY = (
    "Lost trials are imputed from their like (other repeats of the case, or the other side on the case), "
    "and shifted against the difference."
)


def _curve_grid(report: Report) -> TextGrid:
    """The sensitivity curves as a table: a row for each shift of the lost trials."""
    header = ["difference", "lost trials differ by", "difference then"]
    rows = [
        [f"{one.first} - {one.second}", f"{point.shift:.2g}", spread(point.difference)]
        for one in report.lost.curves
        for point in one.points
    ]
    return TextGrid(header, rows)


def plan(report: Report) -> Blocks:
    """Deviations from the frozen plan, drift, convergence, calibration and the heat map."""
    yield Heading("The plan and the run")
    yield Heading("Deviations from the frozen plan", level=3)
    none = "No plan was frozen before the run, so there is nothing to deviate from."
    yield _list(report.deviations) if report.deviations else Paragraph(none)
    yield Heading("Drift", level=3)
    none = "The study has no anchors: a drift during the run would not have been seen."
    yield _list(report.drift) if report.drift else Paragraph(none)
    found, heat = report.convergence, report.heat
    band = "The band is an interval that may be looked at at any time" if found and found.always else ""
    yield FigureBlock("convergence", convergence(report), band)
    yield FigureBlock("calibration", calibration(report))
    left = f"{heat.left_out:,} more cases are left out, evenly" if heat and heat.left_out else ""
    yield FigureBlock("cases", cases(report), left)
    yield Notes(report.notes)


def plan_in_short(report: Report) -> Blocks:
    """Deviations, drift and notes as one list."""
    yield Heading("The plan and the run")
    lines = (*report.deviations, *report.drift, *report.notes)
    yield _list(lines) if lines else Paragraph("No plan was frozen, and nothing watched for drift.")


def methods(report: Report) -> Blocks:
    """The methods paragraphs."""
    yield Heading("Methods")
    yield from map(Paragraph, report.methods)


def methods_and_deviations(report: Report) -> Blocks:
    """The methods paragraphs with the deviations from the frozen plan."""
    yield from methods(report)
    yield from map(Paragraph, report.deviations)


def results(report: Report) -> Blocks:
    """The results section of a paper."""
    yield Heading("Results")
    alone = "" if report.declared else " This is exploratory: no hypothesis was declared."
    yield Paragraph(f"{report.answer}{alone}")
    if report.findings:
        yield _verdicts(report)
    for one in report.scores:
        if one.effects is not None and one.effects.effects:
            yield _effects(one)
        yield from _means(one)
    yield Paragraph(report.lost.sentence)
    yield from map(Paragraph, (*report.lost.bounds, *report.drift, *report.spending.lines))


def threats(report: Report) -> Blocks:
    """The threats to validity."""
    yield Heading("Threats to validity")
    if report.threats:
        yield Bullets(tuple(Bullet(one.text, one.title, one.grave) for one in report.threats))
    else:
        yield FormatOnly(PAGE, (Paragraph("There is nothing to doubt yet."),))


def conditions(report: Report) -> Blocks:
    """The conditions with their means."""
    if not report.conditions:
        return
    yield Heading("Conditions")
    shown = {trial.condition for trial in report.trials}
    for one in report.conditions:
        failed = f", {one.failed:,} failed" if one.failed else ""
        inside = (_condition(one), *([TrialsButton(one.label)] if one.label in shown else []))
        yield Details(one.label, inside, f"{one.trials:,} trials{failed}")
    if report.conditions_left:
        yield Paragraph(f"{report.conditions_left:,} more conditions are not listed here.", quiet=True)


def trials(report: Report) -> Blocks:
    """The trials shown in full."""
    blocks = (Heading("Trials"), Transcripts(report.trials, report.run, report.not_shown))
    if report.trials:
        yield from blocks
    elif report.not_shown:
        yield FormatOnly(PAGE, blocks)


# The list

SECTIONS = (
    Section("methods", methods_and_deviations, PAPER),
    Section("hypotheses", hypotheses, TEXT),
    Section("results", results, PAPER),
    Section("result", result, SCREEN),
    Section("hypotheses", hypotheses, PAGE),
    Section("effects", effects, PAGE),
    Section("ranking", ranking, PAGE),
    Section("slices", slices),
    Section("scores", other_scores, PAGE),
    Section("scores", other_scores_in_full, TEXT),
    Section("cost", cost, SCREEN),
    Section("failures", failures, SCREEN),
    Section("plan", plan, PAGE),
    Section("plan", plan_in_short, TEXT),
    Section("methods", methods, SCREEN),
    Section("threats", threats),
    Section("conditions", conditions, PAGE),
    Section("trials", trials, SCREEN),
)
"""All sections in order; each line says which formats it is for."""


# Blocks that sections share


def every_section() -> tuple[Section, ...]:
    """Those of `SECTIONS`, and after them those of other packages, by name."""
    return (*SECTIONS, *(registry.make("section", name) for name in registry.names("section")))


def _points(one: Scored) -> TextGrid | None:
    """The forest plot as a table; None for means, which have a table already."""
    if not one.points or not one.points[0].zero:
        return None
    return TextGrid(["effect", f"change in {one.name}", ""], cells.point_cells(one.points))


def _means(one: Scored) -> Blocks:
    """The table of means."""
    if one.table is not None:
        grid, labels = one.table.report_grid(), len(one.table.by)
        caption = f"Means of {one.name} with {100 * one.table.level:g}% intervals."
        yield GridBlock(grid, tuple(range(labels, len(grid.header))), (labels,), caption)


def _effects(one: Scored) -> GridBlock:
    """The table of effects."""
    level = one.effects.level if one.effects else 0.95
    caption = f"Effects on {one.name} with {100 * level:g}% intervals."
    return GridBlock(TextGrid(*cells.effect_cells(one)), (2, 3), (1,), caption)


def _together(one: Scored) -> Blocks:
    """Interaction tables and the leaderboard's sentence."""
    for inter in one.interactions:
        header = [f"{inter.first} \\ {inter.second}", *inter.columns]
        rows = [[label, *map(spread, row)] for label, row in zip(inter.rows, inter.cells, strict=True)]
        yield GridBlock(TextGrid(header, rows))
    if one.board is not None:
        yield Paragraph(one.ranking)


def _verdicts(report: Report) -> Verdicts:
    """The verdicts as a block."""
    return Verdicts(
        tuple(
            VerdictLine(one.hypothesis, one.statement, one.verdict, cells.finding(one))
            for one in report.findings
        )
    )


def _list(lines: Iterable[str]) -> Bullets:
    """Lines as a list."""
    return Bullets(tuple(map(Bullet, lines)))


def _condition(one: ReportedCondition) -> ReportBlock:
    """The means of a condition, or why there are none."""
    if one.means:
        return GridBlock(TextGrid(["score", "mean and interval"], one.means), numeric=(1,))
    return Paragraph("Its means are not in the table: there are too many conditions.", quiet=True)
