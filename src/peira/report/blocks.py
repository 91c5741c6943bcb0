"""Blocks: the parts of a report that sections return and writers render.

Writers (HTML, Markdown, LaTeX) know only blocks, not sections; sections know no writers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from dataclasses import fields as dataclass_fields
from typing import Any, ClassVar, Literal

from peira.core.text.result_value import TextGrid
from peira.report.plots.canvas import Plot
from peira.report.value import Report, TrialExample

# Blocks

ReportFormat = Literal["html", "md", "tex"]
"""An output format with sections of its own."""


@dataclass(frozen=True)
class Heading:
    """The title of a section (level 2) or subsection; `aside` is shown beside it in HTML."""

    kind: ClassVar[str] = "heading"
    text: str
    level: int = 2
    aside: str = ""


@dataclass(frozen=True)
class Paragraph:
    """A paragraph; `quiet` ones explain a table or a figure."""

    kind: ClassVar[str] = "paragraph"
    text: str
    quiet: bool = False


@dataclass(frozen=True)
class Notes:
    """Remarks on the blocks above, one line each."""

    kind: ClassVar[str] = "notes"
    lines: tuple[str, ...]


@dataclass(frozen=True)
class Bullet:
    """An item of a list; `lead` is its subject, `grave` marks important ones."""

    text: str
    lead: str = ""
    grave: bool = False


@dataclass(frozen=True)
class Bullets:
    """A list."""

    kind: ClassVar[str] = "bullets"
    items: tuple[Bullet, ...]


@dataclass(frozen=True)
class GridBlock:
    """A table.

    `numeric` columns are right-aligned; in LaTeX `wide` columns take the remaining width and the table has a
    `caption`.
    """

    kind: ClassVar[str] = "grid"
    grid: TextGrid
    numeric: tuple[int, ...] = ()
    wide: tuple[int, ...] = ()
    caption: str = ""


@dataclass(frozen=True)
class FigureBlock:
    """A plot, None if there is nothing to draw.

    `small` is its version for small screens, `grid` its numbers for formats without pictures.
    """

    kind: ClassVar[str] = "figure"
    name: str
    plot: Plot | None
    caption: str = ""
    small: Plot | None = None
    grid: TextGrid | None = None


@dataclass(frozen=True)
class VerdictLine:
    """The verdict on one hypothesis."""

    hypothesis: str
    statement: str
    verdict: str
    evidence: str


@dataclass(frozen=True)
class Verdicts:
    """The verdicts on the hypotheses: a list, or a table with a caption."""

    kind: ClassVar[str] = "verdicts"
    found: tuple[VerdictLine, ...]
    caption: str = "Hypotheses, as declared before the run."

    @property
    def table(self) -> GridBlock:
        """The verdicts as a table."""
        rows = [[one.hypothesis, one.statement, one.verdict, one.evidence] for one in self.found]
        header = ["hypothesis", "statement", "verdict", "evidence"]
        return GridBlock(TextGrid(header, rows), wide=(1, 3), caption=self.caption)


@dataclass(frozen=True)
class Details:
    """Blocks behind a collapsible summary in HTML; in other formats they follow it."""

    kind: ClassVar[str] = "details"
    summary: str
    blocks: tuple[ReportBlock, ...]
    aside: str = ""
    strong: bool = False


@dataclass(frozen=True)
class TrialsButton:
    """A button that shows the trials of a condition; HTML only."""

    kind: ClassVar[str] = "jump"
    condition: str


@dataclass(frozen=True)
class Transcripts:
    """Trials shown in full; `not_shown` says what is left out."""

    kind: ClassVar[str] = "transcripts"
    trials: tuple[TrialExample, ...]
    run: str
    not_shown: str = ""

    @property
    def conditions(self) -> list[str]:
        """The conditions of these trials, for a filter."""
        return list(dict.fromkeys(trial.condition for trial in self.trials))

    @property
    def verdicts(self) -> list[str]:
        """The verdicts on these trials (correct, wrong, failed, ...), for a filter."""
        return list(dict.fromkeys(trial.verdict for trial in self.trials))


@dataclass(frozen=True)
class FormatOnly:
    """Blocks for some formats; writers only see its contents."""

    kind: ClassVar[str] = "only"
    forms: tuple[ReportFormat, ...]
    blocks: tuple[ReportBlock, ...]


ReportBlock = (
    Heading
    | Paragraph
    | Notes
    | Bullets
    | GridBlock
    | FigureBlock
    | Verdicts
    | Details
    | TrialsButton
    | Transcripts
    | FormatOnly
)


# Opening


@dataclass(frozen=True)
class Badge:
    """A label at the top of the page; `section` is the id it links to, if any."""

    text: str
    style: str
    section: str = ""


@dataclass(frozen=True)
class ReportHeader:
    """What comes before the sections, and the versions that come after them."""

    title: str
    study: str
    run: str
    status: str
    when: str
    question: str
    answer: str
    declared: bool
    facts: tuple[tuple[str, str], ...]
    badges: tuple[Badge, ...]
    versions: tuple[tuple[str, str], ...]


def report_header(report: Report) -> ReportHeader:
    """The opening of a report."""
    names = ("title", "study", "run", "status", "when", "question", "answer", "declared", "facts", "versions")
    return ReportHeader(**{name: getattr(report, name) for name in names}, badges=tuple(_badges(report)))


def _badges(report: Report) -> Iterator[Badge]:
    """Badges for hypotheses, exploratory results and grave threats."""
    if report.declared:
        yield Badge("tested as declared", "declared")
        for one in report.findings:
            yield Badge(f"{one.hypothesis} {one.verdict}", one.verdict, "hypotheses")
    else:
        yield Badge("exploratory: no hypothesis was declared", "exploratory")
    for threat in report.threats:
        if threat.grave and not threat.title.startswith("Exploratory"):
            yield Badge(threat.title.lower(), "grave", "threats")


def plain_block(block: ReportBlock) -> dict[str, Any]:
    """A block for JSON: its kind and its fields.

    A plot becomes its alternative text; trials are given by id, since the report contains them elsewhere.
    """
    fields = {one.name: getattr(block, one.name) for one in dataclass_fields(block)}
    if isinstance(block, FigureBlock):
        fields |= {name: getattr(block, name) and getattr(block, name).alt for name in ("plot", "small")}
    if isinstance(block, GridBlock | FigureBlock) and block.grid is not None:
        fields["grid"] = block.grid._asdict()
    if isinstance(block, Details | FormatOnly):
        fields["blocks"] = [plain_block(inside) for inside in block.blocks]
    if isinstance(block, Transcripts):
        fields["trials"] = [trial.id for trial in block.trials]
    return {"block": block.kind, **fields}


def chosen_for(form: ReportFormat, blocks: Iterable[ReportBlock]) -> Iterator[ReportBlock]:
    """The blocks of this format, with `FormatOnly` resolved."""
    for block in blocks:
        if isinstance(block, FormatOnly):
            yield from chosen_for(form, block.blocks) if form in block.forms else ()
        elif isinstance(block, Details):
            yield replace(block, blocks=tuple(chosen_for(form, block.blocks)))
        else:
            yield block
