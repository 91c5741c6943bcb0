"""Choose a study of the project, see its plan, estimate and design, and start it."""

from __future__ import annotations

from peira.web.pages.page import Page, PageRequest
from peira.web.rest.routes import NoQuery, read_query
from peira.web.studies import study_files


async def plan(asked: PageRequest) -> Page:
    """The studies of the project."""
    read_query(asked.request, NoQuery)
    folder = asked.site.reader.session.project.folder
    found = await asked.site.reader.short(study_files, folder)
    about = "Studies of this project: see what one would do and cost before it is started."
    return Page("plan.html.j2", "Plan and start", about, {"studies": found}, {"folder": folder}, tab="plan")
