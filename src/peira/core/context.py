"""The current trial, as an agent sees it.

`current_trial()` works wherever the agent runs: in a worker thread, an asyncio task or a child process. What
an agent reports here goes through the attempt's channel and is kept with the trial, also when the agent fails
later.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, Protocol

import msgspec

from peira.core.ids import Json, normalise, own_copy, seed_of
from peira.core.models import Reply, Request
from peira.errors import NotInTrial

if TYPE_CHECKING:
    import numpy

    from peira.core.people.questions import PersonAnswer, PersonQuestion

DECISION = "decision: "
"""How the names of recorded steps begin that are decisions (`Trial.decide`)."""
ABOUT = ("kind", "pattern", "model", "provider", "request_id", "trace")


class Channel(Protocol):
    """What an attempt may request from the engine; every method raises `Abandoned` once it is abandoned."""

    @property
    def label(self) -> str:
        """The label for processes that the attempt starts: the next owner of the store ends what has it."""
        ...

    @property
    def closed(self) -> bool:
        """Whether the attempt has ended or was abandoned."""
        ...

    def recall(self, key: str) -> bytes | None:
        """The value of a recorded step, as canonical JSON; None if there is none."""
        ...

    def record(self, key: str, name: str, value: bytes) -> Future[None]:
        """Record a step's value; durable when the future resolves."""
        ...

    def call(self, model: str, request: Request, key: str, account: str = "") -> Future[Reply]:
        """A model's reply, from the ledger or from a new call; durable when the future resolves.

        `account` is who asks, if it is not the agent itself: what it costs is counted apart.
        """
        ...

    def consult(self, questions: Sequence[PersonQuestion]) -> list[PersonAnswer]:
        """How people closed each of these questions; raises `Waiting` while one of them is open."""
        ...

    def await_tasks(self, tasks: Sequence[str]) -> None:
        """Return if all of these tasks have ended, in whatever state; otherwise raise `Waiting`."""
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

    def __getattr__(self, name: str) -> NoReturn:
        """Say why there is no such field: only what is missing is looked up here."""
        if name == "expected":
            raise AttributeError("an agent does not see what is expected of it; evaluators do")
        raise AttributeError(f"a case has no {name!r}; known: {', '.join(self.__struct_fields__)}")

    def own(self) -> SeenCase:
        """A deep copy for one agent or evaluator, so that its changes are not visible to others."""
        input = self.input if type(self.input) is str else own_copy(self.input)
        return SeenCase(
            input, self.id, self.slice, self.cluster, own_copy(self.metadata) if self.metadata else {}
        )


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
    def counts(self) -> Counter[str]:
        """What agents that peira ships have counted in this attempt: turns, failed tool calls."""
        return Counter()

    @cached_property
    def parts(self) -> dict[str, Any]:
        """Objects that several parts of this attempt share, by name: the workspace of its tools."""
        return {}

    @cached_property
    def lasting(self) -> ExitStack:
        """Contexts that are entered during this attempt and left at its end: servers of its tools."""
        return ExitStack()

    def finish(self) -> None:
        """Leave what was entered; called once the agent has returned, whoever runs it."""
        if "lasting" in self.__dict__:
            self.lasting.close()

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
        """Record numbers beside the output (tokens, tool calls, a confidence).

        `cost` (or `cost_usd`), in US dollars, is added to what the trial's recorded calls cost.
        """
        self.channel.report({_text(n, "a metric's name"): float(v) for n, v in metrics.items()}, {})

    def decide(self, what: str, *, options: Sequence[Json] = (), chosen: Json = None, why: str = "") -> Json:
        """Record a decision: what was decided, among which options, and why. Returns what was chosen.

        It is recorded once, as a step: an attempt that is resumed gets what was chosen before, whatever it
        would choose now.
        """
        from peira.core.steps import recorded  # which needs this module

        given = {"what": _text(what, "what is decided"), "options": list(options), "why": _text(why, "why")}
        decision = recorded(
            self, f"{DECISION}{given['what']}", DECISION, given["what"], lambda: {**given, "chosen": chosen}
        )
        return decision["chosen"]

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


_account: ContextVar[str] = ContextVar("peira_account", default="")


@contextmanager
def accounted_to(account: str) -> Iterator[None]:
    """Count the calls that are made in this context apart, under a name such as "user"."""
    token = _account.set(account)
    try:
        yield
    finally:
        _account.reset(token)


def current_account() -> str:
    """Who is asking models: "" for the agent itself."""
    return _account.get()


class TrialBranch:
    """A part of a trial that may be skipped as a whole when the trial is resumed, because its value is
    recorded: a node of a graph, a tool. Equal calls and steps in it are counted apart from those outside."""

    def __init__(self, name: str) -> None:
        self.name = name
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def key(self, same: str) -> str:
        """A name for one of several equal things: the branch, and which of them it is."""
        with self._lock:
            self._counts[same] += 1
            return f"{self.name} {self._counts[same]}"


_branch: ContextVar[TrialBranch | None] = ContextVar("peira_branch", default=None)


@contextmanager
def in_branch(name: str) -> Iterator[None]:
    """Count the calls and steps in this context apart, under a name that is unique in the trial."""
    outer = _branch.get()
    token = _branch.set(TrialBranch(f"{outer.name}/{name}" if outer else name))
    try:
        yield
    finally:
        _branch.reset(token)


def current_branch() -> TrialBranch | None:
    """The branch that this code is running in; None in the trial itself."""
    return _branch.get()


def current_channel() -> Channel:
    """The channel of the agent or evaluator that this code is running in; NotInTrial outside of one."""
    trial = _current.get()
    channel = _evaluation_channel.get() if trial is None else trial.channel
    if channel is None:
        raise NotInTrial(
            "ask() was called outside a trial: it works in agents and evaluators that peira runs"
        )
    return channel


def trial_if_any() -> Trial | None:
    """The trial that this code is running in; None outside an agent."""
    return _current.get()


def current_trial() -> Trial:
    """The trial that this code is running in; NotInTrial outside an agent."""
    trial = _current.get()
    if trial is None:
        raise NotInTrial(
            "current_trial() was called outside a trial: it works inside an agent that peira runs"
        )
    return trial
