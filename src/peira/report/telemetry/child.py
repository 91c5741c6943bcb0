"""Spans in a child process: those of agents and of steps belong to the span of their attempt."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from typing import Any

from peira.core.registry import OutcomeCallback, registry
from peira.report.telemetry.spans import provider_in_use, published_provider, step_span

FLUSH_MILLISECONDS = 2000
"""The longest that an attempt waits in the end for its spans to be sent: its process may be killed."""


@contextmanager
def attached(context: Mapping[str, str]) -> Iterator[None]:
    """Make the span that the parent carried over the current one; send what was made within it in the end."""
    from opentelemetry import context as current
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    provider = published_provider()
    _hook_steps()
    token = current.attach(TraceContextTextMapPropagator().extract(dict(context)))
    try:
        yield
    finally:
        current.detach(token)
        flush: Any = getattr(provider, "force_flush", None)
        if flush is not None:
            flush(FLUSH_MILLISECONDS)


@cache
def _hook_steps() -> None:
    """Make spans of steps in this process, from now on."""
    registry.hook(StepSpans())


class StepSpans:
    """A listener that makes spans of steps only: all else is told in the parent process."""

    def run_began(self) -> None:
        """Never called in a child; a listener must have a hook."""

    @contextmanager
    def surround(self, kind: str, name: str, run: str, task: str, epoch: int) -> Iterator[OutcomeCallback]:
        """Make a span for a step the current one."""
        if kind == "step":
            with step_span(provider_in_use().get_tracer("peira"), name):
                yield _nothing
        else:
            yield _nothing


def _nothing(outcome: object) -> None:
    """Takes an outcome that is not recorded."""
