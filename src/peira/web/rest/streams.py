"""Streams over HTTP: submit jobs, look at them, wait, cancel; pause, resume and drain; and webhooks.

A webhook is `POST /hooks/STREAM/TRIGGER`. It needs no token but a signature: the header `X-Peira-Signature`
is the HMAC-SHA-256, in hexadecimal digits, of the time in `X-Peira-Time` (seconds since 1970), a full stop
and the body, with the secret in the environment variable that the trigger names. `X-Peira-Delivery` may name
the delivery: the same name is the same job; without it, the same time and body are.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import os
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any

import msgspec
from aiohttp import web

from peira.app.streams.view import JobView, StreamView, streams_of
from peira.core.ids import digest_bytes
from peira.errors import Invalid, Unknown
from peira.web import stream_queries
from peira.web.rest.actions import separate_session
from peira.web.rest.responses import json_response
from peira.web.rest.routes import ApiRoute, NoQuery
from peira.web.site import site_of
from peira.web.stream_queries import ExperimentDocument, ExperimentQuery, GoalList, OutcomeList
from peira.web.studies import who

MOST_WAIT = 30.0
"""Seconds that a request may wait for the end of a job."""
LOOK = 0.05
FRESH = 300.0
"""Seconds for which the signature of a webhook is valid, before and after its time."""
MOST_HOOK = 1 << 20
"""The most bytes of a webhook's body."""


class StreamList(msgspec.Struct, frozen=True):
    """Every stream of the store, with its statistics."""

    streams: list[dict[str, Any]]


class JobListQuery(msgspec.Struct, frozen=True):
    """Which jobs to list: of a state, at most so many."""

    state: str = ""
    limit: int = 100


class JobList(msgspec.Struct, frozen=True):
    """Jobs, newest first."""

    jobs: list[dict[str, Any]]


class JobSubmission(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A job to submit; the same key is the same job. `text` is an input as people type it: JSON, or text."""

    input: Any = None
    text: str = ""
    key: str | None = None
    priority: int = 0
    group: str = ""
    expected: Any = None


class SubmittedJob(msgspec.Struct, frozen=True):
    """The job of a submission, and its state."""

    job: str
    state: str


class JobWaitQuery(msgspec.Struct, frozen=True):
    """How many seconds to wait for its end; 0 only looks."""

    wait: float = 0.0


class StreamEventQuery(msgspec.Struct, frozen=True):
    """Which events: after a cursor, of kinds (separated by commas), about a job, of a level."""

    after: str = ""
    kinds: str = ""
    job: str = ""
    level: str = "calls"
    limit: int = 1000


class StreamEventList(msgspec.Struct, frozen=True):
    """Events of a stream, in order, each with its cursor."""

    events: list[dict[str, Any]]


class LiveTextQuery(msgspec.Struct, frozen=True):
    """Which pieces: after a number, of one job."""

    after: int = 0
    job: str = ""


class LiveTextPiece(msgspec.Struct, frozen=True):
    """A piece of what a model says: its number, task and call; `gap`: some before it were dropped."""

    n: int
    task: str
    call: str
    text: str
    gap: bool


class LiveTextList(msgspec.Struct, frozen=True):
    """Pieces of text, in order."""

    pieces: list[LiveTextPiece]


class ArmDecision(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The arm that all jobs get from now on, and why."""

    arm: str
    why: str = ""


class StreamChange(msgspec.Struct, frozen=True):
    """A request that says everything by its path."""


class OutcomeReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What became of a job; `text` is a value as people type it: true, false, a number, or text."""

    name: str
    value: bool | int | float | str | None = None
    text: str = ""


class StreamChanged(msgspec.Struct, frozen=True):
    """What was done to a stream or a job."""

    stream: str
    done: str
    job: str | None = None
    state: str | None = None


def _view(request: web.Request) -> StreamView:
    return StreamView(separate_session(site_of(request)), request.match_info["stream"], by=who())


async def list_streams(request: web.Request, query: NoQuery) -> StreamList:
    """List the streams of the store, with their statistics."""
    site = site_of(request)
    return StreamList(await site.reader.short(streams_of, separate_session(site)))


async def get_stream(request: web.Request, query: NoQuery) -> dict[str, Any]:
    """Get the statistics of a stream."""
    return await site_of(request).reader.short(lambda: _view(request).stats())


async def list_jobs(request: web.Request, query: JobListQuery) -> JobList:
    """List jobs of a stream, newest first."""
    limit = max(1, min(query.limit, 10_000))
    return JobList(await site_of(request).reader.short(lambda: _view(request).jobs(query.state, limit)))


async def submit(request: web.Request, body: JobSubmission) -> SubmittedJob:
    """Submit a job; it is durable when this answers."""

    given = msgspec.structs.asdict(body)
    if typed := given.pop("text"):
        given["input"] = _typed(typed)

    def act() -> SubmittedJob:
        made = _view(request).submit(**given)
        return SubmittedJob(made.id, made.state)

    return await site_of(request).reader.act(act)


def _typed(text: str) -> Any:
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def get_job(request: web.Request, query: JobWaitQuery) -> dict[str, Any]:
    """Get a job: what was submitted, its state, its output; waits for its end if asked to."""
    reader = site_of(request).reader
    job: JobView = await reader.short(lambda: _view(request).job(request.match_info["job"]))
    until = time.monotonic() + max(0.0, min(query.wait, MOST_WAIT))
    while not await reader.short(job.wait, 0) and time.monotonic() < until:
        await asyncio.sleep(LOOK)
    return await reader.short(lambda: job.stream.document(job.id))


async def cancel(request: web.Request, body: StreamChange) -> StreamChanged:
    """Cancel a job, in whatever state."""

    def act() -> StreamChanged:
        job = _view(request).job(request.match_info["job"])
        done = job.cancel()
        return StreamChanged(job.stream.name, "cancel" if done else "nothing", job.id, job.state)

    return await site_of(request).reader.act(act)


async def report_outcome(request: web.Request, body: OutcomeReport) -> StreamChanged:
    """Report what became of a job, now or much later; the last report of a name counts."""
    value: Any = body.value if not body.text else _typed(body.text)

    def act() -> StreamChanged:
        job = _view(request).job(request.match_info["job"])
        job.outcome(body.name, value)
        return StreamChanged(job.stream.name, "outcome", job.id, job.state)

    return await site_of(request).reader.act(act)


async def get_experiment(request: web.Request, query: ExperimentQuery) -> ExperimentDocument:
    """Get the live experiment of a stream: arms, shares, differences valid at every look, the decision."""
    return await stream_queries.experiment(site_of(request), request.match_info["stream"], query)


async def list_goals(request: web.Request, query: NoQuery) -> GoalList:
    """List the goals of a stream with their verdicts, and how these changed."""
    return await stream_queries.goals(site_of(request), request.match_info["stream"])


async def list_outcomes(request: web.Request, query: NoQuery) -> OutcomeList:
    """List what was reported of jobs of a stream, newest first."""
    return await stream_queries.outcomes(site_of(request), request.match_info["stream"])


async def decide(request: web.Request, body: ArmDecision) -> StreamChanged:
    """End the experiment of a stream by hand: all jobs get this arm from now on."""

    def act() -> StreamChanged:
        view = _view(request)
        view.decide(body.arm, body.why)
        return StreamChanged(view.name, "decide")

    return await site_of(request).reader.act(act)


async def list_stream_events(request: web.Request, query: StreamEventQuery) -> StreamEventList:
    """List events of a stream after a cursor."""
    kinds = [kind for kind in query.kinds.split(",") if kind]

    def read() -> StreamEventList:
        found = _view(request).events(query.job, after=query.after, kinds=kinds, level=query.level)
        return StreamEventList([event for event, _ in zip(found, range(query.limit), strict=False)])

    return await site_of(request).reader.short(read)


async def follow_live_text(request: web.Request, query: LiveTextQuery) -> LiveTextList | web.StreamResponse:
    """List what models say in the jobs of a stream; as text/event-stream, follow it as they say it."""
    reader = site_of(request).reader
    view: StreamView = await reader.short(lambda: _view(request))
    job = await reader.short(view.find, query.job) if query.job else ""
    live = await reader.short(lambda: view.live)
    if live is None:
        raise Unknown(
            f"stream {view.name!r} is not served by this process, which hears nothing of its models"
        )

    def read(after: int) -> list[LiveTextPiece]:
        return [
            LiveTextPiece(one.n, one.task, one.call, one.text, one.gap)
            for one in live.read(after, job, view.name)
        ]

    if "text/event-stream" not in request.headers.get("Accept", ""):
        return LiveTextList(read(query.after))
    last = request.headers.get("Last-Event-ID", "")
    after = int(last) if last.isdigit() and len(last) < 16 else max(0, query.after)
    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Cache-Control": "no-store"})
    await answer.prepare(request)
    with suppress(ConnectionResetError):  # who listened is gone
        while not live.closed:
            for piece in read(after):
                after = piece.n
                await answer.write(b"id: %d\ndata: %s\n\n" % (after, msgspec.json.encode(piece)))
            await asyncio.sleep(LOOK)
    return answer


async def list_decisions(request: web.Request, query: NoQuery) -> list[dict[str, Any]]:
    """List what agents decided in the jobs of a stream, in order."""
    return await site_of(request).reader.short(lambda: _view(request).decisions())


def _change(word: str, summary: str) -> Callable[[web.Request, StreamChange], Awaitable[StreamChanged]]:
    async def handle(request: web.Request, body: StreamChange) -> StreamChanged:
        def act() -> StreamChanged:
            view = _view(request)
            getattr(view, word)()
            return StreamChanged(view.name, word)

        return await site_of(request).reader.act(act)

    handle.__doc__ = summary
    return handle


async def webhook(request: web.Request) -> web.StreamResponse:
    """Submit the job of a signed request; its input is the JSON of the body."""
    name, trigger = request.match_info["stream"], request.match_info["trigger"]
    reader = site_of(request).reader
    if site_of(request).read_only:
        raise web.HTTPForbidden(reason="this server only shows: it was started with --read-only")
    if request.content_length is not None and request.content_length > MOST_HOOK:
        raise web.HTTPRequestEntityTooLarge(MOST_HOOK, request.content_length)
    body = await request.read()
    view: StreamView = await reader.short(lambda: _view(request))
    if trigger not in view.declaration.hooks:
        raise Unknown(f"stream {name!r} has no webhook {trigger!r}")
    secret = os.environ.get(view.declaration.hooks[trigger], "")
    signed_at = request.headers.get("X-Peira-Time", "")
    if problem := signature_problem(
        secret, signed_at, body, request.headers.get("X-Peira-Signature", ""), time.time()
    ):
        raise web.HTTPUnauthorized(reason=problem)
    try:
        given = msgspec.json.decode(body)
    except msgspec.DecodeError as problem:
        raise Invalid(f"body: {problem}") from None
    delivery = request.headers.get("X-Peira-Delivery", "") or digest_bytes(signed_at.encode() + b"." + body)
    key = f"{trigger}:{delivery}"

    def act() -> SubmittedJob:
        [made] = view.submit_many([{"input": given, "key": key}], trigger=trigger)
        return SubmittedJob(made.id, made.state)

    return json_response(await reader.act(act), 202)


def signature(secret: str, signed_at: str, body: bytes) -> str:
    """The signature of a webhook: HMAC-SHA-256 over its time, a full stop and its body."""
    return hmac.new(secret.encode(), signed_at.encode() + b"." + body, hashlib.sha256).hexdigest()


def signature_problem(secret: str, signed_at: str, body: bytes, said: str, now: float) -> str:
    """Why a webhook is refused; "" if it is signed well, and lately. Takes as long whatever is said."""
    if not secret:
        return "this server does not know the secret of this webhook: set its environment variable"
    said = said.removeprefix("sha256=").lower()
    if not hmac.compare_digest(said.encode("utf-8", "replace"), signature(secret, signed_at, body).encode()):
        return "the signature is missing or wrong"
    if not (signed_at.isascii() and signed_at.isdigit()) or abs(now - int(signed_at)) > FRESH:
        return f"it was not signed within the last {FRESH:g} seconds"
    return ""


ROUTES = [
    ApiRoute("GET", "/streams", "list_streams", list_streams, StreamList),
    ApiRoute("GET", "/streams/{stream}", "get_stream", get_stream, dict[str, Any]),
    ApiRoute("GET", "/streams/{stream}/jobs", "list_jobs", list_jobs, JobList, JobListQuery),
    ApiRoute(
        "POST", "/streams/{stream}/jobs", "submit_job", submit, SubmittedJob, body=JobSubmission, status=202
    ),
    ApiRoute("GET", "/streams/{stream}/jobs/{job}", "get_job", get_job, dict[str, Any], JobWaitQuery),
    ApiRoute(
        "POST", "/streams/{stream}/jobs/{job}/cancel", "cancel_job", cancel, StreamChanged, body=StreamChange
    ),
    ApiRoute(
        "POST",
        "/streams/{stream}/jobs/{job}/outcome",
        "report_outcome",
        report_outcome,
        StreamChanged,
        body=OutcomeReport,
    ),
    ApiRoute(
        "GET",
        "/streams/{stream}/experiment",
        "get_experiment",
        get_experiment,
        ExperimentDocument,
        ExperimentQuery,
    ),
    ApiRoute("GET", "/streams/{stream}/goals", "list_goals", list_goals, GoalList),
    ApiRoute("GET", "/streams/{stream}/outcomes", "list_outcomes", list_outcomes, OutcomeList),
    ApiRoute(
        "GET",
        "/streams/{stream}/events",
        "list_stream_events",
        list_stream_events,
        StreamEventList,
        StreamEventQuery,
    ),
    ApiRoute(
        "GET",
        "/streams/{stream}/live",
        "follow_live_text",
        follow_live_text,
        LiveTextList,
        LiveTextQuery,
        streams=True,
    ),
    ApiRoute(
        "POST", "/streams/{stream}/decide", "decide_experiment", decide, StreamChanged, body=ArmDecision
    ),
    ApiRoute("GET", "/streams/{stream}/decisions", "list_decisions", list_decisions, list[dict[str, Any]]),
    *(
        ApiRoute(
            "POST",
            f"/streams/{{stream}}/{word}",
            f"{word}_stream",
            _change(word, summary),
            StreamChanged,
            body=StreamChange,
        )
        for word, summary in (
            ("pause", "Begin no more jobs until the stream is resumed."),
            ("resume", "Let a paused stream go on."),
            ("drain", "Take no more jobs, and end the stream once those it has have ended."),
        )
    ),
]
"""The routes of streams below the REST interface; webhooks are beside it."""
