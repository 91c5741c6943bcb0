"""Writes a report as Markdown: for a pull request, a wiki, a README."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import assert_never

from peira.core.chat.transcript import text_lines
from peira.core.ids import short
from peira.core.text import grid as layout
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
    ReportHeader,
    Transcripts,
    TrialsButton,
    Verdicts,
    report_header,
)
from peira.report.sections.index import SECTIONS, Section, sections_of
from peira.report.value import Report, TrialExample
from peira.report.writers.html import visible

MOST_TRIALS, BRIEF, LONGEST = 10, 500, 5_000


def markdown(report: Report, sections: Sequence[Section] = SECTIONS) -> bytes:
    """Render the report as Markdown."""
    mine = sections_of(report, "md", sections)
    blocks = (part for section in mine for block in section.blocks for part in _rendered(block))
    text = "\n\n".join(part for part in (*_opening(report_header(report)), *blocks) if part)
    return f"{text}\n".encode("utf-8", "replace")


def _opening(top: ReportHeader) -> Iterator[str]:
    """Title, question, answer and key figures."""
    run = f"run `{short(top.run)}`, {top.status}{f', {top.when}' if top.when else ''}"
    yield f"# {said(top.title)}"
    yield f"**Question.** {said(top.question)}"
    yield f"**Answer.** {said(top.answer)}"
    tested = "Tested as declared." if top.declared else "*Exploratory: no hypothesis was declared.*"
    yield f"{tested} {', '.join(f'{value} {name}' for name, value in top.facts)}; {run}."


def _rendered(block: ReportBlock) -> Iterator[str]:
    """A block as Markdown; figures become tables."""
    match block:
        case Heading():
            yield f"{'#' * block.level} {said(block.text)}"
        case Paragraph():
            yield said(block.text)
        case Notes():
            yield "\n".join(f"- {said(line)}" for line in block.lines)
        case Bullets():
            yield "\n".join(map(_bullet, block.items))
        case GridBlock():
            yield _grid(block.grid)
        case Verdicts():
            yield _grid(block.table.grid)
        case FigureBlock():
            yield _grid(block.grid) if block.grid else ""
        case Details():
            yield f"**{said(block.summary)}** {said(block.aside)}".rstrip()
            for inside in block.blocks:
                yield from _rendered(inside)
        case Transcripts():
            yield from _trials(block)
        case TrialsButton() | FormatOnly():
            return
        case _:
            assert_never(block)


def _bullet(item: Bullet) -> str:
    """A list item."""
    return f"- **{said(item.lead)}.** {said(item.text)}" if item.lead else f"- {said(item.text)}"


def _trials(block: Transcripts) -> Iterator[str]:
    """The first trials, and the command that shows all."""
    some = block.trials[:MOST_TRIALS]
    if len(block.trials) > len(some) or block.not_shown:
        yield f"{len(some)} of them; all: `peira show {short(block.run)} --trials`"
    for trial in some:
        yield f"### {said(trial.case)}, {said(trial.condition)}, repeat {trial.repeat}: {trial.verdict}"
        yield from _transcript(trial)


def _transcript(trial: TrialExample) -> Iterator[str]:
    """The texts of a trial in code fences, and its scores."""
    for name, text in (
        ("input", trial.input),
        ("expected", trial.expected),
        ("output", trial.output),
        ("answer", trial.answer),
        ("failure", trial.failure),
    ):
        if text:
            yield f"{name}:\n\n{_block(text)}"
    if trial.transcript is not None:
        said_there = "\n".join(text_lines(trial.transcript, BRIEF))
        yield f"transcript:\n\n{_block(said_there, LONGEST)}"
    if trial.scores:
        yield said("; ".join(f"{name} {value[:80]}" for name, value in trial.scores))


def _block(text: str, most: int = BRIEF) -> str:
    """A text in a code fence longer than any fence in it."""
    shown = visible(text[:most]) + (f"\n… ({len(text) - most:,} more characters)" if len(text) > most else "")
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def said(text: str) -> str:
    """The text on one line with all Markdown escaped."""
    line = " ".join(visible(text).split())
    line = line.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    line = re.sub(r"([|*_`\[\]~])", r"\\\1", line)
    return re.sub(r"^([#>+-]|\d+[.)])", r"\\\1", line)


def _grid(grid: TextGrid) -> str:
    """A table."""
    return layout.markdown(list(map(_cell, grid.header)), [list(map(_cell, row)) for row in grid.rows])


def _cell(text: str) -> str:
    """A cell on one line, without invisible characters."""
    return " ".join(visible(text).split())
