"""Work plans over REST: their runs and units; cancel units, or execute them once more."""

from __future__ import annotations

from typing import Any

import msgspec
from aiohttp import web

from peira.app.work.control import cancel_units
from peira.errors import Invalid
from peira.web import studies
from peira.web.pages import work as pages
from peira.web.pages.work import WorkList
from peira.web.rest.actions import ActionResult, separate_session
from peira.web.rest.routes import ApiRoute, NoQuery
from peira.web.site import site_of


class UnitChoice(msgspec.Struct, frozen=True):
    """Units, separated by line breaks."""

    units: str

    @property
    def names(self) -> list[str]:
        """The names; Invalid if there are none."""
        found = [line.strip() for line in self.units.splitlines() if line.strip()]
        if not found:
            raise Invalid("units: name at least one")
        return found


async def list_work(request: web.Request, query: NoQuery) -> WorkList:
    """List runs of work plans, newest first."""
    reader = site_of(request).reader
    return await reader.long(pages.list_runs, reader)


async def get_work(request: web.Request, query: NoQuery) -> dict[str, Any]:
    """Get a run of a work plan with its units."""
    reader = site_of(request).reader
    return await reader.long(lambda: pages.find_view(reader, request.match_info["run"]).document())


async def cancel(request: web.Request, body: UnitChoice) -> ActionResult:
    """Cancel units of a run under way; what needs them is blocked."""
    site, run = site_of(request), request.match_info["run"]
    states = await site.reader.act(cancel_units, separate_session(site), body.names, run, by=studies.who())
    return ActionResult("; ".join(f"{name}: {state}" for name, state in states.items()))


async def retry(request: web.Request, body: UnitChoice) -> ActionResult:
    """Execute units that did not succeed once more, in a process of its own, with all that needs them."""
    site, run, names = site_of(request), request.match_info["run"], body.names
    project = site.reader.session.project
    store = str(site.reader.session.store)
    await site.reader.act(studies.retry_units, project.folder, run, store, names)
    return ActionResult(f"{', '.join(names)}: executed once more")


ROUTES = [
    ApiRoute("GET", "/work", "list_work", list_work, WorkList),
    ApiRoute("GET", "/work/{run}", "get_work", get_work, dict[str, Any]),
    ApiRoute("POST", "/work/{run}/cancel", "cancel_units", cancel, ActionResult, body=UnitChoice),
    ApiRoute("POST", "/work/{run}/retry", "retry_units", retry, ActionResult, body=UnitChoice),
]
"""What programs can see and do about work plans."""
