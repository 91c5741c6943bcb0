"""Runs in a store: find one by its name or a prefix of its id, the status to show, and its counts."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from peira.app.store.access import AnyStore
from peira.core.contracts import RunQuery
from peira.core.ids import resolve
from peira.core.log import state
from peira.core.log.events import State, Status
from peira.core.log.state import Run, replace
from peira.core.registry import nearest
from peira.engine.kinds import BATCH, EVALUATE, GENERATE, TRANSFORM
from peira.engine.progress import KEPT, KEPT_EXHAUSTED, LEFT, REUSED, SPARED
from peira.errors import Invalid, Unknown
from peira.stores.sharing import ListsSharedRuns

MOST_RUNS = 10_000
RUN_ID = re.compile(r"[0-9a-f]{4,64}(@[\w.-]+)?")
"""Four or more digits of a run's id, perhaps with @NAME of an evaluation."""


RUN_NAME = re.compile(r"[A-Za-z][\w.-]{0,99}")
"""The name of a run: a letter, then letters, digits, `.`, `-` and `_`."""


def is_run_id(text: object) -> bool:
    """Whether a value looks like the id of a run."""
    return isinstance(text, str) and RUN_ID.fullmatch(text) is not None


def names_run(text: object, store: Any) -> bool:
    """Whether a value means a stored run: it looks like an id, or is the name of a run and of no file.

    `store` is None if there is none.
    """
    if is_run_id(text):
        return True
    name = text.partition("@")[0] if isinstance(text, str) else ""
    named = store is not None and RUN_NAME.fullmatch(name) and not Path(name).exists()
    return bool(named and store.runs(RunQuery(name=name, limit=1)))


def name_problem(name: str) -> str:
    """What is wrong with a name for a run; "" if nothing is."""
    if is_run_id(name):
        return f"{name!r} looks like the id of a run; use other letters than a to f, or a hyphen"
    if not RUN_NAME.fullmatch(name):
        return f"{name!r} is not a name for a run: a letter, then letters, digits, . - and _ (at most 100)"
    return ""


def refuse_taken(name: str, store: Any) -> None:
    """Raise Invalid if another run of the store has this name."""
    for run in store.runs(RunQuery(name=name, limit=1)) if name else ():
        raise Invalid(f"name: {name!r} is the name of run {run.id[:12]} of {run.study}; choose another")


def find_run(store: Any, prefix: str) -> Run:
    """The run of this name, or whose id has this prefix.

    With @NAME it is the newest evaluation of that name of the run's study. Unknown if there is none.
    """
    run, _, evaluation = prefix.partition("@")
    found = _by_id(store, run) if is_run_id(run) else _by_name(store, run)
    if found.status is Status.deleted:
        raise Unknown(f"run {run} was deleted")
    return _evaluation(store, found, evaluation) if evaluation else found


def _by_id(store: Any, prefix: str) -> Run:
    """The run whose id has this prefix."""
    runs: dict[str, Run] = {run.id: run for run in store.runs(RunQuery(prefix=prefix, limit=10))}
    return runs[resolve(prefix, runs, "run")]


def _by_name(store: Any, name: str) -> Run:
    """The run of this name."""
    if RUN_NAME.fullmatch(name):
        for run in store.runs(RunQuery(name=name, limit=1)):
            return run  # type: ignore[no-any-return]
    names = {run.name for run in store.runs(RunQuery(limit=MOST_RUNS)) if run.name}
    hint = nearest(name, names) or ": use four or more digits of an id, or a name (see `peira runs`)"
    raise Unknown(f"{name!r} is no run{hint}")


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


UNDER_WAY = (Status.planned, *sorted(state.UNDER_WAY))
"""Statuses of runs whose process may be alive."""


def with_current_status(run: Run, store: AnyStore) -> Run:
    """The run with the status to show: `interrupted` (or `cancelled`) if its process is gone.

    A shared run is interrupted while nobody works on it; one that was submitted waits for workers.
    """
    if run.status not in UNDER_WAY:
        return run
    if not store.readonly or (store.owner() or {}).get("incarnation") == run.incarnation:
        return run
    if isinstance(store, ListsSharedRuns) and (shared := store.shared_runs(run.id)):
        # Other processes may still begin to work on it, or go on with it.
        if run.status is Status.planned or shared[0].members:
            return run
        return replace(run, status=Status.interrupted)
    gone = Status.cancelled if run.status is Status.cancelling else Status.interrupted
    return replace(run, status=gone)


MANY = {TRANSFORM: "answers", EVALUATE: "scores", BATCH: "batches"}
"""What tasks other than trials are called in counts."""
_KINDS, _ENDS = tuple(MANY.values()), ("planned", *State, REUSED, KEPT, KEPT_EXHAUSTED, LEFT, SPARED)


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
