"""A report on paper: the HTML report, printed by a browser that is already there."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from dataclasses import replace
from pathlib import Path

from peira.core.ids import short
from peira.core.words import counted
from peira.errors import Invalid
from peira.report.html import html
from peira.report.value import Report

BROWSERS = (
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
    "chrome",
    "microsoft-edge",
)
NEEDED = "pdf: needs a browser to print with: install chromium, or write .html and print that"
SECONDS = 120


def browser() -> str | None:
    return next((found for name in BROWSERS if (found := shutil.which(name))), None)


def pdf(report: Report) -> bytes:
    """Without the transcripts: nobody can open them on paper."""
    program = browser()
    if program is None:
        raise Invalid(NEEDED)
    shown = (
        f"{counted(len(report.trials), 'trial')} are in the .html report; or: peira show "
        f"{short(report.run)} --trials"
    )
    with tempfile.TemporaryDirectory(prefix="peira-report-") as folder:
        page, paper = Path(folder, "report.html"), Path(folder, "report.pdf")
        page.write_bytes(html(replace(report, trials=(), not_shown=shown if report.trials else "")))
        _print(program, page, paper, folder)
        return paper.read_bytes()


def _print(program: str, page: Path, paper: Path, folder: str) -> None:
    command = [
        program,
        "--headless",
        "--disable-gpu",
        "--no-pdf-header-footer",
        f"--user-data-dir={folder}/profile",
    ]
    command += ["--no-sandbox"] if os.geteuid() == 0 else []  # it refuses to start as root otherwise
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
