"""Who may ask: the token, the Host and Origin of a request, and the headers of every answer.

A request is checked in this order: Host (a page of another site cannot reach us by a name that it owns), then
the token or the cookie that stands for it, then, for what writes with the cookie, Origin and a header that
only our own pages know. Programs send `Authorization: Bearer TOKEN` and need neither.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field

from aiohttp import web

from peira.errors import Invalid

Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]
CSRF = "X-Peira-CSRF"
"""The header that our own pages send with what writes."""
SAFE = frozenset({"GET", "HEAD", "OPTIONS"})
OPEN = ("/static/",)
"""Paths that need no token: they are the same for everybody."""
HOOKS = "/hooks/"
"""Webhooks need no token either: each request is signed (`streams.webhook`)."""
HEADERS = {
    "Content-Security-Policy": (
        "default-src 'self'; img-src 'self' data:; object-src 'none'; base-uri 'none'; "
        "form-action 'self'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}


@dataclass(frozen=True)
class Credentials:
    """The token of one server process, and what is derived from it."""

    token: str = field(default_factory=lambda: secrets.token_urlsafe(24))

    @property
    def cookie(self) -> str:
        """The value of the cookie that stands for the token in a browser."""
        return self._derived("cookie")

    @property
    def csrf(self) -> str:
        """What pages send in the header `CSRF`."""
        return self._derived("csrf")

    def _derived(self, purpose: str) -> str:
        return hmac.new(self.token.encode(), purpose.encode(), hashlib.sha256).hexdigest()

    def is_token(self, said: str) -> bool:
        """Whether this is the token; takes the same time whatever is said."""
        return _equal(said, self.token)

    def is_cookie(self, said: str) -> bool:
        """Whether this is the value of the cookie."""
        return _equal(said, self.cookie)

    def is_csrf(self, said: str) -> bool:
        """Whether this is the value of the header."""
        return _equal(said, self.csrf)


TOKEN, SHORTEST = "PEIRA_TOKEN", 16
"""The environment variable with the token to use, and the fewest characters of one."""


def credentials_from(environment: Mapping[str, str]) -> Credentials:
    """A new token; or the one that the environment sets, so that a restarted server has the same."""
    said = environment.get(TOKEN, "")
    if said and (len(said) < SHORTEST or not said.isascii() or not said.isprintable() or " " in said):
        raise Invalid(f"{TOKEN}: a token has at least {SHORTEST} printable characters, and no spaces")
    return Credentials(said) if said else Credentials()


def _equal(said: str, known: str) -> bool:
    return hmac.compare_digest(said.encode("utf-8", "replace"), known.encode())


class AccessCheck:
    """Refuses what may not be asked; the first middleware of the application."""

    def __init__(self, credentials: Credentials, hosts: Iterable[str], read_only: bool) -> None:
        """`hosts` are the names, with their ports, under which this server may be reached."""
        self.credentials, self.read_only = credentials, read_only
        self.hosts = frozenset(host.lower() for host in hosts)

    def cookie_name(self, request: web.Request) -> str:
        """The cookie's name; cookies are shared by all ports of a host, so it names ours."""
        return f"peira-{request.host.rpartition(':')[2] if ':' in request.host else '80'}"

    async def check(self, request: web.Request, handler: Handler) -> web.StreamResponse:
        """Answer the request, or say why not."""
        if (request.headers.get("Host") or "").lower() not in self.hosts:
            return _refused(403, "this server does not answer under that name")
        if request.path.startswith(OPEN) or (request.path.startswith(HOOKS) and request.method == "POST"):
            return await handler(request)
        said = request.query.get("token")
        if said is not None and request.method in SAFE:
            return self._sign_in(request, said)
        if problem := self._problem(request):
            return problem
        return await handler(request)

    def _sign_in(self, request: web.Request, said: str) -> web.StreamResponse:
        """Exchange the token of the printed address for a cookie, and take it out of the address."""
        if not self.credentials.is_token(said):
            return _refused(401, "this is not the token of this server: see what `peira serve` printed")
        rest = [(name, value) for name, value in request.query.items() if name != "token"]
        target = str(request.rel_url.with_query(rest))
        answer = web.Response(status=303, headers={"Location": "/" + target.lstrip("/\\")})
        answer.set_cookie(
            self.cookie_name(request), self.credentials.cookie, httponly=True, samesite="Strict", path="/"
        )
        return answer

    def _problem(self, request: web.Request) -> web.StreamResponse | None:
        """Why the request is refused; None if it is not."""
        writes = request.method not in SAFE
        bearer = request.headers.get("Authorization", "")
        if bearer:
            scheme, _, said = bearer.partition(" ")
            if scheme.lower() != "bearer" or not self.credentials.is_token(said.strip()):
                return _refused(401, "this is not the token of this server")
        elif not self.credentials.is_cookie(request.cookies.get(self.cookie_name(request), "")):
            return _refused(401, "open the address that `peira serve` printed: it has the token")
        elif writes and request.headers.get("Origin", "") != f"http://{request.host}":
            return _refused(403, "this was asked by a page of another site")
        elif writes and not self.credentials.is_csrf(request.headers.get(CSRF, "")):
            return _refused(403, f"the header {CSRF} is missing or wrong")
        if writes and self.read_only:
            return _refused(403, "this server only shows: it was started with --read-only")
        return None


def _refused(status: int, why: str) -> web.Response:
    return web.json_response({"error": why, "problems": []}, status=status)


def with_headers(answer: web.StreamResponse) -> None:
    """Add the headers that every answer has."""
    for name, value in HEADERS.items():
        answer.headers.setdefault(name, value)
    if not answer.headers.get("Cache-Control"):
        answer.headers["Cache-Control"] = "no-store"
