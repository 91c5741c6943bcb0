"""Writes a report as PDF: the HTML report, printed by an installed browser."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from peira.core.ids import short
from peira.core.text.words import counted
from peira.errors import Invalid
from peira.report.sections.index import SECTIONS, Section
from peira.report.value import Report
from peira.report.writers.html import html

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
"""Programs to look for, in order."""
NEEDED = "pdf: needs a browser to print with: install chromium, or write .html and print that"
SECONDS = 120
"""The time limit of printing, in seconds."""


def browser() -> str | None:
    """The path of an installed browser; None if there is none."""
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def pdf(report: Report, sections: Sequence[Section] = SECTIONS) -> bytes:
    """Render the report as PDF by printing the HTML page, without the collapsed transcripts.

    Raises Invalid if there is no browser, or it fails to print.
    """
    program = browser()
    if program is None:
        raise Invalid(NEEDED)
    shown = (
        f"{counted(len(report.trials), 'trial')} are in the .html report; or: peira show "
        f"{short(report.run)} --trials"
    )
    with tempfile.TemporaryDirectory(prefix="peira-report-") as folder:
        page, paper = Path(folder, "report.html"), Path(folder, "report.pdf")
        paged = replace(report, trials=(), not_shown=shown if report.trials else "")
        page.write_bytes(html(paged, sections))
        _print(program, page, paper, folder)
        return paper.read_bytes()


def _print(program: str, page: Path, paper: Path, folder: str) -> None:
    """Print the page with a headless browser; raises Invalid if it fails or times out."""
    command = [
        program,
        "--headless",
        "--disable-gpu",
        "--no-pdf-header-footer",
        f"--user-data-dir={folder}/profile",
    ]
    command += ["--no-sandbox"] if os.geteuid() == 0 else []  # Chromium refuses to start as root otherwise
    try:
        done = subprocess.run(
            [*command, f"--print-to-pdf={paper}", page.as_uri()],
            capture_output=True,
            timeout=SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise Invalid(f"pdf: {Path(program).name} did not print within {SECONDS} s") from None
    if done.returncode or not paper.exists():
        last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
        raise Invalid(f"pdf: {Path(program).name} did not print: {' '.join(last) or done.returncode}")
