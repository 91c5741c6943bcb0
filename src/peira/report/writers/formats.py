"""Writes a report in the format of the file's suffix; the plug-ins of the kind "report"."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

import msgspec

from peira.analysis.results import Results
from peira.core.files import check_target, write_whole
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.blocks import plain_block
from peira.report.builder import Tell, build
from peira.report.sections.index import SECTIONS, Section, every_section, sections_of
from peira.report.value import Report
from peira.report.writers.html import html
from peira.report.writers.latex import latex
from peira.report.writers.markdown import markdown
from peira.report.writers.pdf import pdf

Render = Callable[[Report, Sequence[Section]], bytes]
"""Renders the sections of a report as bytes."""


def as_json(report: Report, sections: Sequence[Section] = SECTIONS) -> bytes:
    """The report as JSON: every field, and the sections of the HTML page block by block."""
    mine = sections_of(report, "html", sections)
    shown = [{"id": one.id, "blocks": [plain_block(block) for block in one.blocks]} for one in mine]
    document = {**msgspec.to_builtins(report), "sections": shown}
    return msgspec.json.format(msgspec.json.encode(document), indent=2) + b"\n"


RENDERERS: dict[str, Render] = {"html": html, "json": as_json, "md": markdown, "pdf": pdf, "tex": latex}
"""The renderers by file suffix."""


def register(registry: Registry) -> None:
    """Register the report formats."""
    for ending, render in RENDERERS.items():
        registry.add("report", ending, partial(_write, render))


def _write(
    render: Render,
    *,
    results: Results,
    path: Path,
    level: float = 0.95,
    trials: int = 200,
    tell: Tell = lambda stage: None,
) -> Report:
    """Build the report and write it atomically, replacing an earlier file."""
    _check(path)
    report = build(results.shown(), level=level, trials=trials, tell=tell)
    tell("writing")
    data = render(report, every_section())
    write_whole(path, data)
    return report


def _check(path: Path) -> None:
    """Raise Invalid unless the path can be written."""
    if path.is_dir():
        raise Invalid(f"{str(path)!r} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise Invalid(f"there is no folder {str(path.parent)!r} to write {path.name!r} in")
    check_target(path)
