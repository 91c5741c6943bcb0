"""Streams: the list, one with its statistics, queue, jobs and decisions, and one job."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.app.store.runs import with_current_status
from peira.app.streams.view import StreamView
from peira.core.contracts import RunQuery
from peira.core.log.events import TERMINAL, State
from peira.core.log.state import Run
from peira.engine.streams.declaration import TAG, compares, last_opening, stream_names
from peira.errors import Invalid, Unknown
from peira.web import stream_queries
from peira.web.pages.page import Page, PageRequest
from peira.web.reader import SiteReader
from peira.web.rendering import case_title
from peira.web.rest.routes import NoQuery, read_query
from peira.web.rest.streams import JobListQuery

STATES = ("queued", "running", "waiting", "succeeded", "failed", "cancelled", "exhausted")
"""States of jobs, in the order in which they are shown."""
MOST_JOBS, MOST_OPENINGS, MOST_SAVED = 500, 8, 20


class StreamState(msgspec.Struct, frozen=True):
    """A stream: how it stands, the run of its last opening, its statistics and its declaration."""

    stream: str
    standing: str
    run: str
    stats: dict[str, Any]
    declaration: dict[str, Any]


class StreamPage(msgspec.Struct, frozen=True):
    """A stream with its newest jobs."""

    state: StreamState
    jobs: list[dict[str, Any]]
    more: bool


def _view(reader: SiteReader, name: str) -> StreamView:
    if not reader.open():
        raise Unknown("there are no streams in this store yet")
    return StreamView(reader.slow_session, name)


def _state(reader: SiteReader, name: str) -> StreamState:
    """How a stream stands."""
    view = _view(reader, name)
    with reader.slow_session.reading() as store:
        run, declaration = last_opening(store, name)
    stats = view.stats()
    return StreamState(name, stats["standing"], run.id, stats, msgspec.to_builtins(declaration))


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
    return StreamPage(_state(reader, name), jobs[:limit], len(jobs) > limit)


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
    ids = [str(one["job"]) for one in found.jobs]
    more = {
        "found": found.state,
        "inputs": await reader.long(lambda: _view(reader, name).inputs(ids)) if asked.form != "json" else {},
        "stats": found.state.stats,
        "openings": await reader.long(_openings, reader, name),
        "query": msgspec.structs.asdict(query),
        "states": STATES,
        "wider": min(4 * query.limit, MOST_JOBS),
        "parts": await stream_parts(reader, name),
    }
    if asked.form == "file":
        more["decided"] = (await stream_queries.decisions(asked.site, name)).decisions[:MOST_SAVED]
    about = "What this stream does now, what waits for it, and every job that came."
    return Page("stream.html.j2", name, about, found, more, tab="streams")


async def stream_parts(reader: SiteReader, name: str) -> dict[str, bool]:
    """Which further pages a stream has: its experiment, its goals."""
    run, declaration = await reader.short(stream_queries.opening, reader, name)
    return {
        "experiment": compares(run, declaration),
        "goals": bool(declaration.goals),
    }


async def decisions(asked: PageRequest) -> Page:
    """What agents decided in jobs of a stream."""
    read_query(asked.request, NoQuery)
    name = asked.parts["stream"]
    found = await stream_queries.decisions(asked.site, name)
    more = {"stream": name, "decided": found.decisions, "parts": await stream_parts(asked.site.reader, name)}
    about = "What agents decided in the jobs of this stream, newest first: among what, and why."
    return Page("decisions.html.j2", f"Decisions of {name}", about, found, more, tab="streams")


async def job(asked: PageRequest) -> Page:
    """One job: what came in, what came out, what happened."""
    read_query(asked.request, NoQuery)
    reader, name = asked.site.reader, asked.parts["stream"]

    def find() -> dict[str, Any]:
        view = _view(reader, name)
        id = view.find(asked.parts["job"])
        return {**view.document(id), "decisions": view.decisions(id), "events": list(view.events(id))}

    found = await reader.long(find)
    _, declaration = await reader.short(stream_queries.opening, reader, name)
    late = declaration.deciding.name if declaration.deciding and declaration.deciding.late else ""
    more = {"stream": name, "ended": State(found["state"]) in TERMINAL, "late": late}
    about = "What was submitted, what became of it, and everything that was recorded about it."
    title = case_title(str(found["key"] or found["job"][:12]), found["input"])
    return Page("job.html.j2", title, about, found, more, tab="streams")
