"""The ledger: who was asked what, what it cost, what is in doubt."""

from __future__ import annotations

import msgspec

from peira.core.log.rows import CALL_STATES
from peira.web import queries
from peira.web.pages.page import Page, PageRequest
from peira.web.queries import CallListQuery
from peira.web.rest.routes import NoQuery, read_query


async def calls(asked: PageRequest) -> Page:
    """Calls, last asked first."""
    query = read_query(asked.request, CallListQuery)
    found = await queries.list_calls(asked.site, query)
    more = {
        "query": msgspec.structs.asdict(query),
        "states": CALL_STATES,
        "whole": len(found.calls) < query.limit,
        "more_query": {**msgspec.structs.asdict(query), "limit": min(query.limit * 4, queries.MOST_CALLS)},
    }
    about = "Every call of a model that is recorded: none of them is ever paid for twice."
    return Page("calls.html.j2", "Calls", about, found, more, tab="calls")


async def call(asked: PageRequest) -> Page:
    """One call: request, answer, events."""
    read_query(asked.request, NoQuery)
    found = await queries.call_document(asked.site, asked.parts["key"])
    about = "What was asked, what came back, as received, and when."
    return Page("call.html.j2", f"Call {found.call.key[:12]}", about, found, tab="calls")
