"""How much code a minimal study of 16 trials executes, compared with other packages."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from sections.figures import Section, times
from sections.processes import PYTHON, SCRIPTS, Bench, Failed, finish, last_line, say
from sections.throughput import environment

OURS = "peira"
NEIGHBOURS = ("optuna", "dbos", "pydantic_evals")


def hello(bench: Bench) -> Section:
    """Each package in its own process; counts are deterministic, so once is enough."""
    rows: list[dict[str, Any]] = []
    failed: list[str] = []
    skipped: list[str] = []
    for package in (OURS, *NEIGHBOURS):
        try:
            python = PYTHON if package == OURS else environment(bench.cache, package.replace("_", "-"))
            rows.append(_counted(package, python, bench.scratch / package))
        except Failed as failure:
            (failed if package == OURS else skipped).append(str(failure))
    return Section(
        "hello: the code of each package that 16 trials execute, after it was imported",
        ("", "functions", "in files", f"{OURS} / this", "code objects", "in files", f"{OURS} / this"),
        [_line(row, rows[0]) for row in rows],
        {"rows": rows},
        [
            "a function is what def, async def or lambda makes, and counts if its body ran;",
            "code objects are functions, bodies of classes and comprehensions, not bodies of modules",
            "versions: " + ", ".join(f"{row['name']} {row['version']}" for row in rows),
        ],
        failed,
        skipped,
    )


def _counted(package: str, python: Path, folder: Path) -> dict[str, Any]:
    """Run the minimal example of one package and return its counts."""
    say(f"hello: {package}")
    folder.mkdir(parents=True)
    row: dict[str, Any] = json.loads(
        last_line(finish(package, [str(python), str(SCRIPTS / "hello.py"), package], cwd=folder))
    )
    return row


def _line(row: dict[str, Any], ours: dict[str, Any]) -> tuple[str, ...]:
    return (
        row["name"],
        f"{row['functions']:,}",
        f"{row['function_files']:,}",
        times(ours["functions"] / row["functions"]),
        f"{row['code']:,}",
        f"{row['code_files']:,}",
        times(ours["code"] / row["code"]),
    )
