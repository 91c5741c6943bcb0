"""`peira report`: the report of a run, for people to read."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from peira.app.store.view import looking
from peira.cli.analysis_options import Level
from peira.cli.options import Json, Latest, RunName, Store
from peira.cli.output import CommandOutput, note
from peira.core.garbage_collector import collection_paused
from peira.core.ids import short
from peira.core.registry import registry
from peira.errors import Invalid


def report(
    run: RunName = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="A .html, .md, .tex, .json or .pdf file."),
    ] = None,
    plots: Annotated[
        Path | None,
        typer.Option("--plots", metavar="DIR", help="Also write every plot there, as .svg and .png."),
    ] = None,
    trials: Annotated[
        int, typer.Option("--trials", metavar="N", help="How many trials are shown whole (200).")
    ] = 200,
    level: Level = 0.95,
    latest: Latest = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Write a report of a run, for people to read.

    The question, the answer, and all that stands behind it. The file's ending says how; without -o it is
    STUDY-RUN.html. A report that was there is replaced. HTML is one file that needs no other, and no network.

    \b
    Examples:
      peira report
      peira report 3f2a91 -o report.html --plots figures
      peira report 3f2a91 -o results.tex
    """
    out = CommandOutput(as_json)
    with looking(store) as opened:
        opened.session.project.load_plugins()
        results = opened.results(run, latest)
        file = output or Path(f"{results.study}-{short(results.run_id)}.html")
        ending = file.suffix[1:].lower()
        if ending not in registry.names("report"):
            endings = ", ".join(f".{name}" for name in registry.names("report"))
            raise Invalid(f"-o: {file.name!r} must end in one of {endings}")
        options = {"level": level, "trials": trials, "tell": _progress}
        with collection_paused():
            made = registry.make("report", ending, results=results, path=file, **options)
            drawn = _write_plots(made, plots) if plots else []
        out.document({"run": results.run_id, "path": str(file), "answer": made.answer, "plots": drawn})
        out.text(f"{made.answer}\n{file}")
        if drawn:
            note(f"{len(drawn)} plots in {plots}")


def _write_plots(made: Any, folder: Path) -> list[str]:
    """Write all plots of the report; returns their files."""
    from peira.report.plots import save_all

    return [str(path) for path in save_all(made, folder)]


def _progress(stage: str) -> None:
    """Print what is being computed, if standard error is a terminal."""
    if sys.stderr.isatty():
        note(f"{stage} ...")
