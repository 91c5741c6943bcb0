"""The application: routes of pages and of the REST interface, errors as answers, headers, static files."""

from __future__ import annotations

import logging
from importlib.metadata import version
from importlib.resources import files

import msgspec
from aiohttp import web

from peira.errors import ExpressionError, Invalid, PeiraError, StoreInUse, Unknown
from peira.web.connections import ConnectionGuard
from peira.web.pages.index import PAGES, error_page, page_handler
from peira.web.rest import actions, results, streams, work
from peira.web.rest.documents import ErrorDocument
from peira.web.rest.responses import json_response
from peira.web.rest.routes import PREFIX, ApiRoute, openapi, read_body, read_query
from peira.web.security import HOOKS, AccessCheck, Handler, with_headers
from peira.web.site import SITE, Site

MOST_BODY = 1 << 20
"""The most bytes of a request."""
STATIC = {
    ".js": "text/javascript",
    ".css": "text/css",
    ".svg": "image/svg+xml",
    ".LICENSE": "text/plain",
}
"""Kinds of static files that are served."""
ROUTES = [*results.ROUTES, *actions.ROUTES, *streams.ROUTES, *work.ROUTES]
"""Every route of the REST interface."""
log = logging.getLogger("peira")


def make_application(site: Site, access: AccessCheck, guard: ConnectionGuard) -> web.Application:
    """The application of a site; `guard` is told of every request."""

    @web.middleware
    async def answer(request: web.Request, handler: Handler) -> web.StreamResponse:
        guard.saw(request)
        try:
            made = await access.check(request, handler)
        except web.HTTPException as problem:
            made = _problem(request, ErrorDocument(problem.reason or "no such page"), problem.status)
        except (PeiraError, ExpressionError) as problem:
            made = _problem(request, *_error(problem))
        except (ConnectionResetError, TimeoutError):
            raise
        except Exception:
            log.exception("%s %s", request.method, request.path)
            made = _problem(request, ErrorDocument("the server made a mistake; its log says which"), 500)
        if not made.prepared:
            with_headers(made)
        return made

    app = web.Application(middlewares=[answer], client_max_size=MOST_BODY)
    app[SITE] = site

    async def prepared(request: web.Request, made: web.StreamResponse) -> None:
        with_headers(made)

    app.on_response_prepare.append(prepared)
    for route in ROUTES:
        app.router.add_route(route.method, f"{PREFIX}{route.path}", api_handler(route))
    app.router.add_get(f"{PREFIX}/openapi.json", _openapi)
    app.router.add_post("/hooks/{stream}/{trigger}", streams.webhook)
    app.router.add_get("/static/{name:[\\w./-]+}", _static)
    for page in PAGES:
        handler = page_handler(page)
        for path in page.paths:
            app.router.add_get(path, handler)
    return app


def api_handler(route: ApiRoute) -> Handler:
    """The handler of a route: reads its query, encodes its document."""

    async def handle(request: web.Request) -> web.StreamResponse:
        if route.body is None:
            given = read_query(request, route.query)
        else:
            given = await read_body(request, route.body)
        found = await route.handler(request, given)
        if isinstance(found, web.StreamResponse):
            return found
        return json_response(found, route.status)

    return handle


async def _openapi(request: web.Request) -> web.Response:
    return json_response(openapi(ROUTES, version("peira")))


async def _static(request: web.Request) -> web.Response:
    """A file of the package; names lead nowhere else."""
    name = request.match_info["name"]
    parts = name.split("/")
    kind = next((kind for end, kind in STATIC.items() if name.endswith(end)), None)
    file = files("peira.web").joinpath("static", *parts)
    if kind is None or any(part in ("", ".", "..") for part in parts) or not file.is_file():
        raise Unknown("there is no such file")
    return web.Response(
        body=file.read_bytes(),
        content_type=kind,
        charset="utf-8",
        headers={"Cache-Control": "public, max-age=3600"},
    )


def _error(problem: PeiraError | ExpressionError) -> tuple[ErrorDocument, int]:
    """An error as a document with its status."""
    if isinstance(problem, ExpressionError):
        return ErrorDocument(problem.reason), 400
    status = 404 if isinstance(problem, Unknown) else 400 if isinstance(problem, Invalid) else 500
    status = 409 if isinstance(problem, StoreInUse) else status
    lines = list(problem.problems) if isinstance(problem, Invalid) else []
    return ErrorDocument(str(problem), lines if len(lines) > 1 else []), status


def _problem(request: web.Request, document: ErrorDocument, status: int) -> web.Response:
    """An error as JSON for programs, as a page for people."""
    plain = request.path.startswith((PREFIX, HOOKS)) or request.path.endswith(".json")
    if plain or request.headers.get("HX-Request") or "text/html" not in request.headers.get("Accept", ""):
        return json_response(msgspec.to_builtins(document), status)
    return error_page(request, document, status)
