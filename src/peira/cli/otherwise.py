"""Evaluators and transforms as they are said on the command line."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import msgspec
import typer

from peira.errors import Invalid
from peira.spec.evaluators import as_evaluator
from peira.spec.modules import is_reference, resolve_reference
from peira.spec.transforms import as_transform

Evaluator = Annotated[
    list[str] | None,
    typer.Option(
        "--evaluator",
        metavar="NAME",
        help="Judge by this instead: a name, file.py:function, or JSON. Several are possible.",
    ),
]
Transform = Annotated[
    list[str] | None,
    typer.Option(
        "--transform",
        metavar="NAME",
        help="Find answers by this instead: a name, file.py:function, or JSON; several make a chain.",
    ),
]
Named = Annotated[
    str, typer.Option("--as", metavar="NAME", help="Keep this evaluation under a name: look at RUN@NAME.")
]


def otherwise(evaluators: Sequence[str] | None, transforms: Sequence[str] | None) -> tuple[Any, Any]:
    """The evaluators and the transform that are meant; None where nothing is said. All problems at once."""
    problems: list[str] = []
    judges = [_made("evaluator", text, as_evaluator, problems) for text in evaluators or ()]
    steps = [_made("transform", text, as_transform, problems) for text in transforms or ()]
    if problems:
        raise Invalid(problems)
    return judges or None, (steps[0] if len(steps) == 1 else as_transform(steps)) if steps else None


def _made(option: str, text: str, make: Any, problems: list[str]) -> Any:
    try:
        return make(resolve_reference(text, Path()) if is_reference(text) else _options(text))
    except Invalid as error:
        problems += [f"--{option} {text}: {problem}" for problem in error.problems]


def _options(text: str) -> Any:
    if not text.lstrip().startswith(("{", "[")):
        return text
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError as error:
        raise Invalid(f"is not JSON: {error}") from None
