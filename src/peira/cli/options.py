"""The arguments and options that several commands share, said once."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import typer

from peira.api.finding import is_run_id
from peira.api.look import Opened
from peira.api.stores import StoreLike, exists, locate
from peira.cli.where import joined
from peira.core.registry import nearest
from peira.errors import Invalid, Unknown
from peira.spec.project import Project


def _allow(wanted: bool) -> bool:
    if wanted:  # read by the evaluators as they are made, here and in other processes
        os.environ["PEIRA_ALLOW_UNCONFINED"] = "1"
    return wanted


Unconfined = Annotated[
    bool,
    typer.Option(
        "--allow-unconfined",
        callback=_allow,
        is_eager=True,
        help="Where there is no sandbox, run generated code without one; results say so.",
    ),
]
StudyName = Annotated[
    str,
    typer.Argument(
        metavar="STUDY",
        help="file.py, file.py:name, a .toml, .yaml or .json file, a run id, or a benchmark.",
    ),
]
RunName = Annotated[
    str, typer.Argument(metavar="[RUN]", help="The first digits of a run's id; without it, the newest run.")
]
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
        "--where", metavar="EXPR", help="Only these trials: NAME=VALUE, or an expression. All of several."
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
    typer.Option("--limit", metavar="N", help="At most so many trials: a balanced part of the plan."),
]
Batched = Annotated[
    bool, typer.Option("--batch", help="As for `run --batch`: at the price of calls in batches.")
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


def chosen(study: str, store: StoreLike) -> str:
    """The study argument, if there is such a study or run; said before anything is opened for writing."""
    if is_run_id(study):
        return stored(study, store)
    file = Path(study.rpartition(":")[0] if ".py:" in study else study)
    if file.suffix and not file.exists():
        beside = [other.name for other in file.parent.glob(f"*{file.suffix}")] if file.parent.is_dir() else []
        raise Invalid(f"{file}: there is no such file{nearest(file.name, beside)}")
    return study


def stored(run: str, store: StoreLike) -> str:
    """The full id of a stored run."""
    project = Project.find()
    if not exists(store, project):
        raise Unknown(f"no run {run!r}: there is no store at {locate(store, project)}")
    return Opened(store).run(run).id


def restricted(where: Sequence[str] | None) -> str:
    return joined(where or ())
