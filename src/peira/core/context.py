"""The current trial, as an agent sees it.

`current_trial()` works wherever the agent runs: in a worker thread, an asyncio task or a child process. What
an agent reports here goes through the attempt's channel and is kept with the trial, also when the agent fails
later.
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
    """What an attempt may request from the engine; every method raises `Abandoned` once it is abandoned."""

    def recall(self, key: str) -> bytes | None:
        """The value of a recorded step, as canonical JSON; None if there is none."""
        ...

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        """Record a step's value; durable when the future resolves."""
        ...

    def call(self, model: str, request: Request, key: str) -> Future[Reply]:
        """A model's reply, from the ledger or from a new call; durable when the future resolves."""
        ...

    def observe(self, name: str, data: Json) -> None:
        """Record an observation: a timestamped event of the trial."""
        ...

    def report(self, metrics: Mapping[str, float], about: Mapping[str, str]) -> None:
        """Record metrics of the trial, and facts about the agent."""
        ...

    def attach(self, name: str, data: bytes, media: str) -> str:
        """Store the bytes as an artifact of the trial; returns their digest."""
        ...

    def workdir(self) -> Path:
        """A private folder for this attempt, created on first use."""
        ...


class SeenCase(msgspec.Struct, frozen=True, gc=False):
    """A case as the agent sees it: without the expected output."""

    input: Json
    id: str
    slice: str | None = None
    cluster: str | None = None
    metadata: dict[str, Json] = {}

    def own(self) -> SeenCase:
        """A deep copy for one agent or evaluator, so that its changes are not visible to others."""
        return SeenCase(own_copy(self.input), self.id, self.slice, self.cluster, own_copy(self.metadata))


class Trial(msgspec.Struct, frozen=True, dict=True, kw_only=True):
    """The trial an agent is working on: its case, its condition, and where to report.

    `repeat` and `attempt` are numbers, `agent` is the agent's label, `resources` are the objects
    given to `run(resources=...)`.
    """

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
        """A seed derived from the trial's id: the same in every attempt, different for every trial."""
        return seed_of(self.id)

    @cached_property
    def ordinals(self) -> Counter[str]:
        """How often each step was reached so far in this attempt, replayed ones included."""
        return Counter()

    @cached_property
    def rng(self) -> random.Random:
        """A random generator of this trial's own: the same at any parallelism, on any runner."""
        return random.Random(self.seed)

    @cached_property
    def numpy_rng(self) -> numpy.random.Generator:
        """The same as a NumPy generator; needs NumPy."""
        import numpy

        return numpy.random.default_rng(self.seed)

    @property
    def workdir(self) -> Path:
        """A private folder for this attempt, created on first use."""
        return self.channel.workdir()

    def log(self, name: str, /, **data: Json) -> None:
        """Record an observation: a timestamped event of this trial."""
        self.channel.observe(_text(name, "the name of a log"), data)

    def report(self, **metrics: float) -> None:
        """Record numbers beside the output (tokens, tool calls, a confidence)."""
        self.channel.report({_text(n, "a metric's name"): float(v) for n, v in metrics.items()}, {})

    def describe(self, **about: str) -> None:
        """Record facts about the agent: kind, pattern, model, provider, request_id, trace."""
        unknown = sorted(set(about) - set(ABOUT))
        if unknown:
            raise TypeError(f"describe() takes {', '.join(ABOUT)}; not {', '.join(unknown)}")
        self.channel.report({}, {name: _text(value, name) for name, value in about.items()})

    def attach(self, name: str, data: bytes | str | Path, media: str = "") -> str:
        """Store a file with the trial: bytes, text, or the file at a path; returns its digest."""
        if isinstance(data, Path):
            data = data.read_bytes()
        if isinstance(data, str):
            data = _text(data, "what is attached").encode()
        return self.channel.attach(_text(name, "the name of a file"), bytes(data), _text(media, "media"))


def _text(value: object, what: str) -> str:
    """The text, normalised; raises here, inside the agent, if it cannot be stored."""
    if not isinstance(value, str):
        raise TypeError(f"{what} must be text, not {value!r}")
    return str(normalise(str(value), what))


_current: ContextVar[Trial | None] = ContextVar("peira_trial", default=None)
enter = _current.set


_evaluation_channel: ContextVar[Channel | None] = ContextVar("peira_judged", default=None)
judge = _evaluation_channel.set


def current_channel() -> Channel:
    """The channel of the agent or evaluator that this code is running in; NotInTrial outside of one."""
    trial = _current.get()
    channel = _evaluation_channel.get() if trial is None else trial.channel
    if channel is None:
        raise NotInTrial(
            "ask() was called outside a trial: it works in agents and evaluators that peira runs"
        )
    return channel


def current_trial() -> Trial:
    """The trial that this code is running in; NotInTrial outside an agent."""
    trial = _current.get()
    if trial is None:
        raise NotInTrial(
            "current_trial() was called outside a trial: it works inside an agent that peira runs"
        )
    return trial
