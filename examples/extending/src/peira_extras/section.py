"""`sample`: a section of the report that says how large each side of the comparison is."""

from __future__ import annotations

from collections.abc import Iterator

from peira.analysis.value import TextGrid
from peira.core.registry import Registry
from peira.report.blocks import GridBlock, Heading, Paragraph, ReportBlock
from peira.report.sections.index import Section
from peira.report.value import Report


def sample(report: Report) -> Iterator[ReportBlock]:
    """A section without blocks is left out."""
    if not report.conditions:
        return
    least = min(one.trials - one.failed for one in report.conditions)
    yield Heading("Sample")
    yield Paragraph(f"The smallest condition has {least:,} trials that succeeded.")
    rows = [[one.label, f"{one.trials:,}", f"{one.failed:,}"] for one in report.conditions]
    yield GridBlock(TextGrid(["condition", "trials", "failed"], rows), numeric=(1, 2))


def section() -> Section:
    return Section("sample", sample)


def register(registry: Registry) -> None:
    registry.add("section", "sample", section)
