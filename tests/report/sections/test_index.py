"""Sections are blocks, and every writer writes every block."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import pytest

from peira.analysis.table.value import Table, TableRow
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
    Transcripts,
    TrialsButton,
    VerdictLine,
    Verdicts,
    chosen_for,
)
from peira.report.builder import build
from peira.report.sections.index import FORMS, SECTIONS, Section, sections_of
from peira.report.value import Report, Scored
from peira.report.writers.formats import as_json
from peira.report.writers.html import html
from peira.report.writers.latex import latex
from peira.report.writers.markdown import markdown

Make = Callable[..., Any]
WRITERS = {"html": html, "md": markdown, "tex": latex, "json": as_json}
ODD = "odd <u> & {x}"
ESCAPED = {
    "html": "odd &lt;u&gt; &amp; {x}",
    "md": "odd &lt;u> &amp; {x}",
    "tex": r"odd \textless{}u\textgreater{} \& \{x\}",
    "json": ODD,
}
GRID = TextGrid(["a", ODD], [["1", "2"]])
BLOCKS: dict[type, ReportBlock] = {
    Heading: Heading(ODD),
    Paragraph: Paragraph(ODD, quiet=True),
    Notes: Notes((ODD,)),
    Bullets: Bullets((Bullet(ODD, "lead", grave=True), Bullet("b"))),
    GridBlock: GridBlock(GRID, numeric=(0,)),
    FigureBlock: FigureBlock("own", None, grid=GRID),
    Verdicts: Verdicts((VerdictLine("H1", ODD, "supported", "much"),)),
    Details: Details(ODD, (Paragraph("inside"),), "aside"),
    TrialsButton: TrialsButton(ODD),
    Transcripts: Transcripts((), "f" * 64, ODD),
}
SILENT = {
    (FigureBlock, "tex"),
    (TrialsButton, "md"),
    (TrialsButton, "tex"),
    (Transcripts, "md"),
    (Transcripts, "tex"),
}
"""What a form has no way to show."""


def test_every_kind_of_block_is_tried_here() -> None:
    assert set(BLOCKS) == set(get_args(ReportBlock)) - {FormatOnly}


@pytest.mark.parametrize("form", WRITERS)
@pytest.mark.parametrize("kind", BLOCKS, ids=lambda kind: kind.__name__)
def test_every_writer_writes_every_block_as_text(built: Report, kind: type, form: str) -> None:
    own = Section("own", lambda report: [BLOCKS[kind]])
    page = WRITERS[form](built, [own]).decode()
    assert (ESCAPED[form] in page) == ((kind, form) not in SILENT)
    if form != "json":
        assert "<u>" not in page


def test_a_section_of_ones_own_stands_where_the_list_says(built: Report) -> None:
    own = Section("own", lambda report: [Heading("My own"), Paragraph(f"of {len(report.scores)} scores")])
    at = next(n for n, section in enumerate(SECTIONS) if section.id == "threats")
    sections = (*SECTIONS[:at], own, *SECTIONS[at:])
    page, text, paper, document = (write(built, sections).decode() for write in WRITERS.values())
    assert page.index("<h2>My own</h2>") < page.index("Threats to validity</h2>")
    assert text.index(f"## My own\n\nof {len(built.scores)} scores") < text.index("## Threats to validity")
    assert paper.index("\\section{My own}") < paper.index("\\section{Threats to validity}")
    found = {section["id"]: section["blocks"] for section in json.loads(document)["sections"]}
    assert found["own"][0] == {"block": "heading", "text": "My own", "level": 2, "aside": ""}
    assert re.sub(r'<section id="own">.*?</section>\s*', "", page, flags=re.DOTALL) == html(built).decode()


def test_blocks_for_some_forms_are_in_no_other() -> None:
    said = FormatOnly(("md",), (Paragraph("for text"),))
    blocks: list[ReportBlock] = [Paragraph("for all"), said, Details("more", (said,))]
    assert list(chosen_for("md", blocks)) == [
        Paragraph("for all"),
        Paragraph("for text"),
        Details("more", (Paragraph("for text"),)),
    ]
    assert list(chosen_for("tex", blocks)) == [Paragraph("for all"), Details("more", ())]


def test_a_section_without_blocks_is_left_out(built: Report) -> None:
    assert sections_of(built, "html", [Section("none", lambda report: [])]) == []


@pytest.mark.parametrize("form", FORMS)
def test_a_form_has_every_section_once(form: Any) -> None:
    ids = [section.id for section in SECTIONS if form in section.forms]
    assert len(ids) == len(set(ids))


def test_a_table_of_a_paper_has_as_many_columns_as_its_rows(trial: Make, results: Make) -> None:
    """Also where outputs without an answer are counted in a column of their own."""
    table = Table(("model",), 0.95, (TableRow(("a",), "m", 0.5, 0.4, 0.6, 9, 9, 1, 0, "exact", 2, 3),))
    scored = Scored("m", True, False, "", (), (), None, table)
    report = build(results([trial(n, {"match": True}) for n in range(3)]))
    paper = latex(replace(report, scores=(scored,))).decode()
    columns = re.search(r"\\begin{tabularx}{\\linewidth}{l>{\\raggedright\\arraybackslash}X(r+)}", paper)
    assert columns is not None
    assert len(columns[1]) == 5
    assert "no verdict" in paper
