"""Writes a report as one HTML file without external resources.

Model outputs are untrusted text: every value is escaped, control and bidirectional characters are made
visible, long texts are truncated with the rest behind a click, and a content security policy blocks all other
scripts and resources.
"""

from __future__ import annotations

import base64
import hashlib
import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from unicodedata import category

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from peira.core.chat.transcript import as_text
from peira.core.text.words import counted
from peira.report.blocks import FigureBlock, report_header
from peira.report.plots.canvas import WIDTH, Plot, available, inline, narrowed
from peira.report.sections.index import SECTIONS, Section, WrittenSection, sections_of
from peira.report.value import Report

BRIEF, LONGEST = 800, 20_000
"""The number of characters of a text that are shown at first, and that the file contains at most."""


def html(report: Report, sections: Sequence[Section] = SECTIONS) -> bytes:
    """Render the report as an HTML page."""
    script, mine = _file("report.js"), sections_of(report, "html", sections)
    page = (
        _environment()
        .get_template("report.html.j2")
        .render(
            top=report_header(report),
            sections=mine,
            undrawn="" if available() else _first_figure(mine),
            style=Markup(_file("report.css")),
            script=Markup(script),
            script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        )
    )
    return page.encode("utf-8", "replace")


def _first_figure(sections: Sequence[WrittenSection]) -> str:
    """The first figure, where the page says that plots are missing."""
    figures = (one for section in sections for one in section.blocks if isinstance(one, FigureBlock))
    return next((one.name for one in figures if one.plot is not None), "")


def _drawn(plot: Plot | None, name: str) -> Markup:
    """A plot as inline SVG; empty if there is none, or no matplotlib."""
    return Markup(inline(plot, name)) if plot is not None and available() else Markup("")


@cache
def _environment() -> Environment:
    """The Jinja environment with our filters and globals, created once."""
    loader = PackageLoader("peira.report", "templates")
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, trim_blocks=True)
    environment.filters["visible"] = visible
    environment.filters["unbroken"] = unbroken
    environment.filters["as_text"] = as_text
    environment.filters["entry_kind"] = lambda entry: type(entry).__struct_config__.tag
    environment.globals.update(brief=BRIEF, counted=counted, longest=LONGEST, full_width=WIDTH)
    environment.globals.update(drawn=_drawn, narrowed=narrowed)
    return environment


@cache
def _file(name: str) -> str:
    """A template file's text, read once."""
    return files("peira.report").joinpath("templates", name).read_text(encoding="utf-8")


def visible(text: object) -> str:
    """The text with control and bidirectional characters replaced by their code points."""
    shown = str(text)
    return shown if shown.isascii() and shown.isprintable() else "".join(map(_visible_character, shown))


def unbroken(text: str) -> str:
    """The text with non-breaking spaces in intervals and p-values."""
    return re.sub(r"p [<=] [\d.]|\S+ \[[^\],\[]+, [^\]]+\]", lambda one: one[0].replace(" ", "\u00a0"), text)


def _visible_character(character: str) -> str:
    """A character, or its code point in brackets if it is invisible."""
    if character in "\n\t" or category(character) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp"):
        return character
    if character in "\u200c\u200d":  # joiners, which many scripts need
        return character
    return f"\u27e6U+{ord(character):04X}\u27e7"
