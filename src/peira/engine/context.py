"""Values shared by the parts of one run: its context, its call settings and its callbacks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import msgspec
from msgspec.structs import replace

from peira.core.clock import Clock, SystemClock
from peira.core.contracts import Source, Store
from peira.core.log.events import Spent, State
from peira.core.models import NamedModel
from peira.engine.hooks import Hooks
from peira.engine.journal import INLINE, Journal
from peira.errors import Invalid
from peira.spec.limits import Budget, Policy
from peira.stores.sharing import Sharing

if TYPE_CHECKING:
    from peira.engine.calls.live_text import TextSink


class HostedSources:
    """Further sources of tasks that attempts of a run open while it goes on, each once; thread-safe."""

    def __init__(self) -> None:
        self._names: dict[str, Source] = {}
        self._lock = threading.Lock()
        self.add: Callable[[Source], None] | None = None
        """Hands a source to the run; set by the run."""
        self.on_first: Callable[[], None] | None = None
        """Called before the first one is opened: who executes such tasks may start. None: nobody does."""
        self.used = False
        """Whether any was opened."""

    def __contains__(self, name: str) -> bool:
        return name in self._names

    def open(self, name: str, make: Callable[[], Source]) -> None:
        """Let the run have the source of this name, made now unless it was opened before."""
        with self._lock:
            if name in self._names:
                return
            if self.add is None or self.on_first is None:
                raise Invalid("this run executes no tasks beside its own; run it as a study in one process")
            if not self.used:
                self.on_first()
                self.used = True
            self._names[name] = make()
            self.add(self._names[name])


@dataclass(frozen=True)
class RunContext:
    """One run: its id, its owner, its store, policy, clock, journal and hooks.

    `inline` is the size in bytes up to which a value is stored inside its event; larger values become blobs.
    With `outputs_apart` outputs and steps always do, with `answers_apart` raw answers: they can be removed.
    `live` hears what models say while they say it.
    Attempts get their private folders under `work_root`; processes that they start are marked by `label`.
    With `sharing` other processes execute tasks of the same run, and `owner` is one of several.
    `journal`, `hooks` and `hosted` are made here, one of each per run.
    """

    run: str
    owner: str
    store: Store
    policy: Policy = field(default_factory=Policy)
    clock: Clock = field(default_factory=SystemClock)
    work_root: Path = Path("work")
    inline: int = INLINE
    label: str = "peira"
    outputs_apart: bool = False
    answers_apart: bool = False
    sharing: Sharing | None = None
    live: TextSink | None = None
    journal: Journal = field(init=False)
    hooks: Hooks = field(init=False)
    hosted: HostedSources = field(init=False)
    shared: bool = field(init=False)
    """Whether other processes execute tasks of the same run."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "journal", Journal(self.store))
        object.__setattr__(self, "hooks", Hooks(self.run, self.clock))
        object.__setattr__(self, "hosted", HostedSources())
        object.__setattr__(self, "shared", self.sharing is not None)


def no_models(name: str) -> NamedModel:
    """The default model lookup: raises Invalid for every name."""
    raise Invalid(f"model {name!r}: this run was given no models")


class CallSettings(msgspec.Struct, frozen=True):
    """How a run makes its calls: model lookup by name, batch mode, budget, and `before`.

    `before` is what earlier runs of the study spent; the budget counts it. With `listed`, a store that can is
    told what was asked and answered, as it is answered. Work that names an account (`work.account`) has a
    budget of its own, of those in `apart`; `account` is the name of the account that these settings are for.
    """

    models: Callable[[str], NamedModel] = no_models
    batch: bool = False
    budget: Budget = msgspec.field(default_factory=Budget)
    before: tuple[Spent, ...] = ()
    listed: bool = False
    account: str = ""
    apart: Mapping[str, Budget] = msgspec.field(default_factory=dict)

    def of_account(self, name: str) -> CallSettings:
        """The settings of an account that is kept apart: its budget, and what was spent from it before."""
        before = tuple(one for one in self.before if one.account == name)
        return replace(self, account=name, budget=self.apart.get(name, self.budget), before=before, apart={})


class RunCallbacks(Protocol):
    """Callbacks from the code that makes calls to its run; all run on the ledger's loop thread.

    They must not block: the loop serves all calls of the run.
    """

    def wake(self, tasks: Iterable[str]) -> None:
        """Make these tasks ready again: what they waited for has arrived."""
        ...

    def say(self, text: str) -> None:
        """Show a notice to the user and record it in the log."""
        ...

    def starve(self, why: str) -> None:
        """The budget is used up: start no new units."""
        ...

    def fail(self, problem: BaseException) -> None:
        """Stop the run because of this error."""
        ...

    def batch_ended(self, state: State) -> None:
        """Count a batch that ended in this state."""
        ...


class NoCallbacks:
    """Callbacks that do nothing, for calls outside of a run."""

    def wake(self, tasks: Iterable[str]) -> None: ...

    def say(self, text: str) -> None: ...

    def starve(self, why: str) -> None: ...

    def fail(self, problem: BaseException) -> None: ...

    def batch_ended(self, state: State) -> None: ...
