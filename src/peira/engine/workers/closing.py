"""The end of a shared run: whoever finds that nothing is left records it, with counts from the store."""

from __future__ import annotations

from collections import Counter

from peira.core.contracts import CallQuery, Op
from peira.core.failpoints import reach
from peira.core.log.events import TERMINAL, Failure, Result, RunFinished, Spent, State, Status
from peira.core.log.state import UNDER_WAY, Run
from peira.engine.inbox import cancelling_op
from peira.engine.kinds import BATCH, GENERATE
from peira.engine.progress import LEFT, SPARED, TaskCounts, shared
from peira.engine.run import RunEnd
from peira.engine.run_start import spent_by_calls
from peira.engine.workers.membership import StopNotice, read_notice
from peira.errors import Abandoned
from peira.stores.sharing import ListsSharedRuns, SharedStore

COUNTED = frozenset({*TERMINAL, State.waiting})
EXIT_CODES = {Status.completed: 0, Status.interrupted: 130, Status.waiting: 3, Status.stopped: 3}
"""The exit codes of runs that were not asked to stop; of all others 1."""


def close_run(store: SharedStore, run: Run, notice: StopNotice | None, now: float) -> None:
    """Record the end of a run of which nothing is left to do; changes nothing if another process has."""
    if notice is not None and notice.status is Status.cancelled:
        _cancel_waiting(store, run.id, notice.reason, now)
    counts = run_counts(store, run, stopped=notice is not None)
    status, reason = _status(counts, notice)
    spent = _spent(store, run.id)
    reach("shared.before_close")
    store.commit([Op(run.id, (RunFinished(status, counts, reason, spent),))]).result()


def run_counts(store: SharedStore, run: Run, stopped: bool = False) -> dict[str, int]:
    """The tasks of a run by how they ended, each once; what other runs had made is reused.

    Trials that were not done are left, if the run was `stopped`; else its stopping rule had no need of them.
    """
    tasks, ended = store.sharing.counts(run.id)
    counts = Counter({key: n for key, n in tasks.items() if key.partition(".")[2] in COUNTED})
    for key, n in ended.items():
        kind, _, state = key.partition(".")
        if (more := n - counts[key]) > 0:
            counts[f"{kind}.{shared(State(state))}"] += more
    done = sum(n for key, n in counts.items() if key.startswith(f"{GENERATE}."))
    if done < run.trials:
        spared = run.look is not None and bool(run.look.answer or run.look.given_up) and not stopped
        counts[f"{GENERATE}.{SPARED if spared else LEFT}"] = run.trials - done
    return {"planned": run.trials, **{key: n for key, n in sorted(counts.items()) if n}}


def _status(counts: dict[str, int], notice: StopNotice | None) -> tuple[Status, str]:
    """The status of a run with these counts, and the reason for it."""
    if notice is not None:
        return notice.status, notice.reason
    tally = TaskCounts(GENERATE, frozenset({BATCH}))
    tally.counts.update({key: n for key, n in counts.items() if key != "planned"})
    waiting = sum(tally.counts.pop(key) for key in list(tally.counts) if key.endswith(f".{State.waiting}"))
    if waiting:
        return Status.waiting, ""
    if tally.failures:
        return Status.failures, ""
    if tally.limits_reached:
        return Status.stopped, tally.limits_reached
    return Status.completed, ""


def _spent(store: SharedStore, run: str) -> tuple[Spent, ...]:
    """What the run spent, by model."""
    if not store.tally(CallQuery(run=run)).states:
        return ()
    by_model: dict[str, Spent] = {}
    for one in spent_by_calls(store, run):
        by_model[one.model] = by_model.get(one.model, Spent(one.model)).plus(one)
    return tuple(by_model[name] for name in sorted(by_model))


def _cancel_waiting(store: SharedStore, run: str, reason: str, now: float) -> None:
    """Cancel what waits for people, also tasks of members that are gone."""
    result = Result(failure=Failure(Abandoned.__name__, reason))
    ops = [cancelling_op(store, run, task, result, now) for task in store.waiting() if task.run == run]
    if ops:
        store.commit(ops).result()


def end_of(run: Run, store: ListsSharedRuns) -> RunEnd:
    """How a shared run ended."""
    [known] = store.shared_runs(run.id)
    code = EXIT_CODES.get(run.status, 1)
    if known.stop and run.status is (notice := read_notice(known.stop)).status:
        code = notice.exit_code
    return RunEnd(run.status, run.counts, run.reason, code)


def is_over(run: Run) -> bool:
    """Whether the end of a run is recorded."""
    return run.status not in UNDER_WAY and run.status is not Status.planned
