"""The list of all pages, and the page of an error."""

from __future__ import annotations

from aiohttp import web

from peira.web.pages import calls, compare, experiments, inbox, plan, runs, streams, trials, work
from peira.web.pages.page import Page, PageRoute, rendered
from peira.web.pages.page import page_handler as page_handler
from peira.web.rest.documents import ErrorDocument

PAGES = [
    PageRoute("/", runs.runs),
    PageRoute("/runs", runs.runs),
    PageRoute("/runs/{run}/score", runs.score),
    PageRoute("/runs/{run}/conditions", runs.conditions),
    PageRoute("/runs/{run}/events", runs.events),
    PageRoute("/runs/{run}/report", runs.report),
    PageRoute("/runs/{run}/trials", trials.trials),
    PageRoute("/runs/{run}/{way:next|previous}", trials.step),
    PageRoute("/runs/{run}/trials/{trial}/files/{digest:[0-9a-f]{64}}", trials.attachment),
    PageRoute("/runs/{run}/trials/{trial}", trials.trial),
    PageRoute("/runs/{run}", runs.run),
    PageRoute("/live", runs.live),
    PageRoute("/compare", compare.compare),
    PageRoute("/compare/difference", compare.difference),
    PageRoute("/plan", plan.plan),
    PageRoute("/inbox", inbox.inbox),
    PageRoute("/inbox/agreement", inbox.agreement),
    PageRoute("/streams", streams.streams),
    PageRoute("/streams/{stream}/jobs/{job}", streams.job),
    PageRoute("/streams/{stream}/experiment", experiments.experiment),
    PageRoute("/streams/{stream}/experiment/evidence", experiments.evidence),
    PageRoute("/streams/{stream}/goals", experiments.goals),
    PageRoute("/streams/{stream}/goals/verdicts", experiments.verdicts),
    PageRoute("/streams/{stream}/decisions", streams.decisions),
    PageRoute("/streams/{stream}", streams.stream),
    PageRoute("/work", work.works),
    PageRoute("/work/{run}/units/{unit:.+}", work.unit),
    PageRoute("/work/{run}", work.work),
    PageRoute("/calls", calls.calls),
    PageRoute("/calls/{key}", calls.call),
]
"""Every page, the longer paths before those that would match them, too."""


def error_page(request: web.Request, problem: ErrorDocument, status: int) -> web.Response:
    """A page that says what went wrong."""
    titles = {
        400: "That cannot be asked",
        401: "Who is there?",
        403: "Not here",
        404: "There is no such page",
    }
    page = Page("error.html.j2", titles.get(status, "Something went wrong"), problem.error, problem)
    return rendered(request, page, status=status)
