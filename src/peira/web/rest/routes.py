"""Routes of the REST interface: each is declared once, with its types; handlers and `openapi.json` follow."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import msgspec
from aiohttp import web

from peira.errors import Invalid
from peira.web.rest.documents import ErrorDocument

PREFIX = "/api/v1"


class NoQuery(msgspec.Struct, frozen=True):
    """A route without parameters in its query."""


@dataclass(frozen=True)
class ApiRoute:
    """One route: how it is asked, what answers it, and the types of its query, body and answer."""

    method: str
    path: str
    """Below `PREFIX`, with {names} of parts."""
    name: str
    """Unique; what a generated client calls it."""
    handler: Callable[[web.Request, Any], Awaitable[Any]]
    returns: Any
    query: Any = NoQuery
    body: Any = None
    streams: bool = False
    """It also answers as server-sent events, if asked for `text/event-stream`."""
    status: int = 200

    @property
    def summary(self) -> str:
        """What it is for, in a line: the first of its handler's documentation."""
        return (self.handler.__doc__ or "").strip().partition("\n")[0]

    @property
    def parts(self) -> list[str]:
        """The names in its path."""
        return re.findall(r"{(\w+)}", self.path)


def read_query(request: web.Request, kind: Any) -> Any:
    """The query of a request as its type; Invalid with the name of what is wrong.

    A name may be left out or empty, which is the same; one that is there several times has several lines.
    """
    several = {name: [value for value in request.query.getall(name) if value] for name in request.query}
    given: dict[str, Any] = {name: "\n".join(values) for name, values in several.items() if values}
    fields = {field.encode_name: field for field in msgspec.structs.fields(kind)}
    if unknown := sorted(set(given) - set(fields) - {"token"}):
        names = ", ".join(fields) or "none"
        raise Invalid([f"{name}: no such parameter; there are: {names}" for name in unknown])
    try:
        return msgspec.convert({name: given[name] for name in given if name in fields}, kind, strict=False)
    except msgspec.ValidationError as problem:
        raise Invalid(f"query: {problem}") from None


async def read_body(request: web.Request, kind: Any) -> Any:
    """The body of a request, JSON or a form, as its type; Invalid if it is not."""
    try:
        if request.content_type == "application/x-www-form-urlencoded":
            fields = {name: value for name, value in (await request.post()).items() if value != ""}
            return msgspec.convert(fields, kind, strict=False)
        return msgspec.json.decode(await request.read() or b"{}", type=kind)
    except msgspec.DecodeError as problem:
        raise Invalid(f"body: {problem}") from None


def openapi(routes: list[ApiRoute], version: str) -> dict[str, Any]:
    """The description of the interface, made from its routes and their types."""
    kinds = [kind for route in routes for kind in (route.returns, route.body) if kind is not None]
    _, components = msgspec.json.schema_components(
        [*kinds, ErrorDocument], ref_template="#/components/schemas/{name}"
    )
    paths: dict[str, dict[str, Any]] = {}
    for route in routes:
        paths.setdefault(f"{PREFIX}{route.path}", {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "peira",
            "version": version,
            "description": "Runs, trials, tables and calls of a peira store.",
        },
        "paths": paths,
        "components": {
            "schemas": components,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _operation(route: ApiRoute) -> dict[str, Any]:
    """One route, as OpenAPI says it."""
    content = {"application/json": {"schema": _schema(route.returns)}}
    if route.streams:
        content["text/event-stream"] = {"schema": {"type": "string"}}
    problem = {"application/json": {"schema": {"$ref": "#/components/schemas/ErrorDocument"}}}
    operation: dict[str, Any] = {
        "operationId": route.name,
        "summary": route.summary,
        "parameters": [*map(_part, route.parts), *_parameters(route.query)],
        "responses": {
            str(route.status): {"description": "what was asked for", "content": content},
            "400": {"description": "something in the request is wrong", "content": problem},
            "404": {"description": "there is no such thing", "content": problem},
        },
    }
    if route.body is not None:
        operation["requestBody"] = {
            "required": True,
            "content": {"application/json": {"schema": _schema(route.body)}},
        }
    return operation


def _schema(kind: Any) -> dict[str, Any]:
    [schema], _ = msgspec.json.schema_components([kind], ref_template="#/components/schemas/{name}")
    return schema


def _part(name: str) -> dict[str, Any]:
    return {"name": name, "in": "path", "required": True, "schema": {"type": "string"}}


def _parameters(kind: Any) -> list[dict[str, Any]]:
    found = msgspec.json.schema(kind)
    own = found.get("$defs", {}).get(kind.__name__, found)
    return [
        {"name": name, "in": "query", "required": False, "schema": schema}
        for name, schema in own.get("properties", {}).items()
    ]
