"""The REST interface under /api/v1: documents of runs, trials, events, calls and comparisons."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

from aiohttp import web

from peira.web import queries
from peira.web.comparison_rows import CompareDocument, CompareQuery
from peira.web.feed import EventFeed
from peira.web.pages import compare
from peira.web.pages.inbox import InboxQuery, questions
from peira.web.queries import CallListQuery, EventQuery, RunListQuery, TableParameters
from peira.web.rest.documents import (
    CallDocument,
    CallList,
    EventList,
    QuestionList,
    RunDetails,
    RunList,
    TableDocument,
    TrialList,
)
from peira.web.rest.routes import ApiRoute, NoQuery
from peira.web.site import site_of
from peira.web.trial_record import TrialParameters, find_trial, trial_document
from peira.web.trial_search import TrialQuery


async def runs(request: web.Request, query: RunListQuery) -> RunList:
    """List runs, newest first."""
    return await queries.list_runs(site_of(request), query)


async def run(request: web.Request, query: NoQuery) -> RunDetails:
    """Get a run: how far it is, what it spent, what failed in it."""
    return await queries.run_details(site_of(request), request.match_info["run"])


async def table(request: web.Request, query: TableParameters) -> TableDocument:
    """Get the means of a run with their intervals."""
    return await queries.table_document(site_of(request), request.match_info["run"], query)


async def trials(request: web.Request, query: TrialQuery) -> TrialList:
    """List trials of a run that match a question, page by page."""
    return await queries.list_trials(site_of(request), request.match_info["run"], query)


async def trial(request: web.Request, query: TrialParameters) -> dict[str, Any]:
    """Get everything recorded about a trial."""
    found, number = await find_trial(site_of(request), request.match_info["trial"], query)
    return trial_document(found, number)


async def events(request: web.Request, query: EventQuery) -> EventList | web.StreamResponse:
    """List events of a run; as text/event-stream, follow them."""
    site = site_of(request)
    if "text/event-stream" not in request.headers.get("Accept", ""):
        return await queries.list_events(site, request.match_info["run"], query)
    found = await site.reader.short(site.reader.run, request.match_info["run"])
    last = request.headers.get("Last-Event-ID", "")
    after = int(last) if last.isdigit() and len(last) < 16 else max(0, query.after)
    return await stream(request, site.feed, found.id, after, query.kinds)


async def stream(
    request: web.Request, feed: EventFeed, run: str, after: int, kinds: str
) -> web.StreamResponse:
    """Send the events of a run as they come, from the one after `after` on."""
    wanted = {f"event: {kind}".encode() for kind in kinds.split(",") if kind}

    def is_wanted(message: bytes) -> bool:
        if not wanted or not message.startswith(b"id:"):
            return True
        return message.split(b"\n", 2)[1] in wanted

    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await answer.prepare(request)
    with suppress(ConnectionResetError):  # who listened is gone
        async for message in feed.follow(run, after, is_wanted):
            await answer.write(message)
    return answer


async def calls(request: web.Request, query: CallListQuery) -> CallList:
    """List model calls, last asked first, with the totals of all that match."""
    return await queries.list_calls(site_of(request), query)


async def call(request: web.Request, query: NoQuery) -> CallDocument:
    """Get one call in full: request, answer, events."""
    return await queries.call_document(site_of(request), request.match_info["key"])


async def compared(request: web.Request, query: CompareQuery) -> CompareDocument:
    """Compare two runs, or two levels of a factor: the paired difference, and the pairs that differ."""
    site = site_of(request)
    rows = await compare.pairs(site, query)
    return CompareDocument((await compare.comparison(site, query)).document(), rows)


async def inbox(request: web.Request, query: InboxQuery) -> QuestionList:
    """List open questions to people, oldest first."""
    return await questions(site_of(request), query)


ROUTES = [
    ApiRoute("GET", "/runs", "list_runs", runs, RunList, RunListQuery),
    ApiRoute("GET", "/runs/{run}", "get_run", run, RunDetails),
    ApiRoute("GET", "/runs/{run}/table", "get_table", table, TableDocument, TableParameters),
    ApiRoute("GET", "/runs/{run}/trials", "list_trials", trials, TrialList, TrialQuery),
    ApiRoute("GET", "/runs/{run}/events", "list_events", events, EventList, EventQuery, streams=True),
    ApiRoute("GET", "/trials/{trial}", "get_trial", trial, dict[str, Any], TrialParameters),
    ApiRoute("GET", "/compare", "compare", compared, CompareDocument, CompareQuery),
    ApiRoute("GET", "/inbox", "list_questions", inbox, QuestionList, InboxQuery),
    ApiRoute("GET", "/calls", "list_calls", calls, CallList, CallListQuery),
    ApiRoute("GET", "/calls/{key}", "get_call", call, CallDocument),
]
"""Every route of the interface; `openapi.json` lists the same."""
