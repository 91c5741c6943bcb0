"""Arguments and options shared by several commands, and the parsing of `--where`."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated

import typer

from peira.app.session import Session
from peira.app.store.runs import is_run_id, names_run
from peira.app.store.view import Opened
from peira.core.expressions import Expression
from peira.core.registry import nearest
from peira.errors import ExpressionError, Invalid, Unknown
from peira.spec.values import SMALLEST_SHARE

SHORTHAND = re.compile(r"\s*([^\W\d][\w.]*)\s*=(?!=)\s*(\S.*)", re.DOTALL)
"""The short form of a condition: NAME=VALUE."""
DOUBLED = re.compile(r"\s*([^\W\d][\w.]*)\s*=(=.*)", re.DOTALL)
"""What may be meant for the short form, but compares: NAME==VALUE."""


def joined_conditions(conditions: Iterable[str]) -> str:
    """One expression that is the conjunction of all conditions; Invalid with every bad one."""
    texts = [_expanded(condition) for condition in conditions]
    problems = [problem for text in texts for problem in _problems(text)]
    if problems:
        raise Invalid(problems)
    return texts[0] if len(texts) == 1 else " and ".join(f"({text})" for text in texts)


def _expanded(condition: str) -> str:
    """A condition with NAME=VALUE written out as an expression.

    The shell removes quotes, so model=7 must match the text "7" as well as the number. NAME==VALUE is an
    expression already: a text that begins with = is written after a space.
    """
    short = SHORTHAND.fullmatch(condition)
    if short is None:
        return condition
    name, value = short[1], short[2].strip()
    return f"{name} in [{value!r}, {value}]" if _plain(value) else f"{name} == {value!r}"


def _plain(value: str) -> bool:
    """Whether it is a number, true, false or null in JSON (which has no NaN)."""
    try:
        return not isinstance(json.loads(value, parse_constant=lambda name: name), (str, list, dict))
    except (ValueError, RecursionError):
        return False


def _problems(text: str) -> list[str]:
    """The problem with an expression, if any."""
    try:
        Expression(text)
    except ExpressionError as error:
        hint = ""
        if doubled := DOUBLED.fullmatch(text):
            hint = f" (for the text {doubled[2]!r} write {doubled[1]}= {doubled[2]})"
        return [f"where: {error.reason}, in {text!r}{hint}"]
    return []


def _allow_unconfined(wanted: bool) -> bool:
    """The callback of --allow-unconfined."""
    if wanted:  # read by evaluators when they are made, also in other processes
        os.environ["PEIRA_ALLOW_UNCONFINED"] = "1"
    return wanted


def share(value: float) -> float:
    """The callback of options that are a level of confidence, of significance, or a power."""
    if not SMALLEST_SHARE <= value <= 1 - SMALLEST_SHARE:
        raise typer.BadParameter(f"{value:g} is not between {SMALLEST_SHARE:g} and {1 - SMALLEST_SHARE}")
    return value


Unconfined = Annotated[
    bool,
    typer.Option(
        "--allow-unconfined",
        callback=_allow_unconfined,
        is_eager=True,
        help="Where there is no sandbox, run generated code without one; results say so.",
    ),
]
StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="file.py, file.py:name, a .toml, .yaml or .json file, a run, or a benchmark.",
    ),
]
RunName = Annotated[
    str,
    typer.Argument(
        metavar="[RUN]", help="A run's name, or first digits of its id; without it, the newest run."
    ),
]
Latest = Annotated[
    bool, typer.Option("--latest", help="With what later runs did to its trials, not as the run ended.")
]
OfStudy = Annotated[str, typer.Option("--study", metavar="NAME", help="Only runs of this study.")]
Store = Annotated[
    str | None,
    typer.Option("--store", metavar="PATH", help="Where the work is kept; else as peira.toml says."),
]
Json = Annotated[
    bool, typer.Option("--json", help="One JSON document on standard output; all else on standard error.")
]
Parallel = Annotated[
    int | None, typer.Option("--parallel", "-p", metavar="N", help="How many trials at once.")
]
Where = Annotated[
    list[str] | None,
    typer.Option(
        "--where",
        metavar="EXPR",
        help="Only these trials: NAME=VALUE, or an expression. Repeatable: all must hold.",
    ),
]
From = Annotated[
    str | None,
    typer.Option(
        "--from",
        metavar="RUN",
        help="Let --where name what this run found: score.NAME, earlier.failed, earlier.trials.",
    ),
]
Limit = Annotated[
    int | None,
    typer.Option("--limit", metavar="N", help="At most this many trials: a balanced part of the plan."),
]
Batched = Annotated[
    bool, typer.Option("--batch", help="At the price of calls in batches, as with `run --batch`.")
]
Fresh = Annotated[bool, typer.Option("--fresh", help="Ask everything anew, beside what there is.")]
RetryFailed = Annotated[
    bool | None,
    typer.Option("--retry-failed/--no-retry-failed", help="Whether to try again what failed before."),
]
Wait = Annotated[
    bool, typer.Option("--wait", help="Wait while another process uses the store, instead of giving up.")
]
Log = Annotated[
    str | None,
    typer.Option("--log", metavar="FILE", help="Append every event to this file, a JSON line each."),
]
Progress = Annotated[bool | None, typer.Option("--progress/--quiet", help="Show how far it is.")]

Most = Annotated[int, typer.Option("--limit", metavar="N", help="List at most this many (50).")]
OfModel = Annotated[str, typer.Option("--model", metavar="MODEL", help="Only calls of this model.")]
Alpha = Annotated[
    float, typer.Option("--alpha", metavar="P", callback=share, help="The level of the test (0.05).")
]
Power = Annotated[
    float, typer.Option("--power", metavar="P", callback=share, help="The chance to see it (0.8).")
]


def chosen(study: str, session: Session) -> str:
    """The study argument, checked to exist before anything is opened for writing; a run by its id."""
    if is_run_id(study):
        return stored(study, session)
    with session.reading_if_any() as opened:
        if names_run(study, opened):
            return stored(study, session)
    file = Path(study.rpartition(":")[0] if ".py:" in study else study)
    if file.suffix and not file.exists():
        siblings = (
            [other.name for other in file.parent.glob(f"*{file.suffix}")] if file.parent.is_dir() else []
        )
        raise Invalid(f"{file}: there is no such file{nearest(file.name, siblings)}")
    return study


def stored(run: str, session: Session) -> str:
    """The full id of a stored run; Unknown if there is no such run."""
    if not session.exists:
        raise Unknown(f"no run {run!r}: there is no store at {session.store}")
    return Opened(session).run(run).id


def restricted(where: Sequence[str] | None) -> str:
    """The conditions of --where as one expression; "" if there are none."""
    return joined_conditions(where or ())
