"""The units of a work run as any process sees them: states, reasons, logs, what they changed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from peira.app.session import Session
from peira.app.store.access import AnyStore, store_folder
from peira.app.store.runs import find_run
from peira.core.codec import decode
from peira.core.contracts import RunQuery, Store
from peira.core.ids import Json, short
from peira.core.log.events import TERMINAL, State, Status
from peira.core.log.rows import Run, Task
from peira.core.log.state import UNDER_WAY
from peira.core.registry import nearest
from peira.engine.work.record import LOG, REUSED, UnitResult, result_of, unit_task
from peira.errors import Invalid, Unknown
from peira.sandbox.file_tree import TreeFile, changes_from
from peira.spec.work.plan import ALL, base_name
from peira.spec.work.problems import topological

TAG = "work"
"""The tag of runs that execute a work plan."""
WAITING, INTERRUPTED = "waiting", "interrupted"
"""The states of units that have not ended: not begun, or cut off with the process of their run."""


@dataclass(frozen=True)
class UnitView:
    """A unit of a run: its state, why if it did not succeed, and what is known of it."""

    name: str
    state: str
    why: str = ""
    took: float = 0.0
    cost: float | None = None
    reused: bool = False
    needs: tuple[str, ...] = ()
    result: UnitResult = field(default_factory=UnitResult)
    task: str = ""
    artifacts: Mapping[str, str] = field(default_factory=dict)

    @property
    def value(self) -> Json:
        """The value of a function, or what a command gave with the tool `result`."""
        return self.result.value

    @property
    def ended(self) -> bool:
        """Whether it has ended, in whatever state."""
        return self.state in TERMINAL

    @property
    def changed(self) -> list[str]:
        """The paths that it changed."""
        return sorted(self.result.changes)

    def document(self) -> dict[str, Json]:
        """The unit as JSON; `why` is null if it succeeded."""
        found: dict[str, Json] = {
            "state": self.state,
            "why": self.why or None,
            "seconds": round(self.took, 3),
            "cost": self.cost,
            "reused": self.reused,
            "needs": list(self.needs),
            "changed": self.changed,
        }
        return found | ({"value": self.value} if self.value is not None else {})


class WorkView:
    """One execution of a work plan, read from a store."""

    def __init__(self, store: AnyStore, run: Run) -> None:
        if TAG not in run.tags:
            raise Invalid(f"run {short(run.id)} is no work run; see peira show {short(run.id)}")
        self.store, self.run = store, run
        self.plan: dict[str, Any] = decode(store.get(run.stream)) if run.stream else {}

    @property
    def base(self) -> dict[str, TreeFile]:
        """The files that the units started from."""
        files = changes_from(self.plan.get("files", {}))
        return {path: one for path, one in files.items() if one is not None}

    @cached_property
    def units(self) -> dict[str, UnitView]:
        """All units, also those that were proposed, each after what it needs."""
        over = self.run.status not in (*UNDER_WAY, Status.planned)
        dead = self.run.status is Status.interrupted and not self.run.counts
        reason = self.run.reason or self.run.status.value
        left = (INTERRUPTED if dead else State.cancelled.value, reason) if over else None
        return unit_views(self.store, self.run.id, self.plan.get("units", {}), left)

    def find(self, name: str) -> UnitView:
        """The unit of this name; Unknown if there is none."""
        if name not in self.units:
            raise Unknown(f"run {short(self.run.id)} has no unit {name!r}{nearest(name, self.units)}")
        return self.units[name]

    @property
    def succeeded(self) -> bool:
        """Whether every unit succeeded."""
        return bool(self.units) and all(one.state == State.succeeded for one in self.units.values())

    def log(self, unit: UnitView) -> bytes:
        """What a unit printed: all that is kept, or, while it runs, what has come so far."""
        if LOG in unit.artifacts:
            found: bytes = self.store.get(unit.artifacts[LOG])
            return found
        row = self.store.find("task", [unit.task]).get(unit.task) if unit.task else None
        if row is not None and row.state not in TERMINAL:
            path = log_file(self.store, self.run.id, unit.task, row.epoch)
            return path.read_bytes() if path.exists() else b""
        return b""

    def document(self) -> dict[str, Json]:
        """The run as JSON."""
        return {
            "run": self.run.id,
            "plan": self.run.study,
            "status": self.run.status.value,
            "units": {name: one.document() for name, one in self.units.items()},
        }


def unit_views(
    store: Store, scope: str, tables: Mapping[str, Any], left: tuple[str, str] | None = None
) -> dict[str, UnitView]:
    """The units of an execution by the tables of its plan, also those that were proposed, in order of needs.

    `left` is the state of those that have not ended, and why, if the execution is over.
    """
    tables = dict(tables)
    rows: dict[str, Task] = {}
    asked: set[str] = set()
    children: dict[str, list[str]] = {}
    while new := [name for name in tables if name not in asked]:
        asked |= set(new)
        found = store.find("task", [unit_task(scope, name) for name in new])
        rows |= {name: found[task] for name in new if (task := unit_task(scope, name)) in found}
        for name in new:
            if name in rows and rows[name].state is State.succeeded:
                proposed = _result(store, rows[name]).units
                children[name] = [f"{name}/{child}" for child in proposed]
                for child, table in proposed.items():
                    needs = [f"{name}/{need}" for need in table.get("needs", ())]
                    tables[f"{name}/{child}"] = {**table, "needs": needs}
    wanted = {name: tuple(_expanded(table.get("needs", ()), children)) for name, table in tables.items()}
    views: dict[str, UnitView] = {}
    for name in topological({n: [need for need in given if need in wanted] for n, given in wanted.items()}):
        views[name] = _unit_view(store, name, wanted[name], rows.get(name), views, left)
    return views


def _unit_view(
    store: Store,
    name: str,
    needs: tuple[str, ...],
    row: Task | None,
    before: Mapping[str, UnitView],
    left: tuple[str, str] | None,
) -> UnitView:
    """One unit, given those before it."""
    task = row.id if row else ""
    if row is None or row.state not in TERMINAL:
        if left is None:
            state = row.state.value if row and row.state is not State.queued else WAITING
            return UnitView(name, state, needs=needs, task=task)
        why = f"{'cut off' if row else 'not begun'}: {left[1]}"
        return UnitView(name, left[0], why, needs=needs, task=task)
    result, failure = row.result, row.result.failure
    why = failure.message if failure else ""
    if row.state is State.blocked:
        failed = [f"{n}, which {_ended_as(before[n].state)}" for n in needs if not _fine(before, n)]
        why = f"needs {'; '.join(failed)}" if failed else "what it needs did not succeed"
    return UnitView(
        name,
        (State.failed if row.state is State.in_doubt else row.state).value,
        why,
        result.took,
        result.metrics.get("cost"),
        result.about.get(REUSED) == "yes",
        needs,
        _result(store, row) if row.state is State.succeeded else UnitResult(),
        task,
        {artifact.name: artifact.digest for artifact in result.artifacts},
    )


def log_file(store: AnyStore, run: str, task: str, epoch: int) -> Path:
    """Where the output of an attempt that is under way is written."""
    return store_folder(store, "work") / short(run) / f"{short(task)}-{epoch}" / LOG


def _expanded(needs: Iterator[str] | Any, children: Mapping[str, list[str]]) -> Iterator[str]:
    """The names of needed units, also of all that were proposed."""
    seen, left = set[str](), list(reversed(list(needs)))
    while left:
        need = left.pop()
        name = base_name(need)
        if need.endswith(ALL):
            left += [f"{child}{ALL}" for child in children.get(name, ())]
        if name not in seen:
            seen.add(name)
            yield name


def _fine(units: Mapping[str, UnitView], name: str) -> bool:
    return name in units and units[name].state == State.succeeded


def _ended_as(state: str) -> str:
    """How a need ended, in a sentence."""
    said = {"failed": "failed", "blocked": "is blocked", "cancelled": "was cancelled"}
    return said.get(state, f"is {state}")


def _result(store: Store, row: Task) -> UnitResult:
    """What a unit that succeeded made."""
    return result_of(decode(store.get(row.result.blob) if row.result.blob else bytes(row.result.output)))


def find_work(session: Session, store: AnyStore, run: str = "") -> WorkView:
    """A work run by the first digits of its id, or the newest one; Unknown if there is none."""
    if run:
        return WorkView(store, find_run(store, run))
    found = store.runs(RunQuery(tag=TAG, limit=1))
    if not found:
        raise Unknown("no work run in this store; start one with peira work plan.toml")
    return WorkView(store, found[0])
