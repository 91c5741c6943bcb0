"""Runs in a store: find one by a prefix of its id, the status to show, and its counts."""

from __future__ import annotations

import re
from typing import Any

from peira.app.store.access import AnyStore
from peira.core.contracts import RunQuery
from peira.core.ids import resolve
from peira.core.log.events import State, Status
from peira.core.log.state import Run, replace
from peira.core.registry import nearest
from peira.engine.kinds import BATCH, EVALUATE, GENERATE, TRANSFORM
from peira.engine.progress import KEPT, LEFT, REUSED, SPARED
from peira.errors import Unknown

MOST_RUNS = 10_000
RUN_ID = re.compile(r"[0-9a-f]{4,64}(@[\w.-]+)?")
"""Four or more digits of a run's id, perhaps with @NAME of an evaluation."""


def is_run_id(text: object) -> bool:
    """Whether a value looks like the id of a run."""
    return isinstance(text, str) and RUN_ID.fullmatch(text) is not None


def find_run(store: Any, prefix: str) -> Run:
    """The run whose id has this prefix; with @NAME, the newest evaluation of that name of its study."""
    if not is_run_id(prefix):
        raise Unknown(f"{prefix!r} is not a run id: use four or more of its digits (see `peira runs`)")
    prefix, _, name = prefix.partition("@")
    runs = {run.id: run for run in store.runs(RunQuery(prefix=prefix, limit=10))}
    found: Run = runs[resolve(prefix, runs, "run")]
    return _evaluation(store, found, name) if name else found


def _evaluation(store: Any, run: Run, name: str) -> Run:
    """The newest evaluation of this name."""
    runs = store.runs(RunQuery(study=run.study, limit=MOST_RUNS))
    named = [one for one in runs if one.evaluation and one.generation == run.generation]
    found: list[Run] = [one for one in named if one.evaluation == name]
    if not found:
        raise Unknown(
            f"no evaluation {name!r} of {run.study}{nearest(name, {one.evaluation for one in named})}"
        )
    return found[0]


UNDER_WAY = (Status.planned, Status.running)
"""Statuses of runs whose process may be alive."""


def with_current_status(run: Run, store: AnyStore) -> Run:
    """The run with the status to show: `interrupted` if its process is gone."""
    if run.status not in UNDER_WAY:
        return run
    alive = (store.owner() or {}).get("incarnation") == run.incarnation if store.readonly else True
    return run if alive else replace(run, status=Status.interrupted)


MANY = {TRANSFORM: "answers", EVALUATE: "scores", BATCH: "batches"}
"""What tasks other than trials are called in counts."""
_KINDS, _ENDS = tuple(MANY.values()), ("planned", *State, REUSED, KEPT, LEFT, SPARED)


def readable_counts(counts: dict[str, int]) -> dict[str, int]:
    """Counts as shown to users: trials by state, answers, scores and batches."""
    plain: dict[str, int] = {}
    for key, n in counts.items():
        kind, _, end = key.partition(".")
        if many := MANY.get(kind):
            plain[many] = plain.get(many, 0) + n
            if end != State.succeeded:
                plain[f"{many} {end}"] = n
        else:
            plain[key.removeprefix(f"{GENERATE}.")] = n
    return dict(sorted(plain.items(), key=_rank))


def _rank(count: tuple[str, int]) -> tuple[int, int]:
    """The position of a count: trials, then answers and scores, in the order of states."""
    name = count[0]
    kind, _, end = name.partition(" ")
    if kind not in _KINDS:
        return 0, _ENDS.index(name) if name in _ENDS else len(_ENDS)
    return 1 + _KINDS.index(kind), _ENDS.index(end) + 1 if end in _ENDS else 0
