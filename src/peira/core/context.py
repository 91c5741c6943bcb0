"""The current trial, as an agent sees it.

`current_trial()` works wherever the agent runs: in a worker thread, an asyncio task or a child
process. What an agent reports here goes through the attempt's channel and survives with the trial,
also when the agent fails later.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Mapping
from concurrent.futures import Future
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import msgspec

from peira.core.ids import Json, normalise, own_copy, seed_of
from peira.core.models import Reply, Request
from peira.errors import NotInTrial

if TYPE_CHECKING:
    import numpy

ABOUT = ("kind", "pattern", "model", "provider", "request_id", "trace")


class Channel(Protocol):
    """What an attempt can ask of the engine. Every method raises `Abandoned` once the attempt is."""

    def recall(self, key: str) -> bytes | None:
        """A recorded step's value, as canonical JSON."""
        ...

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        """Record a step's value; durable when the future resolves."""
        ...

    def call(self, model: str, request: Request, key: str) -> Future[Reply]:
        """A model's reply: recorded before, or asked for now; durable when the future resolves."""
        ...

    def observe(self, name: str, data: Json) -> None: ...

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None: ...

    def attach(self, name: str, data: bytes, media: str) -> str:
        """Keep the bytes as an artifact of the trial; returns their digest."""
        ...

    def workdir(self) -> Path:
        """A private folder for this attempt, made on first use."""
        ...


class SeenCase(msgspec.Struct, frozen=True, gc=False):
    """A case as the agent sees it: without what is expected."""

    input: Json
    id: str
    slice: str | None = None
    cluster: str | None = None
    metadata: dict[str, Json] = {}

    def own(self) -> SeenCase:
        """The same case for one agent or evaluator: what it does to it, nobody else sees."""
        return SeenCase(own_copy(self.input), self.id, self.slice, self.cluster, own_copy(self.metadata))


class Trial(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """The trial an agent is working on."""

    id: str
    case: SeenCase
    condition: dict[str, Json]
    repeat: int
    attempt: int
    agent: str
    channel: Channel
    resources: Mapping[str, Any] = {}

    def __repr__(self) -> str:
        return (
            f"Trial({self.id[:12]}, case={self.case.id!r}, condition={self.condition}, repeat={self.repeat})"
        )

    @cached_property
    def seed(self) -> int:
        """Derived from the trial's identity, and so its own."""
        return seed_of(self.id)

    @cached_property
    def ordinals(self) -> Counter[str]:
        """How often each step was met so far in this attempt."""
        return Counter()

    @cached_property
    def rng(self) -> random.Random:
        """A generator of this trial's own: the same at any parallelism, on any runner."""
        return random.Random(self.seed)

    @cached_property
    def numpy_rng(self) -> numpy.random.Generator:
        import numpy

        return numpy.random.default_rng(self.seed)

    @property
    def workdir(self) -> Path:
        return self.channel.workdir()

    def log(self, name: str, /, **data: Json) -> None:
        """Note an observation: a timestamped event of this trial."""
        self.channel.observe(_text(name, "the name of a log"), data)

    def report(self, **metrics: float) -> None:
        """Report numbers beside the output (tokens, tool calls, a confidence)."""
        self.channel.report({_text(n, "a metric's name"): float(v) for n, v in metrics.items()}, {})

    def describe(self, **about: str) -> None:
        """Say what the agent is: kind, pattern, model, provider, request_id, trace."""
        unknown = sorted(set(about) - set(ABOUT))
        if unknown:
            raise TypeError(f"describe() takes {', '.join(ABOUT)}; not {', '.join(unknown)}")
        self.channel.report({}, {name: _text(value, name) for name, value in about.items()})

    def attach(self, name: str, data: bytes | str | Path, media: str = "") -> str:
        """Keep a file with the trial: bytes, text, or the file at a path."""
        if isinstance(data, Path):
            data = data.read_bytes()
        if isinstance(data, str):
            data = _text(data, "what is attached").encode()
        return self.channel.attach(_text(name, "the name of a file"), bytes(data), _text(media, "media"))


def _text(value: object, what: str) -> str:
    """The text, if it is one that can be kept; said here, where the agent can still be blamed."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text, not {value!r}")
    return str(normalise(str(value), what))


_current: ContextVar[Trial | None] = ContextVar("peira_trial", default=None)
enter = _current.set


_judged: ContextVar[Channel | None] = ContextVar("peira_judged", default=None)
judge = _judged.set


def current_channel() -> Channel:
    """The line to the engine of the agent or the evaluator that this code is running in."""
    trial = _current.get()
    channel = _judged.get() if trial is None else trial.channel
    if channel is None:
        raise NotInTrial(
            "ask() was called outside a trial: it works in agents and evaluators that peira runs"
        )
    return channel


def current_trial() -> Trial:
    """The trial this code is running in."""
    trial = _current.get()
    if trial is None:
        raise NotInTrial(
            "current_trial() was called outside a trial: it works inside an agent that peira runs"
        )
    return trial
