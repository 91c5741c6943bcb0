"""A report as LaTeX: tables, and a draft of the sections Methods, Results and Threats to validity.

It compiles by itself (LuaLaTeX or XeLaTeX for names in any script), and its parts can be taken into a paper.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from peira.core.ids import short
from peira.report import cells
from peira.report.html import visible
from peira.report.value import Report, Scored

HEAD = r"""\documentclass{article}
\usepackage{iftex}
\ifPDFTeX\usepackage[utf8]{inputenc}\usepackage[T1]{fontenc}\usepackage{textcomp}\else\usepackage{fontspec}\fi
\IfFileExists{lmodern.sty}{\usepackage{lmodern}}{}
\usepackage{booktabs}
\usepackage{tabularx}
\usepackage[margin=2.5cm]{geometry}"""

SPECIAL = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "&": r"\&",
    "#": r"\#",
    "%": r"\%",
    "_": r"\_",
    "^": r"\textasciicircum{}",
    "~": r"\textasciitilde{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\textquotedbl{}",
    "`": r"\textasciigrave{}",
    "'": r"\textquotesingle{}",
    "[": "{[}",
    "]": "{]}",
    "-": "{-}",
    "\u00b2": r"\textsuperscript{2}",
    "\u2026": r"\dots{}",
}


def latex(report: Report) -> bytes:
    return ("\n\n".join(part for part in _parts(report) if part) + "\n").encode("utf-8", "replace")


def escape(text: str) -> str:
    """The text on one line, every character of it meaning itself."""
    line = " ".join(visible(text).split())
    return "".join(SPECIAL.get(character, character) for character in line)


def _parts(report: Report) -> Iterator[str]:
    yield f"% Written by peira from run {short(report.run)}; numbers are not to be edited by hand."
    yield HEAD
    yield f"\\title{{{escape(report.title)}}}\n\\date{{{escape(report.when)}}}"
    yield "\\begin{document}\n\\maketitle"
    yield f"\\begin{{abstract}}\n{escape(report.question)} {escape(report.answer)}\n\\end{{abstract}}"
    yield "\\section{Methods}"
    yield from map(escape, report.methods)
    yield from map(escape, report.deviations)
    yield "\\section{Results}"
    yield escape(
        report.answer
        if report.declared
        else f"{report.answer} This is exploratory: no hypothesis was declared."
    )
    if report.findings:
        yield _table("Hypotheses, as declared before the run.", *cells.finding_cells(report), "lXlX")
    for one in report.scores:
        yield from _scored(one, report.level)
    yield escape(report.lost.sentence)
    yield from map(escape, (*report.lost.bounds, *report.drift, *report.spending.lines))
    yield "\\section{Threats to validity}"
    yield from (f"\\paragraph{{{escape(threat.title)}.}} {escape(threat.text)}" for threat in report.threats)
    yield "\\end{document}"


def _scored(one: Scored, level: float) -> Iterator[str]:
    if one.effects is not None and one.effects.effects:
        header, rows = cells.effect_cells(one)
        yield _table(f"Effects on {one.name} with {100 * level:g}% intervals.", header, rows, "lXrr")
    if one.table is not None:
        header, rows = cells.table_cells(one.table)
        columns = "l" * len(one.table.by) + "Xrrr" if one.table.by else "Xrrr"
        yield _table(f"Means of {one.name} with {100 * level:g}% intervals.", header, rows, columns)


def _table(caption: str, header: Sequence[str], rows: Sequence[Sequence[str]], columns: str) -> str:
    lines = [" & ".join(map(escape, row)) + r" \\" for row in (header, *rows)]
    body = "\n".join([r"\toprule", lines[0], r"\midrule", *lines[1:], r"\bottomrule"])
    made = columns.replace("X", r">{\raggedright\arraybackslash}X")
    return (
        f"\\begin{{table}}[htbp]\n\\caption{{{escape(caption)}}}\n\\centering\\small\n"
        f"\\begin{{tabularx}}{{\\linewidth}}{{{made}}}\n{body}\n\\end{{tabularx}}\n\\end{{table}}"
    )
