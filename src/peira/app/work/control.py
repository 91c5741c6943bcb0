"""Cancelling and retrying single units of a work run, from any process."""

from __future__ import annotations

import time
from collections.abc import Sequence

from peira.app.control import PATIENCE, POLL, deliver
from peira.app.session import Session
from peira.app.work.run import WorkOptions, WorkOutcome, execute_plan
from peira.app.work.view import WorkView, find_work
from peira.core.ids import short
from peira.core.log.state import UNDER_WAY
from peira.engine.control import CANCEL, Command, requester
from peira.engine.work.record import unit_task
from peira.errors import Invalid, StoreInUse
from peira.spec.work.plan import base_name
from peira.spec.work.problems import Dependencies


def cancel_units(session: Session, units: Sequence[str], run: str = "", by: str = "") -> dict[str, str]:
    """Cancel units of a run under way, in whatever state; those that have ended stay as they are.

    Returns their states once that is done. What needs them is blocked, everything else goes on.
    """
    view, states = _looked_at(session, run, units)
    if view.run.status not in UNDER_WAY:
        raise Invalid(f"run {short(view.run.id)} is not under way: {view.run.status.value}")
    tasks = tuple(unit_task(view.run.id, name) for name in units)
    deliver(session, Command(CANCEL, view.run.id, by or requester(), tasks=tasks))
    began = time.monotonic()
    while True:
        view, states = _looked_at(session, view.run.id, units)
        if not {"running", "waiting", "cancelling"} & set(states.values()):
            return states
        if time.monotonic() - began > PATIENCE:
            raise StoreInUse("the units are being cancelled, and their process does not end them")
        time.sleep(POLL)


def _looked_at(session: Session, run: str, units: Sequence[str]) -> tuple[WorkView, dict[str, str]]:
    with session.reading() as store:
        view = find_work(session, store, run)
        return view, {name: view.find(name).state for name in units}


def retry_unit(session: Session, units: Sequence[str], run: str = "", wait: float = 0.0) -> WorkOutcome:
    """Execute units that did not succeed once more, with what they need (reused) and what needs them.

    The plan is that of the run; other units that did not succeed are left alone.
    """
    with session.reading() as store:
        view = find_work(session, store, run)
        if view.run.status in UNDER_WAY:
            raise Invalid(f"run {short(view.run.id)} is under way; retry once it has ended")
        problems = [
            f"units.{name}: has succeeded; change it to execute it again"
            for name in units
            if view.find(name).state == "succeeded"
        ]
        if problems:
            raise Invalid(problems)
        plan = {key: value for key, value in view.plan.items() if key not in ("files", "commit")}
    tables = plan["units"]
    proposers = [name.partition("/")[0] for name in units]
    needs = {name: [base_name(n) for n in table.get("needs", ())] for name, table in tables.items()}
    before = Dependencies(needs)
    wanted = set(proposers).union(*(before[name] for name in proposers))
    wanted |= {name for name in tables if before[name] & set(proposers)}
    for name in list(wanted):  # what dependents need besides
        wanted |= before[name]
    return execute_plan(plan, session, WorkOptions(wait=wait, only=frozenset(wanted)))
