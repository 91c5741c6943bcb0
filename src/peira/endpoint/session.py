"""A session of the endpoint: the calls of one attempt, which its token stands for."""

from __future__ import annotations

import asyncio
import fnmatch
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Protocol

import msgspec

from peira.core.ids import canonical, digest_bytes, normalise
from peira.core.models import Reply, Request
from peira.endpoint.tools import AttemptTools
from peira.errors import Abandoned, InDoubt, Invalid, Unknown

TRUE_SIGNALS = (Abandoned, InDoubt, Invalid, Unknown)
"""What ends the whole attempt: it was abandoned, a limit is reached, a call is in doubt, or the model that it
may use cannot be used at all."""


MOST_AT_ONCE = 16
"""The requests of one session that are served at the same time; more wait."""


class CallChannel(Protocol):
    """What a session asks models through: the channel of an attempt."""

    def call(self, model: str, request: Request, key: str) -> Future[Reply]:
        """A model's reply, from the ledger or from a new call."""
        ...


@dataclass(frozen=True)
class ModelRoutes:
    """Which model a name stands for: by the name itself, by a pattern, or the trial's model for any other.

    `named` maps names and patterns to models. None: that name is not allowed.
    """

    named: Mapping[str, str] = field(default_factory=dict)
    trial: str = ""

    def route(self, name: str) -> str | None:
        """The model that is asked for this name; None if there is none."""
        if name in self.named:
            return self.named[name]
        patterns = sorted((one for one in self.named if _is_pattern(one)), key=lambda p: (p == "*", -len(p)))
        for pattern in patterns:
            if fnmatch.fnmatchcase(name, pattern):
                return self.named[pattern]
        if name in self.named.values():
            return name
        return self.trial or None

    @property
    def names(self) -> list[str]:
        """The names that may be asked for, without patterns."""
        plain = [name for name in self.named if not _is_pattern(name)]
        models = [*self.named.values(), *([self.trial] if self.trial else [])]
        return list(dict.fromkeys([*plain, *models]))


def _is_pattern(name: str) -> bool:
    return any(mark in name for mark in "*?[")


@dataclass
class _Answer:
    """A call of a session: its reply, and whether its program is still there to hear it."""

    reply: Future[Reply]
    gone: Callable[[], bool]
    delivered: bool = False


class EndpointSession:
    """The calls of one attempt; `signal` is what ends the attempt, whoever runs its command ends that then.

    A `lasting` session goes on whatever becomes of a single call. `leftover` is called if the token is used
    when it is void: it ends what the command left behind. Used by the endpoint's loop, but for `signal`,
    which any thread may read.
    """

    def __init__(
        self,
        token: str,
        channel: CallChannel,
        routes: ModelRoutes,
        tools: AttemptTools | None = None,
        leftover: Callable[[], object] = lambda: None,
        lasting: bool = False,
    ) -> None:
        self.token, self.channel, self.routes, self.tools = token, channel, routes, tools
        self.leftover, self.lasting = leftover, lasting
        self.signal: BaseException | None = None
        self.places = asyncio.Semaphore(MOST_AT_ONCE)
        self._answers: dict[str, list[_Answer]] = {}

    def ask(self, model: str, request: Request, gone: Callable[[], bool]) -> _Answer:
        """Ask a model. A program that lost its connection and asks the same again gets the same answer."""
        if self.signal is not None:
            raise self.signal
        same = digest_bytes(canonical(normalise([model, msgspec.to_builtins(request)])))
        before = self._answers.setdefault(same, [])
        lost = next((one for one in before if not one.delivered and one.gone()), None)
        if lost is not None:
            lost.gone = gone
            return lost
        answer = _Answer(self.channel.call(model, request, ""), gone)
        before.append(answer)
        return answer

    def end(self, signal: BaseException) -> None:
        """The attempt cannot go on: nothing more is asked."""
        if not self.lasting:
            self.signal = self.signal or signal


def listed(names: Sequence[str]) -> str:
    """Names for a message."""
    return ", ".join(names) or "none"
