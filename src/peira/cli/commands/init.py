"""`peira init`: the files a first study needs."""

from __future__ import annotations

import json
import os
from importlib.resources import files
from pathlib import Path
from typing import Annotated

import typer

from peira.cli.output import CommandOutput
from peira.core.files import unwritable, write_together
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.recipes import __all__ as RECIPES
from peira.spec.fields.schema import schema
from peira.spec.project import FILE, STORE

STUDY, SCHEMA = "capitals.py", "study.schema.json"
NAMES = ", ".join(RECIPES)


def init(
    folder: Annotated[
        Path, typer.Argument(metavar="[FOLDER]", help="Where to write; the working folder if left out.")
    ] = Path(),
    force: Annotated[bool, typer.Option("--force", help="Write over files that are there.")] = False,
    store: Annotated[
        str, typer.Option("--store", metavar="PATH", help="The store that peira.toml is to name.")
    ] = STORE,
    recipe: Annotated[
        str, typer.Option("--recipe", metavar="NAME", help=f"The study of a common question: {NAMES}.")
    ] = "",
) -> None:
    """Write a first study, a project file and a schema for editors.

    The study runs as it is, without any model. The schema lets editors complete and check studies written
    as TOML, YAML or JSON.

    \b
    Examples:
      peira init
      peira init my-study
      peira init --recipe ablation
    """
    study = _study(recipe)
    contents = {
        study: starter(study),
        FILE: starter(FILE).replace("{store}", json.dumps(store)),
        SCHEMA: json.dumps(schema(), indent=2) + "\n",
    }
    there = [folder / name for name in contents if os.path.lexists(folder / name)]
    if there and not force:
        raise Invalid(f"{path}: is there already (--force writes over it)" for path in there)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as problem:
        raise unwritable(folder, problem) from None
    write_together({folder / name: content.encode() for name, content in contents.items()})
    CommandOutput().text(_next(folder, study))


def _study(recipe: str) -> str:
    """The file of a recipe; without one, that of the first study."""
    name = recipe.replace("-", "_")
    if recipe and name not in RECIPES:
        raise Invalid(f"recipe: there is no {recipe!r}{nearest(name, RECIPES)}")
    return f"{name}.py" if recipe else STUDY


def starter(name: str) -> str:
    """A file that ships with peira, to begin with."""
    return files("peira.cli").joinpath("starters", f"{name}.txt").read_text(encoding="utf-8")


def _next(folder: Path, study: str) -> str:
    enter = [] if folder == Path() else [f"  cd {folder}"]
    width = len(study) + 5
    lines = [
        f"wrote {', '.join(str(folder / name) for name in (study, FILE, SCHEMA))}",
        "",
        "next:",
        *enter,
        f"  peira plan {study:<{width}}what would be done",
        f"  peira run {study:<{width}} do it; stop it, and do it again to go on",
        f"  peira show{'':<{width}} the results",
        "",
        f"A study written as TOML is completed by editors that read its first line: #:schema {SCHEMA}",
    ]
    return "\n".join(lines)
