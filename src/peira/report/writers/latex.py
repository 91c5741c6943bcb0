"""Writes a report as LaTeX: tables, and drafts of Methods, Results and Threats to validity.

The file compiles on its own (with LuaLaTeX or XeLaTeX for names in any script), and its parts can be copied
into a paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import assert_never

from peira.core.ids import short
from peira.core.text.latex import escaped, ruled
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
from peira.report.value import Report
from peira.report.writers.html import visible

HEAD = r"""\documentclass{article}
\usepackage{iftex}
\ifPDFTeX\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\usepackage{textcomp}\else\usepackage{fontspec}\fi
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage{booktabs}
\usepackage{tabularx}
\usepackage[margin=2.5cm]{geometry}"""


def latex(report: Report, sections: Sequence[Section] = SECTIONS) -> bytes:
    """Render the report as a LaTeX document."""
    mine = sections_of(report, "tex", sections)
    blocks = (part for section in mine for block in section.blocks for part in _rendered(block))
    parts = (*_opening(report_header(report)), *blocks, "\\end{document}")
    return ("\n\n".join(part for part in parts if part) + "\n").encode("utf-8", "replace")


def escape(text: str) -> str:
    """The text on one line with all special characters escaped."""
    return escaped(visible(text))


def _opening(top: ReportHeader) -> Iterator[str]:
    """Preamble, title and abstract."""
    yield f"% Written by peira from run {short(top.run)}; numbers are not to be edited by hand."
    yield HEAD
    yield f"\\title{{{escape(top.title)}}}\n\\date{{{escape(top.when)}}}"
    yield "\\begin{document}\n\\maketitle"
    yield f"\\begin{{abstract}}\n{escape(top.question)} {escape(top.answer)}\n\\end{{abstract}}"


def _rendered(block: ReportBlock) -> Iterator[str]:
    """A block as LaTeX; figures and transcripts are left out."""
    match block:
        case Heading():
            yield f"\\{'sub' * (block.level - 2)}section{{{escape(block.text)}}}"
        case Paragraph():
            yield escape(block.text)
        case Notes():
            yield from map(escape, block.lines)
        case Bullets():
            yield from map(_bullet, block.items)
        case GridBlock():
            yield _table(block)
        case Verdicts():
            yield _table(block.table)
        case Details():
            yield f"\\paragraph{{{escape(block.summary)}.}} {escape(block.aside)}".rstrip()
            for inside in block.blocks:
                yield from _rendered(inside)
        case FigureBlock() | Transcripts() | TrialsButton() | FormatOnly():
            return
        case _:
            assert_never(block)


def _bullet(item: Bullet) -> str:
    """A list item as a paragraph."""
    return f"\\paragraph{{{escape(item.lead)}.}} {escape(item.text)}" if item.lead else escape(item.text)


def _table(block: GridBlock) -> str:
    """A table with booktabs rules over the full width."""
    shown = [[visible(cell) for cell in row] for row in (block.grid.header, *block.grid.rows)]
    body = ruled(shown[0], shown[1:])
    columns = "".join(map(partial(_column, block), range(len(block.grid.header))))
    caption = f"\\caption{{{escape(block.caption)}}}\n" if block.caption else ""
    return (
        f"\\begin{{table}}[htbp]\n{caption}\\centering\\small\n"
        f"\\begin{{tabularx}}{{\\linewidth}}{{{columns}}}\n{body}\n\\end{{tabularx}}\n\\end{{table}}"
    )


def _column(block: GridBlock, at: int) -> str:
    """The LaTeX column type; every table has at least one column of flexible width."""
    if at in block.wide or (not block.wide and at == 0):
        return r">{\raggedright\arraybackslash}X"
    return "r" if at in block.numeric else "l"
