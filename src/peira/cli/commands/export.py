"""`peira export`: the results of a run as files for other tools."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from peira.analysis.export_formats import guessed
from peira.app.store.view import looking
from peira.cli.options import Json, Latest, RunName, Store
from peira.cli.output import CommandOutput, note
from peira.core.ids import short
from peira.errors import Invalid


def export(
    run: RunName = "",
    path: Annotated[
        str,
        typer.Option(
            "-o", "--output", metavar="PATH", help="The file or folder to write; - is standard output."
        ),
    ] = "",
    format: Annotated[
        str | None,
        typer.Option(
            "--format",
            "-f",
            metavar="NAME",
            help="One of those above (see `peira list exports`); else by PATH.",
        ),
    ] = None,
    force: Annotated[
        bool, typer.Option("--force", help="Overwrite also what is not an earlier export.")
    ] = False,
    latest: Latest = False,
    raw: Annotated[
        bool, typer.Option("--raw", help="Do not hide keys of models that occur in answers.")
    ] = False,
    store: Store = None,
    as_json: Json = False,
) -> None:
    """Write the results of a run as files that other tools read.

    \b
    csv, csv-long   one row per trial, or per score      (.csv)
    excel           CSV that spreadsheets open safely    (.excel.csv)
    jsonl           everything, a JSON object per trial  (.jsonl)
    parquet         typed columns                        (.parquet)
    sqlite          tables with keys                     (.sqlite, .db)
    artifact        a folder for design-research-analysis
    codebook        what was varied and measured         (.codebook.md)
    study           the whole study, to read             (.study.md)
    archive         all of it, compressed                (.tar.gz, .tgz)
    attachments     a folder of the files that agents attached
    hf              a folder for Hugging Face datasets
    mlflow, wandb   a run in a tracker's folder or server

    A file is there whole or not at all, and the same results give the same bytes. Pipes and devices are
    written into; they and links are never replaced.

    \b
    Examples:
      peira export -o results.csv
      peira export 3f2a91 -o results.parquet
      peira export 3f2a91 -o - --format jsonl | jq .output
      peira export 3f2a91 -o study --format artifact
      peira export 3f2a91 -o study.tar.gz
      peira export 3f2a91 -o mlruns --format mlflow
    """
    out = CommandOutput(as_json)
    if not path:
        raise Invalid("-o: say where to write, as in: peira export -o results.csv")
    if path == "-" and as_json:
        raise Invalid("-o -: standard output holds the export; leave out --json")
    with looking(store) as opened:
        results = opened.results(run, latest)
        format = format or guessed(Path(path))
        results.export(path, format, force=force, raw=raw)
        out.document({"run": results.run_id, "study": results.study, "format": format, "path": path})
        if path != "-":
            note(f"{results.study}, run {short(results.run_id)}: written to {path}")
