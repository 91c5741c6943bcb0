"""Writing a report to a file, in the form that its ending names; whole, or not at all."""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from peira.analysis.results import Results
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.build import Tell, build
from peira.report.html import html
from peira.report.latex import latex
from peira.report.markdown import markdown
from peira.report.pdf import pdf
from peira.report.value import Report

Render = Callable[[Report], bytes]


def as_json(report: Report) -> bytes:
    """Every field of the report, by its name."""
    return msgspec.json.format(msgspec.json.encode(report), indent=2) + b"\n"


RENDERERS: dict[str, Render] = {"html": html, "json": as_json, "md": markdown, "pdf": pdf, "tex": latex}


def register(registry: Registry) -> None:
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
    """The report, written there; a report that was there before is replaced."""
    _check(path)
    report = build(results, level=level, trials=trials, tell=tell)
    tell("writing")
    data = render(report)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    beside.write_bytes(data)
    beside.replace(path)
    return report


def _check(path: Path) -> None:
    if path.is_dir():
        raise Invalid(f"{str(path)!r} is a folder; name a file in it")
    if not path.parent.is_dir():
        raise Invalid(f"there is no folder {str(path.parent)!r} to write {path.name!r} in")
