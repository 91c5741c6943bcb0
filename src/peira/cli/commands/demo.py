"""`peira demo`: a real factorial study on a real model inside this process, from nothing to its answer."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Annotated

import typer

import peira.app as api
from peira.analysis.results import Results
from peira.app.models import named
from peira.app.run import RunOptions, execute
from peira.app.session import Session
from peira.cli.commands.init import starter
from peira.cli.output import CommandOutput, means
from peira.cli.run_summary import headline
from peira.core.ids import short
from peira.errors import Invalid
from peira.spec.project import Project

STUDY = "small_model.py"
MODEL, STAND_IN = "local:smollm2", "scripted:"
PARALLEL = 4


def demo(
    store: Annotated[
        str | None, typer.Option("--store", metavar="PATH", help="Keep it here, not in a temporary folder.")
    ] = None,
    model: Annotated[
        str, typer.Option("--model", metavar="MODEL", help="Ask another model, like openai:gpt-5-mini.")
    ] = MODEL,
) -> int:
    """See it work: a small factorial study of a real model.

    The model (SmolLM2, 135 million parameters) runs in this process: no key and no network are needed, and it
    takes about a minute. Where its wheels are not installed a scripted stand-in is asked instead. The files
    stay in a temporary folder (or beside --store), so that you can look at them.

    \b
    Examples:
      peira demo
      peira demo --store demo.db
      peira demo --model ollama:llama3.2
    """
    folder = Path(tempfile.mkdtemp(prefix="peira-demo-")) if store is None else Path(store).resolve().parent
    path = folder / "demo.db" if store is None else Path(store).resolve()
    out = CommandOutput()
    with Session.find(path) as session:
        model, missing = _model(model, session.project)
        _prepare(folder, path, model)
        out.text("Does an example help a small model, and what does temperature cost it?")
        out.text("2 prompt styles x 2 temperatures x 12 questions x 2 repeats = 96 trials.")
        out.text(f"The study: {folder / STUDY}")
        out.text(f"{missing or f'The model: {model}'}\n")
        outcome = execute(str(folder / STUDY), RunOptions(store=session, parallel=PARALLEL))
        account = api.account_of(session, outcome.results.run_id)
        out.text(f"{headline(outcome.results, account, outcome.finished.reason)}\n")
        out.text(f"{means(outcome.results.table())}\n")
        out.text(_next(folder, path, outcome.results))
        return outcome.finished.exit_code


def _model(wanted: str, project: Project) -> tuple[str, str]:
    """The model to ask, and why it is not the embedded one if that cannot be had."""
    try:
        named(project, wanted).model.check()
    except Invalid as problem:
        if wanted != MODEL:
            raise
        return STAND_IN, f"No real model here ({problem}); a scripted one says every question back."
    return wanted, ""


def _prepare(folder: Path, store: Path, model: str) -> None:
    there = [path for path in (folder / STUDY, store) if path.exists()]
    if there:
        raise Invalid(f"{path}: is there already; the demonstration wants a fresh --store" for path in there)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / STUDY).write_text(starter(STUDY).replace("{model}", model), encoding="utf-8")


def _next(folder: Path, store: Path, results: Results) -> str:
    run, trial = results.run_id, results.trials[0]
    return "\n".join(
        [
            "Try next:",
            f"  peira run {folder / STUDY} --store {store}      # again: nothing new, nothing asked",
            f"  peira show --by temperature --store {store}",
            f"  peira show {short(run)} {short(trial.id)} --store {store}      # one trial, in full",
        ]
    )
