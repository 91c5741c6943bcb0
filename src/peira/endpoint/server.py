"""The HTTP server of the endpoint: one for a process, on an event loop in a thread of its own.

A program reaches it under its token: /TOKEN/v1/chat/completions, /TOKEN/v1/responses, /TOKEN/v1/messages (and
.../count_tokens), /TOKEN/v1/models, /TOKEN/mcp. Confined programs come through a Unix socket of their own,
others through the loopback. A token is void (410) when its session is closed.
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import threading
from collections import OrderedDict
from collections.abc import Awaitable, Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import msgspec

from peira.core.chat.dialects import DIALECTS, Dialect, native_request
from peira.core.chat.dialects.parts import Body, UntranslatableRequest
from peira.core.ids import Json, normalise
from peira.core.mailbox import future_result
from peira.core.models import Reply, Request
from peira.endpoint.session import TRUE_SIGNALS, EndpointSession, listed
from peira.endpoint.tools import PARSE_ERROR
from peira.errors import CallFailed, Exhausted, InDoubt, Invalid, NotJson, Parked, Unknown, message_of

if TYPE_CHECKING:
    from aiohttp import web

MOST_BODY = 32 * 2**20
"""Bytes of one request; programs are not trusted with more of this process's memory."""
KEEP_ALIVE = 5.0
"""Seconds of silence after which a stream says that it is still there."""
FINAL = {"x-should-retry": "false"}
"""For clients that would otherwise send a request again by themselves."""
REMEMBERED = 10_000
"""Void tokens that are remembered, to be told from those that never were."""
PER_TOKEN = 4
"""Bytes for one token, in estimates."""
LOOPBACK = "127.0.0.1"
Value = TypeVar("Value")
Handler = Callable[["web.Request", EndpointSession], Awaitable["web.StreamResponse"]]


class EndpointServer:
    """Serves the sessions that are open; started when it is made, and daemonic."""

    def __init__(self) -> None:
        self._sessions: dict[str, EndpointSession] = {}
        self._void: OrderedDict[str, Callable[[], object]] = OrderedDict()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="peira-endpoint", daemon=True)
        self._thread.start()
        self._runner = self._do(self._start())
        self._port = 0
        self._opening = threading.Lock()

    def _do(self, doing: Awaitable[Value]) -> Value:
        """Do something on the loop, and wait for it."""
        return asyncio.run_coroutine_threadsafe(doing, self._loop).result()  # type: ignore[arg-type]

    async def _start(self) -> web.AppRunner:
        from aiohttp import web  # slow, and not needed by those who run no commands

        app = web.Application(client_max_size=MOST_BODY)
        for prefix in ("/{token}/v1", "/{token}"):
            for path, name in (
                ("/chat/completions", "chat"),
                ("/responses", "responses"),
                ("/messages", "messages"),
            ):
                app.router.add_post(prefix + path, self._with_session(self._model(DIALECTS[name])))
            app.router.add_post(f"{prefix}/messages/count_tokens", self._with_session(_count_tokens))
            app.router.add_get(f"{prefix}/models", self._with_session(_models))
            app.router.add_get(prefix + "/models/{model:.+}", self._with_session(_model))
        app.router.add_route("*", "/{token}/mcp", self._with_session(_tools))
        app.router.add_route("*", "/{token}/{rest:.*}", self._with_session(_unknown))
        runner = web.AppRunner(app, access_log=None, handle_signals=False, shutdown_timeout=0.1)
        await runner.setup()
        return runner

    # Sessions

    def open(self, session: EndpointSession, socket_name: str = "") -> None:
        """Serve a session from now on: on the loopback, or only at the Unix socket of this name."""
        self._sessions[socket_name or session.token] = session

    def close(self, session: EndpointSession, socket_name: str = "") -> None:
        """Its token is void from now on."""
        name = socket_name or session.token
        self._sessions.pop(name, None)
        self._void[name] = session.leftover
        self._void.move_to_end(name)
        while len(self._void) > REMEMBERED:
            self._void.popitem(last=False)

    def listen_unix(self, path: Path) -> Callable[[], None]:
        """Listen at a Unix socket that everybody may connect to who sees it; returns what ends that.

        Its name, which must be unique, says which session it is for (`open`).
        """
        listener = _bound(path)
        site = self._do(self._site(listener))
        return lambda: self._do(_stopped(site))

    async def _site(self, listener: socket.socket) -> web.SockSite:
        from aiohttp import web

        site = web.SockSite(self._runner, listener)
        await site.start()
        return site

    def listen_loopback(self, port: int = 0) -> int:
        """Listen on the loopback, once; returns the port."""
        with self._opening:
            if not self._port:
                listener = socket.create_server((LOOPBACK, port))
                self._port = listener.getsockname()[1]
                self._do(self._site(listener))
        return self._port

    def stop(self) -> None:
        """End the server and its thread."""
        self._do(self._runner.cleanup())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    # Requests

    def _with_session(self, handle: Handler) -> Callable[[web.Request], Awaitable[web.StreamResponse]]:
        """A handler that finds the session of the token; 410 if it is void, 404 if there never was one."""

        async def handler(request: web.Request) -> web.StreamResponse:
            token = request.match_info["token"]
            name = _socket_name(request) or token
            session = self._sessions.get(name)
            if session is None or session.token != token:
                void = session is None and name in self._void
                if void:  # whoever asks should not be there any more
                    await asyncio.to_thread(self._void[name])
                said = "this attempt has ended: its token is void" if void else "there is no such token"
                return _failed(_dialect_of(request), 410 if void else 404, said)
            async with session.places:
                return await handle(request, session)

        return handler

    def _model(self, dialect: Dialect) -> Handler:
        """The handler of model calls in this dialect."""

        async def handler(request: web.Request, session: EndpointSession) -> web.StreamResponse:
            try:
                body = await _json(request)
                asked = native_request(dialect, body, request.headers)
            except (Invalid, UntranslatableRequest) as problem:
                return _failed(dialect, 400, str(problem))
            name = str(body.get("model") or "")
            model = session.routes.route(name)
            if model is None:
                allowed = listed(session.routes.names)
                return _failed(dialect, 404, f"the model {name!r} may not be called here; allowed: {allowed}")
            return await self._answer(request, session, dialect, body, model, asked)

        return handler

    async def _answer(
        self,
        request: web.Request,
        session: EndpointSession,
        dialect: Dialect,
        body: Body,
        model: str,
        asked: Request,
    ) -> web.StreamResponse:
        """Ask the model, and give its answer as one body or as a stream."""
        from aiohttp import web

        def gone() -> bool:
            return request.transport is None or request.transport.is_closing()

        try:
            answer = session.ask(model, asked, gone)
        except BaseException as problem:
            return _failed(dialect, *_problem(session, problem))
        if body.get("stream"):
            return await _streamed(request, session, dialect, body, answer)
        try:
            reply = await future_result(answer.reply)
        except asyncio.CancelledError:
            raise
        except BaseException as problem:
            return _failed(dialect, *_problem(session, problem))
        said = reply.native or dialect.written(reply, str(body["model"]))
        response = web.json_response(said, dumps=_dumped)
        answer.delivered = not gone()
        return response


def _socket_name(request: web.Request) -> str:
    """The name of the Unix socket that a request came through; "" if it came from the loopback."""
    address = request.transport.get_extra_info("sockname") if request.transport else None
    return os.path.basename(address) if isinstance(address, str) else ""


async def _stopped(site: web.SockSite) -> None:
    """End a site. What was sent to it is answered, or not: who asked is no more."""
    await site.stop()


def _bound(path: Path) -> socket.socket:
    """A listening Unix socket; its path may be longer than the address of a socket."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        listener.bind(f"/proc/self/fd/{folder}/{path.name}")
    except BaseException:
        listener.close()
        raise
    finally:
        os.close(folder)
    path.chmod(0o666)
    listener.listen(64)
    listener.setblocking(False)
    return listener


async def _json(request: web.Request) -> Body:
    """The body of a request; Invalid if it is no JSON object, or larger than allowed."""
    from aiohttp import web

    try:
        found = msgspec.json.decode(await request.read())
        if not isinstance(found, dict):
            raise Invalid("the body must be a JSON object")
        return dict(normalise(found, "body"))
    except web.HTTPRequestEntityTooLarge:
        raise Invalid(f"the body has more than {MOST_BODY:,} bytes") from None
    except NotJson:
        raise
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as problem:
        raise Invalid(f"the body is no JSON: {problem}") from None


def _dumped(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)


def _dialect_of(request: web.Request) -> Dialect:
    """The dialect in which errors are said."""
    anthropic = "/messages" in request.path or "anthropic-version" in request.headers
    return DIALECTS["messages" if anthropic else "chat"]


def _failed(dialect: Dialect, status: int, message: str) -> web.Response:
    from aiohttp import web

    kind = "invalid_request_error" if status < 500 else "api_error"
    return web.json_response(
        dialect.error(status, kind, message), status=status, headers=FINAL, dumps=_dumped
    )


def _problem(session: EndpointSession, problem: BaseException) -> tuple[int, str]:
    """The status and message of a call that failed; what ends the attempt ends the session."""
    if isinstance(problem, TRUE_SIGNALS):
        session.end(problem)
        if isinstance(problem, Exhausted):
            return 429, f"a limit is reached: {message_of(problem)}"
        if isinstance(problem, Parked):
            return 429, f"this call would have to wait: {message_of(problem)}"
        if isinstance(problem, Invalid | Unknown):
            return 400, message_of(problem)
        return (409 if isinstance(problem, InDoubt) else 410), message_of(problem)
    if isinstance(problem, CallFailed):
        status = problem.status if 400 <= problem.status < 600 else 502
        return status, message_of(problem)
    session.end(problem)
    return 500, f"{type(problem).__name__}: {message_of(problem)}"


async def _streamed(
    request: web.Request, session: EndpointSession, dialect: Dialect, body: Body, answer: Any
) -> web.StreamResponse:
    """The answer as a stream, made when it is there; until then it says that it is still alive."""
    from aiohttp import web

    response = web.StreamResponse(headers={"content-type": "text/event-stream", "cache-control": "no-cache"})
    waiting: asyncio.Future[Reply] = asyncio.ensure_future(future_result(answer.reply))
    begun = False
    while not (await asyncio.wait([waiting], timeout=KEEP_ALIVE))[0]:
        with suppress(ConnectionError):
            if not begun:
                begun = True
                await response.prepare(request)
            await response.write(_alive(dialect))
    try:
        reply = waiting.result()
    except BaseException as problem:
        status, said = _problem(session, problem)
        if not begun:
            return _failed(dialect, status, said)
        events: list[tuple[str, Any]] = [("error", dialect.error(status, "api_error", said))]
    else:
        written = reply.native or dialect.written(reply, str(body["model"]))
        events = list(dialect.events(written, body))
    try:
        if not begun:
            await response.prepare(request)
        await response.write(b"".join(_event(name, data) for name, data in events))
        await response.write_eof()
        answer.delivered = not answer.gone()
    except ConnectionError:  # it may ask again
        return response
    return response


def _alive(dialect: Dialect) -> bytes:
    """What keeps a stream alive: an event that programs know, or a comment."""
    return _event("ping", {"type": "ping"}) if dialect.NAME == "messages" else b": waiting\n\n"


def _event(name: str, data: Any) -> bytes:
    """One server-sent event."""
    text = data if isinstance(data, str) else _dumped(data)
    head = f"event: {name}\n" if name else ""
    return f"{head}data: {text}\n\n".encode()


async def _count_tokens(request: web.Request, session: EndpointSession) -> web.StreamResponse:
    """An estimate, from the size of the request: nothing is sent."""
    from aiohttp import web

    try:
        body = await _json(request)
    except Invalid as problem:
        return _failed(DIALECTS["messages"], 400, str(problem))
    counted = {name: body[name] for name in ("system", "messages", "tools") if body.get(name)}
    size = len(_dumped(counted).encode())
    return web.json_response({"input_tokens": -(-size // PER_TOKEN)})


async def _models(request: web.Request, session: EndpointSession) -> web.StreamResponse:
    """The models that may be called."""
    from aiohttp import web

    names = session.routes.names
    data = [_described(name, request) for name in names]
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    return web.json_response({"object": "list", "data": data, "has_more": False, **ends})


async def _model(request: web.Request, session: EndpointSession) -> web.StreamResponse:
    """One model."""
    from aiohttp import web

    name = request.match_info["model"]
    if session.routes.route(name) is None:
        return _failed(_dialect_of(request), 404, f"the model {name!r} may not be called here")
    return web.json_response(_described(name, request))


def _described(name: str, request: web.Request) -> Json:
    if "anthropic-version" in request.headers:
        return {"type": "model", "id": name, "display_name": name, "created_at": "1970-01-01T00:00:00Z"}
    return {"id": name, "object": "model", "created": 0, "owned_by": "peira"}


async def _tools(request: web.Request, session: EndpointSession) -> web.StreamResponse:
    """The tools of the attempt, over MCP."""
    from aiohttp import web

    if session.tools is None:
        return _failed(DIALECTS["chat"], 404, "this command was given no tools")
    if request.method == "DELETE":
        return web.Response(status=200)
    if request.method != "POST":
        return web.Response(status=405, headers={"allow": "POST, DELETE"})
    try:
        message = msgspec.json.decode(await request.read())
    except (msgspec.DecodeError, RecursionError) as problem:
        error = {"code": PARSE_ERROR, "message": str(problem)}
        return web.json_response({"jsonrpc": "2.0", "id": None, "error": error}, status=400)
    try:
        answer = await asyncio.to_thread(_answered, session, message)
    except BaseException as problem:
        return _failed(DIALECTS["chat"], *_problem(session, problem))
    if answer is None:
        return web.Response(status=202)
    return web.json_response(answer, dumps=_dumped)


def _answered(session: EndpointSession, message: Any) -> Json | None:
    assert session.tools is not None
    return session.tools.answer(message)


async def _unknown(request: web.Request, session: EndpointSession) -> web.StreamResponse:
    return _failed(_dialect_of(request), 404, f"there is no {request.method} /{request.match_info['rest']}")


_server: tuple[int, EndpointServer] | None = None
_making = threading.Lock()


def endpoint_server() -> EndpointServer:
    """The server of this process, started on first use."""
    global _server
    with _making:
        if _server is None or _server[0] != os.getpid():
            _server = os.getpid(), EndpointServer()
        return _server[1]


def new_token() -> str:
    """A token that nobody can guess."""
    return secrets.token_hex(16)
