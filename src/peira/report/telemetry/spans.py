"""Runs, attempts and calls as OpenTelemetry spans, each inside the one it belongs to.

They begin and end on different threads, so parents are found by what they are about and never by the
current context. A span is of what really happened: a trial that is reused or an answer that is replayed has
none. A call in a batch outlives the attempt that asked, and lies in the run; its span is made when it is
collected, and goes back to when it was handed in, if that was in this process.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from peira.core.contracts import Attempt
from peira.core.events import State, Status
from peira.core.models import Reply, Request
from peira.report.telemetry.conventions import of_attempt, of_call, of_reply
from peira.report.telemetry.provider import provider_in_use

if TYPE_CHECKING:
    from opentelemetry.trace import Span, TracerProvider

CAPTURE = "OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT"
CAPTURING = ("true", "span_only", "span_and_event")
OTHER = "_OTHER"
"""The conventions' word for an error of no known kind."""
Key = tuple[str, ...]
QUIET = (State.succeeded, State.waiting)
"""How an attempt may end without being an error: one that waits is made again."""


class OpenTelemetry:
    """A listener for the registry's hooks.

    Spans go to the given provider, by default to the one that the program has configured, or else where the
    environment says. What is said to models is left out unless
    OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT asks for it.
    """

    def __init__(self, provider: TracerProvider | None = None) -> None:
        from importlib.metadata import version  # slow, and not needed before this

        self._tracer = (provider or provider_in_use()).get_tracer("peira", version("peira"))
        self._content = os.environ.get(CAPTURE, "").strip().lower() in CAPTURING
        self._open: dict[Key, Span] = {}
        self._handed: dict[Key, tuple[int, Request | None]] = {}
        self._newest = ""

    def run_began(self, run: str) -> None:
        self._newest = run
        self._begin((run,), "run", {})

    def run_ended(self, run: str, status: str) -> None:
        """With it ends what had no end of its own: an attempt that was parked, a call that was given up."""
        for key in list(self._open):  # at once: other runs may be under way
            if key[0] == run and len(key) > 1:
                self._end(key, error="abandoned")
        for key in [key for key in list(self._handed) if key[0] == run]:
            del self._handed[key]  # left for a later process, which will tell
        error = "" if status == Status.completed else status
        self._end((run,), {"peira.run.status": status}, error)

    def attempt_began(self, task: str, epoch: int, run: str = "", attempt: Attempt | None = None) -> None:
        name, known = ("attempt", {}) if attempt is None else of_attempt(attempt, self._content)
        run = run or self._newest
        self._begin((run, task), name, {**known, "peira.task.id": task, "peira.attempt": epoch})

    def attempt_ended(self, task: str, state: str, run: str = "") -> None:
        error = "" if state in QUIET else state
        self._end((run or self._newest, task), {"peira.state": state}, error)

    def call_began(
        self,
        task: str,
        key: str,
        model: str,
        run: str = "",
        request: Request | None = None,
        batch: str = "",
    ) -> None:
        place = run or self._newest, task, key
        if batch:
            self._handed[place] = time.time_ns(), request
        else:
            self._asked(place, model, request)

    def _asked(
        self, place: Key, model: str, request: Request | None, batch: str = "", since: int = 0
    ) -> None:
        from opentelemetry.trace import SpanKind

        name, known = of_call(model, request, self._content)
        known |= {"peira.call.key": place[-1], **({"peira.batch.id": batch} if batch else {})}
        inside = place[:1] if batch else place[:-1]
        self._begin(place, name, known, SpanKind.CLIENT, inside, since)

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
    ) -> None:
        """`status` is what the provider answered with, if it answered."""
        place = run or self._newest, task, key
        found = {} if reply is None else of_reply(reply, self._content)
        if batch:
            since, request = self._handed.pop(place, (0, None))
            self._asked(place, model, request, batch, since)
            found |= {} if since else {"peira.batch.earlier": True}
        error = "" if reply is not None else str(status or OTHER)
        self._end(place, found, error, problem)

    def _begin(
        self,
        key: Key,
        name: str,
        attributes: Mapping[str, Any],
        kind: Any = None,
        inside: Key | None = None,
        since: int = 0,
    ) -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        self._end(key, error="abandoned")  # of an earlier attempt that nobody ended
        parent = self._open.get(key[:-1] if inside is None else inside)
        context = None if parent is None else set_span_in_context(parent)
        known = {"peira.run.id": key[0], **attributes}
        self._open[key] = self._tracer.start_span(
            name, context, kind or SpanKind.INTERNAL, known, start_time=since or None
        )

    def _end(
        self, key: Key, attributes: Mapping[str, Any] | None = None, error: str = "", why: str = ""
    ) -> None:
        from opentelemetry.trace import StatusCode

        span = self._open.pop(key, None)
        if span is None:
            return
        span.set_attributes(dict(attributes or {}))
        if error:
            span.set_attribute("error.type", error)
            span.set_status(StatusCode.ERROR, why or None)
        span.end()

    def close(self) -> None:
        """End what is still open: its run came to no end."""
        for key in sorted(self._open, key=len, reverse=True):
            self._end(key, error="abandoned")
