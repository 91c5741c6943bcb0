"""A page: what it says, the document that it is as JSON, and how it is rendered."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from markupsafe import Markup

from peira.core.text.secrets import without_keys
from peira.web.rendering import environment, static_text
from peira.web.rest.responses import json_response
from peira.web.site import Site, site_of

SUFFIXES = {".json": "json", ".html": "file"}


@dataclass(frozen=True)
class Page:
    """A page: its template, its title, a sentence on what it is, the document, and more for the template."""

    template: str
    title: str
    about: str
    document: Any
    more: Mapping[str, Any] = field(default_factory=dict)
    tab: str = "runs"
    """The part of the site that it belongs to."""


@dataclass(frozen=True)
class PageRequest:
    """A request for a page: the site, the parts of the path without suffix, and in which form it is asked."""

    site: Site
    request: web.Request
    parts: Mapping[str, str]
    form: str
    """html, json, file (self-contained), or part (a fragment for a page that is open)."""


PageHandler = Callable[[PageRequest], Awaitable["Page | web.StreamResponse"]]


@dataclass(frozen=True)
class PageRoute:
    """Where a page is."""

    path: str
    handler: PageHandler

    @property
    def paths(self) -> list[str]:
        """All paths of the page: with .json and .html as well."""
        if self.path == "/":
            return ["/"]
        return [self.path] if self.path.endswith("}") else [self.path, *(self.path + end for end in SUFFIXES)]


def page_handler(route: PageRoute) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
    """The handler of a page in all its forms."""

    async def handle(request: web.Request) -> web.StreamResponse:
        form, parts = "html", dict(request.match_info)
        for end, name in SUFFIXES.items():
            if request.path.endswith(end):
                form = name
                parts = {key: value.removesuffix(end) for key, value in parts.items()}
        if request.headers.get("HX-Request") == "true":
            form = "part"
        found = await route.handler(PageRequest(site_of(request), request, parts, form))
        if isinstance(found, web.StreamResponse):
            return found
        return json_response(found.document) if form == "json" else rendered(request, found, form)

    return handle


def rendered(request: web.Request, page: Page, form: str = "html", status: int = 200) -> web.Response:
    """A page as HTML; as a file it needs nothing else."""
    site = site_of(request)
    standalone = form == "file"
    text = (
        environment()
        .get_template(page.template)
        .render(
            page=page,
            data=page.document,
            **page.more,
            site=site,
            path=request.path,
            query_string=request.query_string,
            standalone=standalone,
            style=Markup(static_text("peira.css")) if standalone else "",
            csrf=site.credentials.csrf,
        )
    )
    answer = web.Response(text=without_keys(text), content_type="text/html", status=status)
    if standalone:
        name = (
            "".join(c if c.isascii() and c.isalnum() else "-" for c in page.title.lower()).strip("-")[:60]
            or "page"
        )
        answer.headers["Content-Disposition"] = f'attachment; filename="peira-{name}.html"'
    return answer
