"""Which run is meant by the first digits of its id."""

from __future__ import annotations

import re
from typing import Any

from peira.core.contracts import RunQuery
from peira.core.ids import resolve
from peira.core.registry import nearest
from peira.core.state import Run
from peira.errors import Unknown

MOST_RUNS = 10_000
RUN_ID = re.compile(r"[0-9a-f]{4,64}(@[\w.-]+)?")


def is_run_id(text: object) -> bool:
    return isinstance(text, str) and RUN_ID.fullmatch(text) is not None


def find_run(store: Any, prefix: str) -> Run:
    """The run whose id starts so; with @NAME after it, the newest evaluation of that name of its study."""
    if not is_run_id(prefix):
        raise Unknown(f"{prefix!r} is not a run id: use four or more of its digits (see `peira runs`)")
    prefix, _, name = prefix.partition("@")
    runs = {run.id: run for run in store.runs(RunQuery(prefix=prefix, limit=10))}
    found: Run = runs[resolve(prefix, runs, "run")]
    return _evaluation(store, found, name) if name else found


def _evaluation(store: Any, run: Run, name: str) -> Run:
    runs = store.runs(RunQuery(study=run.study, limit=MOST_RUNS))
    named = [one for one in runs if one.evaluation and one.generation == run.generation]
    found: list[Run] = [one for one in named if one.evaluation == name]
    if not found:
        raise Unknown(
            f"no evaluation {name!r} of {run.study}{nearest(name, {one.evaluation for one in named})}"
        )
    return found[0]
