"""The page of calibration results: each section as last run, with a summary and what is outside."""

from __future__ import annotations

import re
from collections import Counter
from pathlib import Path

HEAD = """\
# Calibration

*Written by `make calibrate` (`python benchmarks/calibration/run.py --write docs/calibration.md`). Seeds are
fixed in the code: the same numbers come every time. `--only SECTION` runs and replaces one section.*

Is a 95% interval right 95 times in 100, and does a test at 0.05 cry wolf 5 times in 100? Simulated, or
enumerated where every outcome can be listed, for every interval and test that is a default. Asked for:
coverage of 0.94 to 0.97, rejection of 0.04 to 0.055 where nothing differs, and at most 0.05 under continuous
looking; or as close as the discreteness of the data permits, which stands beside it as *best attainable*:
what a method attains that knows everything but the answer. ± are two standard errors of the simulation.

| verdict | meaning |
|---|---|
| ok | within the limits, or as close as discreteness permits |
| wide, rarely | more cautious than it need be |
| TOO RARELY, TOO OFTEN | less than promised; "warned in 40%" says how often the output said so itself |
"""
SECTION = re.compile(r"^## (?P<title>.+?) \((?P<took>\d+) s\)\n\n(?P<table>(?:\|.*\n?)+)", re.MULTILINE)
OUTSIDE = ("TOO RARELY", "TOO OFTEN")


def sections(text: str) -> dict[str, tuple[str, str]]:
    """The sections of a page, each with its duration in seconds and its table."""
    return {found["title"]: (found["took"], found["table"].rstrip("\n")) for found in SECTION.finditer(text)}


def write(path: Path, fresh: dict[str, tuple[str, str]], order: list[str]) -> None:
    """Replace the sections that were run; keep the others unchanged."""
    kept = sections(path.read_text(encoding="utf-8")) if path.exists() else {}
    path.write_text(page({**kept, **fresh}, order), encoding="utf-8")


def page(known: dict[str, tuple[str, str]], order: list[str]) -> str:
    """The whole page as Markdown."""
    there = [title for title in order if title in known]
    rows = {title: [_cells(line) for line in known[title][1].splitlines()[2:]] for title in there}
    parts = [HEAD, _summary(rows), _outside(rows)]
    parts += [f"## {title} ({known[title][0]} s)\n\n{known[title][1]}\n" for title in there]
    return "\n".join(parts)


def _cells(line: str) -> list[str]:
    return [cell.strip() for cell in line.strip().strip("|").split("|")]


def _verdict(row: list[str]) -> str:
    return row[4].partition(" (")[0]


def _summary(rows: dict[str, list[list[str]]]) -> str:
    lines = ["| section | ok | wide or rarely | outside |", "|---|---|---|---|"]
    for title, found in rows.items():
        counts = Counter(_verdict(row) for row in found)
        outside = sum(counts[one] for one in OUTSIDE)
        lines.append(f"| {title} | {counts['ok']} | {counts['wide'] + counts['rarely']} | {outside} |")
    return "\n".join(lines) + "\n"


def _outside(rows: dict[str, list[list[str]]]) -> str:
    found = [row for each in rows.values() for row in each if _verdict(row) in OUTSIDE]
    lines = ["## What falls outside\n", "| method | situation | found | verdict |", "|---|---|---|---|"]
    lines += [f"| {row[0]} | {row[1]} | {row[2]} | {row[4]} |" for row in found]
    return "\n".join(lines) + "\n" if found else "## What falls outside\n\nNothing.\n"
