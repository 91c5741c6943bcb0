"""OpenTelemetry spans of runs, attempts and calls, and the tracer provider they are sent to.

Configuration is by OpenTelemetry's environment variables: OTEL_TRACES_EXPORTER (otlp, console, none, or any
installed exporter), OTEL_EXPORTER_OTLP_ENDPOINT, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER and so on. Only
exporters are looked up here; OpenTelemetry reads the rest itself.

Spans start and end on different threads, so a parent is found by its key, never by the current context. Spans
describe what was executed: reused trials and replayed answers have none. A batched call outlives the attempt
that made it, so its parent is the run; its span is created when the batch is collected and starts at
submission, if that was in this process.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any

from peira.core.contracts import Attempt
from peira.core.log.events import State, Status
from peira.core.models import Reply, Request
from peira.core.registry import OutcomeCallback, nearest, registry
from peira.errors import Invalid
from peira.report.telemetry._metrics import CallMetrics
from peira.report.telemetry.conventions import of_attempt, of_call, of_reply, of_score, of_tool

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from opentelemetry.trace import Span, Tracer, TracerProvider


# Tracer provider

GROUP = "opentelemetry_traces_exporter"
EXPORTER = "OTEL_TRACES_EXPORTER"
PROTOCOL = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
OTLP = {"http/protobuf": "otlp_proto_http", "grpc": "otlp_proto_grpc"}


def provider_in_use() -> TracerProvider:
    """The program's tracer provider, or one configured from the environment.

    Raises Invalid if OpenTelemetry or the requested exporter is not installed.
    """
    try:
        from opentelemetry import trace
    except ImportError:
        raise Invalid('telemetry: "otel" needs OpenTelemetry: pip install "peira[otel]"') from None
    given = trace.get_tracer_provider()
    return _configured_provider() if isinstance(given, trace.ProxyTracerProvider) else given


def published_provider() -> TracerProvider:
    """As `provider_in_use`; if the program has none, ours becomes the program's.

    Then spans that agents and their libraries make are sent, too, wherever ours are.
    """
    provider = provider_in_use()
    from opentelemetry import trace  # here, because `provider_in_use` says so if it is not installed

    if isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider):
        trace.set_tracer_provider(provider)
    return provider


@lru_cache(1)
def _configured_provider() -> TracerProvider:
    """Our own tracer provider, one per process; it flushes when the process ends at the latest."""
    try:
        from opentelemetry.sdk.resources import OTELResourceDetector, Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        raise Invalid('telemetry: "otel" needs OpenTelemetry\'s SDK: pip install "peira[otel]"') from None
    exporters = [_exporter(name) for name in _wanted()]
    ours = Resource.create().merge(Resource({"service.name": "peira"}))
    provider = TracerProvider(resource=ours.merge(OTELResourceDetector().detect()))
    for exporter in exporters:
        provider.add_span_processor(BatchSpanProcessor(exporter))
    return provider


def _wanted() -> list[str]:
    """The exporters named in the environment."""
    names = map(str.strip, os.environ.get(EXPORTER, "otlp").split(","))
    return [name for name in names if name not in ("", "none")]


def _exporter(name: str) -> Any:
    """Load an exporter by name; raises Invalid if it is missing or fails."""
    from importlib.metadata import entry_points  # slow, and not needed before this

    installed = {entry.name: entry for entry in entry_points(group=GROUP)}
    found = next((one for one in _plugins(name) if one in installed), None)
    if found is None and name == "otlp":
        raise Invalid(
            f'telemetry: no exporter for OTLP is installed: pip install "peira[otel]", or set {EXPORTER}'
        )
    if found is None:
        raise Invalid(f"telemetry: {EXPORTER}: no exporter {name!r}{nearest(name, installed)}")
    try:
        return installed[found].load()()
    except Exception as problem:
        raise Invalid(f"telemetry: the exporter {name!r} cannot be used: {problem}") from problem


def _plugins(name: str) -> list[str]:
    """The entry points that may provide an exporter; OTLP has two protocols."""
    if name != "otlp":
        return [name]
    configured = (os.environ.get(variable) for variable in PROTOCOL)
    protocol = next(filter(None, configured), None)
    return list(OTLP.values()) if protocol is None else [OTLP.get(protocol, protocol)]


# Spans

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CAPTURING = ("true", "span_only", "span_and_event")
OTHER = "_OTHER"
"""The conventions' value for an error of unknown type."""
Key = tuple[str, ...]
"""The key of a span: run; run and task; or run, task and call."""
QUIET = (State.succeeded, State.waiting)
"""Final states of an attempt that are not errors; a waiting one is attempted again."""


class OpenTelemetry:
    """A listener for the registry's hooks that creates spans.

    Spans go to `provider`, by default to the one the program has configured, or else to one configured from
    the environment. Message content is left out unless OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT
    requests it.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        from importlib.metadata import version  # slow, and not needed before this

        self._tracer = (provider or provider_in_use()).get_tracer("peira", version("peira"))
        self._content = os.environ.get(CAPTURE, "").strip().lower() in CAPTURING
        self._open: dict[Key, Span] = {}
        self._handed: dict[Key, tuple[float, Request | None]] = {}
        self._newest = ""
        self._lock = threading.RLock()
        self._begun = threading.Condition(self._lock)
        self._epochs: dict[Key, int] = {}
        self._called: dict[Key, dict[str, tuple[str, float]]] = {}
        self._metrics = CallMetrics()

    def run_began(self, run: str, at: float = 0.0) -> None:
        """Start the span of a run."""
        self._newest = run
        self._begin((run,), "run", {}, at=at)
        with self._begun:
            self._begun.notify_all()

    @contextmanager
    def surround(self, kind: str, name: str, run: str, task: str, epoch: int) -> Iterator[OutcomeCallback]:
        """Make the span of an attempt, or a span for a step, the current one of the user's code.

        Called on the thread (or in the asyncio task) of that code, so that its own spans belong to it.
        """
        from opentelemetry import context, trace

        if kind == "step":
            with step_span(self._tracer, name):
                yield _nothing
            return
        span = self._span_of_attempt(run, task, epoch, name)
        if span is None:
            yield _nothing
            return
        token = context.attach(trace.set_span_in_context(span))
        try:
            yield lambda score: span.set_attributes(of_score(score, self._content))
        finally:
            context.detach(token)

    def carry(self) -> tuple[str, dict[str, str]]:
        """How a child process makes the current span that of its user's code: see `telemetry.child`."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        context: dict[str, str] = {}
        TraceContextTextMapPropagator().inject(context)
        return "peira.report.telemetry.child:attached", context

    def _span_of_attempt(self, run: str, task: str, epoch: int, name: str) -> Span | None:
        """The span of an attempt, which is started if that was not done yet; None if its run has no span."""
        with self._begun:
            if not self._begun.wait_for(lambda: (run,) in self._open, 1.0 if run else 0.0):
                return None
            if (run, task) not in self._open or self._epochs.get((run, task)) != epoch:
                self._begin((run, task), name, {})
                self._epochs[run, task] = epoch
            return self._open[run, task]

    def run_ended(self, run: str, status: str, at: float = 0.0) -> None:
        """End the span of a run and all spans in it that are still open, such as waiting attempts."""
        for key in list(self._open):  # at once: other runs may be under way
            if key[0] == run and len(key) > 1:
                self._end(key, error="abandoned", at=at)
        for key in [key for key in list(self._handed) if key[0] == run]:
            del self._handed[key]  # a later process collects the batch and reports the call
        error = "" if status == Status.completed else status
        self._end((run,), {"peira.run.status": status}, error, at=at)

    def attempt_began(
        self, task: str, epoch: int, run: str = "", attempt: Attempt | None = None, at: float = 0.0
    ) -> None:
        """Start the span of an attempt."""
        name, known = ("attempt", {}) if attempt is None else of_attempt(attempt, self._content)
        run = run or self._newest
        attributes = {**known, "peira.task.id": task, "peira.attempt": epoch}
        with self._lock:
            if (run, task) in self._open and self._epochs.get((run, task)) == epoch:  # see `surround`
                span = self._open[run, task]
                span.update_name(name)
                span.set_attributes(attributes)
                return
            self._epochs[run, task] = epoch
            self._begin((run, task), name, attributes, at=at)

    def attempt_ended(self, task: str, state: str, run: str = "", at: float = 0.0) -> None:
        """End the span of an attempt."""
        self._called.pop((run or self._newest, task), None)
        self._epochs.pop((run or self._newest, task), None)
        error = "" if state in QUIET else state
        self._end((run or self._newest, task), {"peira.state": state}, error, at=at)

    def call_began(
        self,
        task: str,
        key: str,
        model: str,
        run: str = "",
        request: Request | None = None,
        batch: str = "",
        vendor: str = "",
        address: str = "",
        at: float = 0.0,
    ) -> None:
        """Start the span of a call; for a batched call only remember when it was submitted."""
        place = run or self._newest, task, key
        self._end_tools(place[:2], request, at or time.time())
        if batch:
            self._handed[place] = at or time.time(), request
        else:
            self._start_call(place, model, request, at=at, vendor=vendor, address=address)
        self._metrics.began(place, model, vendor, address, at or time.time())

    def _end_tools(self, inside: Key, request: Request | None, at: float) -> None:
        """Spans for the tools whose results a request brings: from the reply that called them until now."""
        called = self._called.get(inside, {})
        for message in request.messages if request is not None and called else ():
            asked = called.pop(str(message.get("id")), None) if message.get("role") == "tool" else None
            if asked is not None:
                name, known = of_tool(asked[0], str(message["id"]))
                self._begin((*inside, f"tool {message['id']}"), name, known, at=asked[1])
                self._end((*inside, f"tool {message['id']}"), at=at)

    def _start_call(
        self,
        place: Key,
        model: str,
        request: Request | None,
        batch: str = "",
        at: float = 0.0,
        vendor: str = "",
        address: str = "",
    ) -> None:
        """Start the span of a call."""
        from opentelemetry.trace import SpanKind

        name, known = of_call(model, request, self._content, vendor, address)
        known |= {"peira.call.key": place[-1], **({"peira.batch.id": batch} if batch else {})}
        inside = place[:1] if batch else place[:-1]
        self._begin(place, name, known, SpanKind.CLIENT, inside, at)

    def call_ended(
        self,
        task: str,
        key: str,
        reply: Reply | None,
        problem: str,
        run: str = "",
        status: int = 0,
        model: str = "",
        batch: str = "",
        at: float = 0.0,
    ) -> None:
        """End the span of a call; `status` is the provider's HTTP status, if it answered."""
        place = run or self._newest, task, key
        self._metrics.ended(place, reply, str(status or OTHER), at or time.time())
        if reply is not None and reply.tool_calls:
            called = {call.id: (call.name, at or time.time()) for call in reply.tool_calls}
            self._called.setdefault(place[:2], {}).update(called)
        found = {} if reply is None else of_reply(reply, self._content)
        if batch:
            since, request = self._handed.pop(place, (0.0, None))
            self._start_call(place, model, request, batch, since or at)
            found |= {} if since else {"peira.batch.earlier": True}
        error = "" if reply is not None else str(status or OTHER)
        self._end(place, found, error, problem, at)

    def _begin(
        self,
        key: Key,
        name: str,
        attributes: Mapping[str, Any],
        kind: Any = None,
        inside: Key | None = None,
        at: float = 0.0,
    ) -> None:
        """Start a span at this time, by default now, under its parent."""
        from opentelemetry.trace import SpanKind, set_span_in_context

        with self._lock:
            self._end(key, error="abandoned", at=at)  # of an earlier attempt that was never ended
            parent = self._open.get(key[:-1] if inside is None else inside)
            context = None if parent is None else set_span_in_context(parent)
            known = {"peira.run.id": key[0], **attributes}
            self._open[key] = self._tracer.start_span(
                name, context, kind or SpanKind.INTERNAL, known, start_time=_nanoseconds(at)
            )

    def _end(
        self,
        key: Key,
        attributes: Mapping[str, Any] | None = None,
        error: str = "",
        why: str = "",
        at: float = 0.0,
    ) -> None:
        """End a span, if it is open."""
        from opentelemetry.trace import StatusCode

        span = self._open.pop(key, None)
        if span is None:
            return
        span.set_attributes(dict(attributes or {}))
        if error:
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR, why or None)
        span.end(_nanoseconds(at))

    def close(self) -> None:
        """End the spans that are still open because their run did not end."""
        for key in sorted(self._open, key=len, reverse=True):
            self._end(key, error="abandoned")


def step_span(tracer: Tracer, name: str) -> AbstractContextManager[Span]:
    """A span for a step, as the current one."""
    return tracer.start_as_current_span(f"step {name}", attributes={"peira.step": name})


def _nothing(outcome: object) -> None:
    """Takes an outcome that is not recorded."""


def _nanoseconds(at: float) -> int | None:
    """A time in nanoseconds; None means now."""
    return int(at * 1e9) if at else None


# One listener for all runs

_lock = threading.Lock()
_listeners: list[OpenTelemetry] = []
_runs = 0


@contextmanager
def telling(wanted: bool) -> Iterator[None]:
    """While the context lasts, send spans to OpenTelemetry if `wanted`.

    Concurrent runs share one listener.
    """
    if not wanted:
        yield
        return
    _join()
    try:
        yield
    finally:
        _leave()


def _join() -> None:
    """Register the shared listener, or count one more run on it."""
    global _runs
    with _lock:
        if not _listeners:
            listener = OpenTelemetry(published_provider())
            registry.hook(listener)
            _listeners.append(listener)
        _runs += 1


def _leave() -> None:
    """Unregister and close the listener after the last run."""
    global _runs
    with _lock:
        _runs -= 1
        if not _runs:
            listener = _listeners.pop()
            registry.unhook(listener)
            listener.close()
