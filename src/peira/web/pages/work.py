"""Work plans: the list of their runs, one with its graph and the ends of its logs, and one unit."""

from __future__ import annotations

from collections import Counter
from typing import Any

import msgspec

from peira.app.store.runs import UNDER_WAY, find_run, with_current_status
from peira.app.work.view import TAG, UnitView, WorkView
from peira.core.contracts import RunQuery
from peira.core.log.state import Run
from peira.core.text.words import counted
from peira.errors import Unknown
from peira.web.pages.page import Page, PageRequest
from peira.web.reader import SiteReader
from peira.web.rest.routes import NoQuery, read_query
from peira.web.unit_graph import GraphUnit, unit_graph

MOST_RUNS, MOST_UNITS = 50, 300
TAIL, LINES = 4_000, 8
"""Characters and lines of the end of a log in the list of units."""
LONGEST = 60_000
"""Characters of a log on the page of its unit: its end."""


class WorkRun(msgspec.Struct, frozen=True):
    """A run of a work plan: its status, and how many of its units are in which state."""

    run: str
    plan: str
    status: str
    begun: float
    states: dict[str, int]


class WorkList(msgspec.Struct, frozen=True):
    """Runs of work plans, newest first."""

    runs: list[WorkRun]


def list_runs(reader: SiteReader) -> WorkList:
    """Runs of work plans, newest first."""
    if not reader.open():
        return WorkList([])
    with reader.slow_session.reading() as store:
        runs = [with_current_status(run, store) for run in store.runs(RunQuery(tag=TAG, limit=MOST_RUNS))]
        return WorkList([_summary(WorkView(store, run)) for run in runs])


def _summary(view: WorkView) -> WorkRun:
    states = Counter(unit.state for unit in view.units.values())
    run = view.run
    return WorkRun(run.id, run.study, run.status.value, run.started or run.planned, dict(states))


def find_view(reader: SiteReader, prefix: str) -> WorkView:
    """The run of a work plan with this prefix of its id."""
    if not reader.open():
        raise Unknown("there is no work in this store yet")
    with reader.slow_session.reading() as store:
        return WorkView(store, with_current_status(find_run(store, prefix), store))


def _tail(log: bytes) -> str:
    """The last lines of a log."""
    text = log[-TAIL:].decode("utf-8", "replace")
    return "\n".join(text.splitlines()[-LINES:])


async def works(asked: PageRequest) -> Page:
    """Every run of a work plan."""
    read_query(asked.request, NoQuery)
    found = await asked.site.reader.long(list_runs, asked.site.reader)
    about = "Work plans give commands units of work, each after what it needs."
    return Page("works.html.j2", "Work", about, found, tab="work")


async def work(asked: PageRequest) -> Page:
    """One run of a work plan: graph, units, the ends of their logs."""
    read_query(asked.request, NoQuery)
    reader = asked.site.reader

    def find() -> tuple[Run, dict[str, Any], list[tuple[UnitView, str]]]:
        view = find_view(reader, asked.parts["run"])
        units = list(view.units.values())
        return view.run, view.document(), [(one, _tail(view.log(one))) for one in units[:MOST_UNITS]]

    run, document, units = await reader.long(find)
    href = "" if asked.form == "file" else f"/work/{run.id[:16]}/units/"
    graph = unit_graph([GraphUnit(one.name, one.state, one.needs) for one, _ in units], href)
    states = Counter(one.state for one, _ in units)
    more = {
        "run": run,
        "live": run.status in UNDER_WAY,
        "units": units,
        "graph": graph,
        "states": states,
        "left": max(0, len(document["units"]) - MOST_UNITS),
    }
    about = f"{counted(len(document['units']), 'unit')} of work, what each needs, and what it says."
    return Page("work.html.j2", run.study, about, document, more, tab="work")


async def unit(asked: PageRequest) -> Page:
    """One unit: what it changed, why it failed, its log."""
    read_query(asked.request, NoQuery)
    reader, name = asked.site.reader, asked.parts["unit"]

    def find() -> tuple[Run, dict[str, Any], UnitView, str, Any]:
        view = find_view(reader, asked.parts["run"])
        found = view.find(name)
        log = view.log(found)[-LONGEST:].decode("utf-8", "replace")
        return view.run, {"unit": name, **found.document(), "log": log}, found, log, view.plan

    run, document, found, log, plan = await reader.long(find)
    more = {
        "run": run,
        "live": run.status in UNDER_WAY,
        "unit": found,
        "log": log,
        "spec": plan.get("units", {}).get(name),
    }
    return Page("unit.html.j2", name, "What this unit did, and what it printed.", document, more, tab="work")
