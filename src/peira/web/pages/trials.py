"""Trials: the grid with its filters, and one trial in full."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from peira.app.store.runs import UNDER_WAY
from peira.core.chat.transcript import TranscriptMessage
from peira.core.log.state import Run
from peira.errors import Unknown
from peira.results.trials import end_word, is_correct
from peira.web import queries
from peira.web.pages.page import Page, PageRequest
from peira.web.rendering import case_title
from peira.web.rest.routes import read_query
from peira.web.timeline import images, timeline
from peira.web.trial_record import TrialParameters, find_trial, trial_document
from peira.web.trial_search import TrialQuery, TrialSearch

STATES = (
    "correct",
    "wrong",
    "failed",
    "unscored",
    "succeeded",
    "exhausted",
    "cancelled",
    "in doubt",
    "not begun",
)
"""What trials are filtered by."""
MOST_ENTRIES = 300
"""Entries of a transcript on its page; the JSON of the page has all."""
PATIENCE = 2.0
"""Seconds to look for the next trial that matches."""


async def trials(asked: PageRequest) -> Page:
    """Trials of a run that match, page by page."""
    query = read_query(asked.request, TrialQuery)
    reader = asked.site.reader
    run, search = await reader.short(queries.search_of, reader, asked.parts["run"])
    found = await reader.short(search.page, query)
    asked_for = {
        name: value for name, value in msgspec.structs.asdict(query).items() if value not in ("", None)
    }
    asked_for.pop("after", None)
    if asked_for.get("limit") == TrialQuery().limit:
        asked_for.pop("limit")
    more = {
        "run": run,
        "live": run.status in UNDER_WAY,
        "query": query,
        "asked": asked_for,
        "factors": search.factors(),
        "levels": query.levels,
        "scores": search.names,
        "states": STATES,
        "rest": asked.form == "part" and asked.request.headers.get("HX-Target") == "rest",
    }
    about = "Every trial of this run: one case under one condition, answered once. Choose which to see."
    return Page("trials.html.j2", f"Trials of {run.id[:12]}", about, found, more)


class TrialPageQuery(TrialQuery, frozen=True, kw_only=True):
    """Where the trial is (`number`), and which trials are stepped through."""

    number: int | None = None


async def trial(asked: PageRequest) -> Page:
    """One trial: input, conversation, output beside the expected answer, scores, attempts, time line."""
    query = read_query(asked.request, TrialPageQuery)
    reader, prefix = asked.site.reader, asked.parts["trial"]
    run = await reader.short(reader.run, asked.parts["run"])
    found, number = await find_trial(asked.site, prefix, TrialParameters(run.id, query.number))
    result = found.result
    said = (one for one in found.transcript.entries if isinstance(one, TranscriptMessage))
    took = {one.call: one.seconds for one in said if one.call and one.seconds is not None}
    bars = timeline(found.records, result.id, took)
    filters = {
        name: value
        for name, value in msgspec.structs.asdict(query).items()
        if value not in ("", None) and name not in ("after", "limit", "number")
    }
    more = {
        "run": run,
        "live": run.status in UNDER_WAY,
        "found": found,
        "result": result,
        "named": case_title(result.case_id, result.input),
        "number": number,
        "state": end_word(result.state),
        "correct": is_correct(result),
        "entries": [_entry(entry) for entry in found.transcript.entries[:MOST_ENTRIES]],
        "left": max(0, len(found.transcript.entries) - MOST_ENTRIES),
        "bars": bars,
        "span": max([bar.end for bar in bars], default=0.0) or 1.0,
        "filters": filters,
    }
    about = "What was asked, what was said, and how it was judged."
    document = {**trial_document(found, number), "timeline": bars}
    return Page("trial.html.j2", f"Trial {result.id[:12]}", about, document, more)


def _entry(entry: Any) -> dict[str, Any]:
    """An entry of a transcript for the page: its kind, the value itself, and its images."""
    kind = type(entry).__struct_config__.tag
    return {"kind": kind, "value": entry, "images": list(images(getattr(entry, "content", None)))}


async def step(asked: PageRequest) -> web.StreamResponse:
    """Leads to the next trial that matches, or to the one before."""
    query = read_query(asked.request, TrialPageQuery)
    back, reader = asked.parts["way"] == "previous", asked.site.reader

    def find() -> tuple[Run, TrialSearch, int | None]:
        run, search = queries.search_of(reader, asked.parts["run"])
        wanted = msgspec.structs.asdict(query)
        wanted.pop("number")
        plain = TrialQuery(**{**wanted, "after": -1 if query.number is None else query.number})
        return run, search, search.next(plain, back, PATIENCE)

    run, search, number = await reader.short(find)
    if number is None:
        raise Unknown("there is no further trial that matches: go back to the list")
    id = search.layout.trial_id(search.layout.place(number))
    rest = [(name, value) for name, value in asked.request.query.items() if name != "number"]
    target = asked.request.rel_url.with_path(f"/runs/{run.id[:16]}/trials/{id[:16]}").with_query(
        [*rest, ("number", str(number))]
    )
    return web.Response(status=303, headers={"Location": str(target)})


async def attachment(asked: PageRequest) -> web.StreamResponse:
    """A file that an agent attached, as a download: nothing of it is shown here."""
    reader = asked.site.reader
    run = await reader.short(reader.run, asked.parts["run"])
    found, _ = await find_trial(asked.site, asked.parts["trial"], TrialParameters(run.id))
    digest = asked.request.match_info["digest"]
    for artifact in found.result.artifacts:
        if artifact.digest == digest:
            data = await reader.short(reader.store.get, digest)
            name = "".join(c if c.isascii() and (c.isalnum() or c in ".-_") else "_" for c in artifact.name)
            headers = {"Content-Disposition": f'attachment; filename="{name[-100:] or "file"}"'}
            return web.Response(body=data, content_type="application/octet-stream", headers=headers)
    raise Unknown("the trial has no such file")
