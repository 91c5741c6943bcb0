"""`peira demo`: a real factorial study on a real model inside this process, from nothing to its answer."""

from __future__ import annotations

import json
import os
import shlex
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
from peira.cli.output import CommandOutput, means, note, program
from peira.cli.run_summary import headline, next_command
from peira.core.ids import short
from peira.errors import Invalid
from peira.spec.project import FILE as PROJECT
from peira.spec.project import Project

STUDY, ANSWERS = "small_model.py", "small_model.jsonl"
MODEL, STAND_IN = "local:smollm2", f"replay:{ANSWERS}"
NAME = "demo"
"""The name of the model in the study; the project file says which it is."""
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
    takes about a minute. Where its wheels are not installed, answers that it gave before are replayed. The
    files stay in a temporary folder, or beside --store if that is a file (in a folder of their own if a
    project is there), so that you can look at them.

    \b
    Examples:
      peira demo
      peira demo --store demo.db
      peira demo --model ollama:llama3.2
    """
    path: Path | str
    if store is not None and "://" in store:
        folder, path = _temporary(), store
    elif store is not None:
        path = Path(store).resolve()
        folder = _folder(path)
    else:
        folder = _temporary()
        path = folder / "demo.db"
    out = CommandOutput()
    model, missing = _model(model)
    _prepare(folder, path, model)
    with Session.find(path, folder / STUDY) as session:
        out.text("Does an example help a small model, and what does temperature cost it?")
        out.text("2 prompt styles x 2 temperatures x 12 questions x 2 repeats = 96 trials.")
        out.text(f"The study: {folder / STUDY}")
        out.text(f"{missing or f'The model: {model}'}\n")
        if model == MODEL:
            note("loading the model into this process ...")
        outcome = execute(str(folder / STUDY), RunOptions(store=session, parallel=PARALLEL))
        results = outcome.results
        account = api.account_of(session, results.run_id)
        out.text(f"{headline(results, account, outcome.finished.reason)}\n")
        out.text(f"{means(results.table())}\n")
        if any(trial.scores for trial in results):
            out.text(f"{results.compare('temperature').sentence}\n{results.compare('style').sentence}\n")
        out.text(_next(folder, path, results))
        return outcome.finished.exit_code


def _temporary() -> Path:
    """A new folder for the study's files."""
    return Path(tempfile.mkdtemp(prefix="peira-demo-"))


def _model(wanted: str) -> tuple[str, str]:
    """The model to ask, and why it is not the embedded one if that cannot be had."""
    try:
        named(Project.find(), wanted).model.check()
    except Invalid as problem:
        if wanted != MODEL:
            raise
        return STAND_IN, f"No model is installed here ({problem}): answers that SmolLM2 gave are replayed."
    return wanted, ""


def _folder(store: Path) -> Path:
    """Where the study is written: beside the store, or in a folder there if a project lives beside it."""
    beside = store.parent
    taken = any((beside / name).exists() for name in (STUDY, ANSWERS, PROJECT))
    return beside / f"{store.stem}-demo" if taken else beside


def _prepare(folder: Path, store: Path | str, model: str) -> None:
    full = f"replay:{folder / ANSWERS}" if model == STAND_IN else model
    where = os.path.relpath(store, folder) if isinstance(store, Path) else store
    project = f"store = {json.dumps(where)}\n\n[models]\n{NAME} = {json.dumps(full)}\n"
    contents = {STUDY: starter(STUDY), PROJECT: project}
    if model == STAND_IN:
        contents[ANSWERS] = starter(ANSWERS)
    files = (*(folder / name for name in contents), *([store] if isinstance(store, Path) else ()))
    there = [path for path in files if path.exists()]
    if there:
        raise Invalid(f"{path}: is there already; the demonstration wants a fresh --store" for path in there)
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in contents.items():
        (folder / name).write_text(text, encoding="utf-8")


def _next(folder: Path, store: Path | str, results: Results) -> str:
    """Commands to try next, as they can be typed here."""
    run, trial = results.run_id, results.trials[0]
    commands = {
        shlex.join([program(), "run", str(folder / STUDY)]): "again: nothing new, nothing asked",
        shlex.join([program(), "show", "--by", "temperature", "--store", str(store)]): "",
        next_command("show", run, str(store)) + " --trials": "every answer",
        shlex.join([program(), "show", short(trial.id), "--store", str(store)]): "one trial, in full",
        next_command("report", run, str(store)): "a page to read",
        shlex.join([program(), "view", "--store", str(store)]): "all of it in a browser",
    }
    lines = (f"  {command}" + (f"      # {why}" if why else "") for command, why in commands.items())
    return "\n".join(["Try next:", *lines])
