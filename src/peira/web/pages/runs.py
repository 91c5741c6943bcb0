"""Runs: the list, one run while it goes on and afterwards, its conditions, its events, its report."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from peira.analysis.table.value import TableRow
from peira.app.store.runs import UNDER_WAY
from peira.core.log.events import Status
from peira.core.registry import registry
from peira.core.text.grid import cell
from peira.report.builder import build
from peira.report.writers.html import html
from peira.stats.values import remark_of
from peira.web import queries
from peira.web.charts import looks_charts, progress_chart, tightening_charts
from peira.web.pages.page import Page, PageRequest
from peira.web.queries import EventQuery, RunListQuery, TableParameters
from peira.web.reader import ComputedTable
from peira.web.rendering import axis_of
from peira.web.rest.routes import NoQuery, read_query

LEAST = 0.5
"""Seconds between two messages of the stream of changes."""
POLICY, NOTHING = re.compile(r'Policy" content="([^"]+)"'), "default-src 'none'"
"""Where a report says what may be loaded by it, and what holds if it does not."""
AT_ONCE = 2_000
"""The means of more trials than these come after their page."""
REPORTED = 20_000
"""Reports of larger runs are written by the command, which says how far it is."""


async def runs(asked: PageRequest) -> Page:
    """The list of runs."""
    query = read_query(asked.request, RunListQuery)
    found = await queries.list_runs(asked.site, query)
    if asked.form == "file":
        found = await queries.with_scores(asked.site, found)
    empty = not found.runs and query == RunListQuery()
    more = {"query": msgspec.structs.asdict(query), "statuses": [status.value for status in Status]}
    return Page(
        "empty.html.j2" if empty else "runs.html.j2",
        "Runs",
        "Every run in this store, newest first, with its first score and that score's 95% interval.",
        found,
        more,
    )


async def score(asked: PageRequest) -> Page:
    """The first score of a run, for its row in the list."""
    found = await queries.run_score(asked.site, asked.parts["run"])
    return Page("score.html.j2", "Score", "The first score of a run.", found)


async def run(asked: PageRequest) -> Page:
    """One run: how far it is, what it costs, what fails; live while it goes on."""
    read_query(asked.request, NoQuery)
    reader = asked.site.reader
    found = await queries.run_details(asked.site, asked.parts["run"])
    planned = await reader.short(reader.planned, found.run.id)
    live = found.run.status in {status.value for status in UNDER_WAY}
    samples: list[tuple[float, int, int]] = []
    looks: list[Any] = []
    if live or planned.run.look is not None:
        seen = await reader.long(reader.monitor, planned.run)
        samples, looks = list(seen.samples), [msgspec.to_builtins(one) for one in seen.looks]
    snapshot = planned.manifest.snapshot if isinstance(planned.manifest.snapshot, dict) else {}
    more = {
        "live": live,
        "title": str(snapshot.get("title") or found.run.study),
        "description": str(snapshot.get("description") or "").partition("\n\n")[0],
        "samples": samples,
        "progress": progress_chart(samples) if len(samples) > 2 else "",
        "looks": looks_charts(looks),
        "evaluators": registry.names("evaluator"),
        "notes": list(planned.manifest.notes),
        "look": planned.run.look,
    }
    if asked.form == "file":
        more |= await _conditions(asked, TableParameters())
    about = "How far this run is, what it costs, and what fails, as it happens."
    about = about if live else "What became of this run: trials, cost, failures."
    return Page("run.html.j2", f"Run {found.run.id[:12]}", about, found, more)


async def conditions(asked: PageRequest) -> Page:
    """The table of a run with its intervals, as `results.table` has it."""
    query, reader = read_query(asked.request, TableParameters), asked.site.reader
    found = await reader.short(reader.run, asked.parts["run"])
    shown: dict[str, Any] = {"run": found, "groups": None}
    document: Any = None
    if asked.form != "html" or found.trials <= AT_ONCE:
        shown = await _conditions(asked, query)
        document = await queries.table_document(asked.site, asked.parts["run"], query)
    _, search = await reader.short(queries.search_of, reader, found.id)
    more = {
        **shown,
        "live": found.status in UNDER_WAY,
        "names": list(search.factors()),
        "query": msgspec.structs.asdict(query),
    }
    about = "Means with their intervals for every condition: failures are in no mean, and stand beside it."
    return Page("conditions.html.j2", f"Conditions of {found.id[:12]}", about, document, more)


async def _conditions(asked: PageRequest, query: TableParameters) -> dict[str, Any]:
    """What the template of a table needs."""
    found, computed, rests = await queries.table(asked.site, asked.parts["run"], query)
    return {
        "run": found,
        "groups": table_groups(computed),
        "by": list(computed.table.by),
        "rests": rests,
        "tightening": tightening_charts(asked.site.reader.history(found.id)) if not query.by else [],
        "level": f"{100 * computed.table.level:g}",
        "table_notes": list(computed.table.notes),
    }


def table_groups(computed: ComputedTable) -> list[dict[str, Any]]:
    """The rows of a table by score, each group with its axis; a row has labels, numbers, and its trials."""
    by_score: dict[str | None, list[TableRow]] = {}
    for row in computed.table.body:
        by_score.setdefault(row.score, []).append(row)
    groups = []
    for name, rows in by_score.items():
        least, most = axis_of([(row.mean, row.low, row.high) for row in rows])
        shown = [
            {
                "labels": [cell(label) for label in row.labels],
                "condition": "\n".join(
                    f"{by}={cell(label)}"
                    for by, label in zip(computed.table.by, row.labels, strict=True)
                    if by not in ("case", "slice", "cluster")
                ),
                "row": row,
                "remark": remark_of(row.method),
            }
            for row in rows
        ]
        groups.append({"score": name, "rows": shown, "least": least, "most": most})
    return groups


async def events(asked: PageRequest) -> Page:
    """What happened in a run, in order."""
    query = read_query(asked.request, EventQuery)
    found = await queries.list_events(asked.site, asked.parts["run"], query)
    run = await asked.site.reader.short(asked.site.reader.run, asked.parts["run"])
    more = {"run": run, "live": run.status in UNDER_WAY, "query": msgspec.structs.asdict(query)}
    about = "Everything that was recorded of this run, in order; all else here is derived from it."
    return Page("events.html.j2", f"Events of {run.id[:12]}", about, found, more)


async def report(asked: PageRequest) -> Page | web.StreamResponse:
    """The HTML report of a run: a page of its own, without scripts of ours."""
    reader = asked.site.reader
    run = await reader.short(reader.run, asked.parts["run"])
    if run.trials > REPORTED:
        about = "The report of a run of this size takes a while: this command writes it."
        return Page(
            "command.html.j2", "Report", about, {"command": f"peira report {run.id[:12]}"}, {"run": run}
        )

    def make() -> bytes:
        return html(build(reader.results(run.id)))

    over = run.status not in UNDER_WAY  # it takes seconds, and is kept while it cannot have changed
    page = await (reader.recomputed(("report", run.id, run.next_seq), make) if over else reader.long(make))
    answer = web.Response(body=page, content_type="text/html", charset="utf-8")
    # Its own policy, which allows its one script by its hash, and its style; without our cookie and pages.
    policy = POLICY.search(page.decode())
    answer.headers["Content-Security-Policy"] = (
        f"{policy[1] if policy else NOTHING}; sandbox allow-scripts allow-downloads; frame-ancestors 'none'"
    )
    if asked.form == "file":
        answer.headers["Content-Disposition"] = f'attachment; filename="report-{run.id[:12]}.html"'
    return answer


async def live(asked: PageRequest) -> web.StreamResponse:
    """A stream of messages, one whenever something was committed to the store."""
    headers = {"Content-Type": "text/event-stream", "Cache-Control": "no-store"}
    answer = web.StreamResponse(headers=headers)
    await answer.prepare(asked.request)
    with suppress(ConnectionResetError):  # who looked is gone
        async for message in asked.site.feed.changes(LEAST):
            await answer.write(message)
    return answer
