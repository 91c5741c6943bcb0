"""A report as Markdown: for a pull request, a wiki, a README."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from peira.analysis import layout
from peira.core.ids import short
from peira.report import cells
from peira.report.html import visible
from peira.report.numbers import spread
from peira.report.value import Report, Scored, Shown

MOST_TRIALS, BRIEF = 10, 500


def markdown(report: Report) -> bytes:
    text = "\n\n".join(part for part in _parts(report) if part)
    return f"{text}\n".encode("utf-8", "replace")


def _parts(report: Report) -> Iterator[str]:
    run = f"run `{short(report.run)}`, {report.status}{f', {report.when}' if report.when else ''}"
    yield f"# {said(report.title)}"
    yield f"**Question.** {said(report.question)}"
    yield f"**Answer.** {said(report.answer)}"
    tested = "Tested as declared." if report.declared else "*Exploratory: no hypothesis was declared.*"
    yield f"{tested} {', '.join(f'{value} {name}' for name, value in report.facts)}; {run}."
    if report.findings:
        yield "## Hypotheses"
        yield _grid(*cells.finding_cells(report))
    if report.main is not None:
        yield f"## {said(report.main.name)}"
        yield from _scored(report.main)
    for one in report.scores[1:]:
        yield f"### {said(one.name)}"
        yield from _scored(one)
    yield "## Cost and time"
    yield from map(said, report.spending.lines)
    yield _grid(report.spending.header, report.spending.rows) if report.spending.rows else ""
    yield "## Failures and what is missing"
    yield said(report.lost.sentence)
    if report.lost.kinds:
        yield _grid(
            ["stage", "kind", "how many", "for example", "where"], cells.failure_cells(report.lost.kinds)
        )
    yield _list(report.lost.bounds)
    yield "## The plan and the run"
    yield (
        _list([*report.deviations, *report.drift, *report.notes])
        or "No plan was frozen, and nothing watched for drift."
    )
    yield "## Methods"
    yield from map(said, report.methods)
    yield "## Threats to validity"
    yield "\n".join(f"- **{threat.title}.** {said(threat.text)}" for threat in report.threats)
    yield from _trials(report)


def _scored(one: Scored) -> Iterator[str]:
    if one.points and one.points[0].zero:
        yield _grid(["effect", f"change in {one.name}", ""], cells.point_cells(one.points))
    if one.table is not None:
        yield _grid(*cells.table_cells(one.table))
    for inter in one.interactions:
        header = [f"{inter.first} \\ {inter.second}", *inter.columns]
        rows = [[label, *map(spread, row)] for label, row in zip(inter.rows, inter.cells, strict=True)]
        yield _grid(header, rows)
    if one.board is not None:
        yield said(one.board.sentence)
    yield _list(one.notes)


def _trials(report: Report) -> Iterator[str]:
    some = report.trials[:MOST_TRIALS]
    if not some:
        return
    yield "## Trials"
    if len(report.trials) > len(some) or report.not_shown:
        yield f"{len(some)} of them; all: `peira show {short(report.run)} --trials`"
    for trial in some:
        yield f"### {said(trial.case)}, {said(trial.condition)}, repeat {trial.repeat}: {trial.state}"
        yield from _transcript(trial)


def _transcript(trial: Shown) -> Iterator[str]:
    for name, text in (
        ("input", trial.input),
        ("expected", trial.expected),
        ("output", trial.output),
        ("answer", trial.answer),
        ("failure", trial.failure),
    ):
        if text:
            yield f"{name}:\n\n{_block(text)}"
    if trial.scores:
        yield said("; ".join(f"{name} {value[:80]}" for name, value in trial.scores))


def _block(text: str) -> str:
    """A text as it is, in a fence that nothing in it can close."""
    shown = visible(text[:BRIEF]) + (
        f"\n… ({len(text) - BRIEF:,} more characters)" if len(text) > BRIEF else ""
    )
    fence = "`" * max(3, 1 + max(map(len, re.findall(r"`+", shown)), default=0))
    return f"{fence}text\n{shown}\n{fence}"


def said(text: str) -> str:
    """A text on one line that means nothing but itself."""
    line = " ".join(visible(text).split())
    line = line.replace("\\", "\\\\").replace("&", "&amp;").replace("<", "&lt;")
    line = re.sub(r"([|*_`\[\]~])", r"\\\1", line)
    return re.sub(r"^([#>+-]|\d+[.)])", r"\\\1", line)


def _list(lines: Sequence[str]) -> str:
    return "\n".join(f"- {said(line)}" for line in lines)


def _grid(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    return layout.markdown(list(map(_cell, header)), [list(map(_cell, row)) for row in rows])


def _cell(text: str) -> str:
    return " ".join(visible(text).split())
