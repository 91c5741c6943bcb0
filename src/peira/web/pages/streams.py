"""Streams: the list, one with its statistics, queue, jobs and decisions, and one job."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.app.store.runs import UNDER_WAY, with_current_status
from peira.app.streams.view import StreamView
from peira.core.contracts import RunQuery
from peira.core.log.events import TERMINAL, State, Status
from peira.core.log.state import Run
from peira.engine.streams.declaration import TAG, last_opening, stream_names
from peira.errors import Invalid, Unknown
from peira.web.pages.page import Page, PageRequest
from peira.web.reader import SiteReader
from peira.web.rest.routes import NoQuery, read_query
from peira.web.rest.streams import JobListQuery

STATES = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "exhausted")
"""States of jobs, in the order in which they are shown."""
MOST_JOBS, MOST_OPENINGS, MOST_DECISIONS = 500, 8, 20
SERVED, PAUSED, CLOSED = "served", "paused", "not served"
"""How a stream stands: a host does its jobs, it begins no more, or there is no host."""


class StreamState(msgspec.Struct, frozen=True):
    """A stream: how it stands, the run of its last opening, its statistics and its declaration."""

    stream: str
    standing: str
    run: str
    stats: dict[str, Any]
    declaration: dict[str, Any]


class StreamPage(msgspec.Struct, frozen=True):
    """A stream with its newest jobs and decisions."""

    state: StreamState
    jobs: list[dict[str, Any]]
    more: bool
    decisions: list[dict[str, Any]]


def _view(reader: SiteReader, name: str) -> StreamView:
    if not reader.open():
        raise Unknown("there are no streams in this store yet")
    return StreamView(reader.slow_session, name)


def _state(reader: SiteReader, name: str) -> StreamState:
    """How a stream stands."""
    view = _view(reader, name)
    with reader.slow_session.reading() as store:
        run, declaration = last_opening(store, name)
        run = with_current_status(run, store)
    standing = PAUSED if run.status is Status.paused else SERVED if run.status in UNDER_WAY else CLOSED
    return StreamState(name, standing, run.id, view.stats(), msgspec.to_builtins(declaration))


def _list(reader: SiteReader) -> list[StreamState]:
    if not reader.open():
        return []
    with reader.slow_session.reading() as store:
        names = stream_names(store)
    return [_state(reader, name) for name in names]


def _page(reader: SiteReader, name: str, query: JobListQuery) -> StreamPage:
    if query.state and query.state not in STATES:
        raise Invalid(f"state: {query.state!r} is not known; there are: {', '.join(STATES)}")
    view, limit = _view(reader, name), max(1, min(query.limit, MOST_JOBS))
    jobs = view.jobs(query.state, limit + 1)
    decisions = view.decisions()[: -MOST_DECISIONS - 1 : -1]
    return StreamPage(_state(reader, name), jobs[:limit], len(jobs) > limit, decisions)


def _openings(reader: SiteReader, name: str) -> list[Run]:
    """The last openings of a stream, newest first."""
    with reader.slow_session.reading() as store:
        found = store.runs(RunQuery(study=name, tag=TAG, limit=MOST_OPENINGS))
        return [with_current_status(run, store) for run in found]


async def streams(asked: PageRequest) -> Page:
    """Every stream with the states of its jobs."""
    read_query(asked.request, NoQuery)
    found = await asked.site.reader.long(_list, asked.site.reader)
    about = "Streams do work that arrives: what waits, what runs, what became of it."
    return Page("streams.html.j2", "Streams", about, {"streams": found}, {"states": STATES}, tab="streams")


async def stream(asked: PageRequest) -> Page:
    """One stream: statistics, jobs, decisions, and what can be done about it."""
    query, reader, name = read_query(asked.request, JobListQuery), asked.site.reader, asked.parts["stream"]
    found = await reader.long(_page, reader, name, query)
    more = {
        "found": found.state,
        "stats": found.state.stats,
        "openings": await reader.long(_openings, reader, name),
        "query": msgspec.structs.asdict(query),
        "states": STATES,
        "wider": min(4 * query.limit, MOST_JOBS),
    }
    about = "What this stream does now, what waits for it, and every job that came."
    return Page("stream.html.j2", name, about, found, more, tab="streams")


async def job(asked: PageRequest) -> Page:
    """One job: what came in, what came out, what happened."""
    read_query(asked.request, NoQuery)
    reader, name = asked.site.reader, asked.parts["stream"]

    def find() -> dict[str, Any]:
        view = _view(reader, name)
        id = view.find(asked.parts["job"])
        return {**view.document(id), "decisions": view.decisions(id), "events": list(view.events(id))}

    found = await reader.long(find)
    more = {"stream": name, "ended": State(found["state"]) in TERMINAL}
    about = "What was submitted, what became of it, and everything that was recorded about it."
    return Page("job.html.j2", str(found["key"] or found["job"][:12]), about, found, more, tab="streams")
