"""The interfaces between the rooms, with what each promises. All are small on purpose."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Literal, Protocol, runtime_checkable

import msgspec

from peira.core.context import Channel as Channel
from peira.core.context import Trial
from peira.core.events import AnyEvent, Record, Result, State, TaskSpec
from peira.core.ids import Json
from peira.core.looks import StopRule as StopRule
from peira.core.looks import Watch as Watch
from peira.core.queries import CallQuery as CallQuery
from peira.core.queries import RunQuery as RunQuery
from peira.core.queries import Tally as Tally
from peira.core.space import Point, Space
from peira.core.state import Call, Run, Task
from peira.errors import Fenced


class Op(msgspec.Struct, frozen=True, gc=False):
    """Events of one run that become true together or not at all, and the blobs they name."""

    run: str
    events: tuple[AnyEvent, ...]
    blobs: tuple[bytes, ...] = ()


Outcome = Fenced | None
"""What became of an op: None, or why it was refused."""


class Store(Protocol):
    """Event log, projections and blobs. One implementation holds only its differences.

    Every method may be called from any thread.
    """

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        """Queue ops, in order. When the future resolves, the accepted ones are durable and applied;
        a refused one changed nothing. A fault of the disk ends the store: the future, and every later
        call that writes, raises StoreFault."""
        ...

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> list[Task]:
        """Take up to n queued tasks of these classes whose needs have succeeded and whose time has come,
        highest priority first, then oldest; durable when it returns."""
        ...

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        """The rows (Task, Call or Run) of those ids that exist, in bulk. Sees everything acknowledged."""
        ...

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """The run's records with seq > after, in order."""
        ...

    def put(self, data: bytes) -> str:
        """Keep bytes; returns their SHA-256. Durable when it returns, and idempotent."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes of a digest, checked against it; Unknown if there are none."""
        ...


class Catalogue(Protocol):
    """What is in a store, for people and for `verify`. Read only."""

    def runs(self, query: RunQuery) -> list[Run]: ...

    def calls(self, query: CallQuery) -> list[Call]: ...

    def tally(self, query: CallQuery) -> Tally:
        """Of all calls that the query names, whatever its limit."""
        ...

    def active(self) -> list[Task]:
        """Every task that is running, waiting or cancelling."""
        ...

    def queued(self, cls: str) -> list[Task]:
        """The tasks of a class that are queued, oldest first."""
        ...

    def using(self, calls: Sequence[str]) -> list[Task]:
        """The tasks whose results name any of these calls. Looks through all results: for rare occasions."""
        ...

    def history(self) -> Iterator[Record]:
        """Every record of every run, in the order in which they were committed."""
        ...

    def rows(self) -> Iterator[Task | Call | Run]:
        """Every projected row."""
        ...

    def blobs(self) -> Iterator[tuple[str, int, str]]:
        """Every blob: its digest, its stored size, and what is wrong with it (or "")."""
        ...

    def size(self, run: str = "") -> int:
        """Bytes held: by one run's events and their results, or by the whole store."""
        ...


@runtime_checkable
class Agent(Protocol):
    """What is under test."""

    @property
    def label(self) -> str: ...

    @property
    def asynchronous(self) -> bool: ...

    @property
    def takes(self) -> frozenset[str] | None:
        """The factors it takes; None takes all."""
        ...

    @property
    def identity(self) -> Json:
        """Configuration and code, as it enters trial ids."""
        ...

    def invoke(self, trial: Trial) -> Any:
        """The output, or an awaitable of it when `asynchronous`."""
        ...


@runtime_checkable
class Evaluator(Protocol):
    """Judges one output."""

    @property
    def name(self) -> str: ...

    @property
    def asynchronous(self) -> bool: ...

    @property
    def takes(self) -> frozenset[str]:
        """Which of output, expected, case, trial it is handed; these enter the score's identity."""
        ...

    @property
    def identity(self) -> Json: ...

    def judge(self, facts: Mapping[str, Any]) -> Any:
        """bool, number, string or dict of those; or an awaitable of it when `asynchronous`."""
        ...


class Work(Protocol):
    """What a task does, apart from where it is done."""

    asynchronous: bool

    def perform(self, channel: Channel, epoch: int) -> Any:
        """Do it here; returns the value, or an awaitable of it when `asynchronous`."""
        ...

    def portable(self) -> Mapping[str, Any]:
        """The same work as plain JSON for another process; Invalid says why it cannot travel."""
        ...


class Offer(msgspec.Struct, frozen=True, gc=False):
    """A task and what it does, as a source hands it out.

    `former` are ids under which its result may be recorded already, each with what sets it apart."""

    spec: TaskSpec
    work: Any
    former: tuple[tuple[str, str], ...] = ()


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One try at a task. `draw` counts the failed tries whose answers it does not replay."""

    spec: TaskSpec
    epoch: int
    work: Any
    draw: int = 0

    @property
    def key(self) -> tuple[str, int]:
        return self.spec.id, self.epoch


class Ended(msgspec.Struct, frozen=True, gc=False):
    """How a task ended. `value` is its normalised output where that is at hand."""

    state: State
    result: Result
    value: Any = None


class Desk(Protocol):
    """Where a runner's workers fetch attempts and leave what came of them. Thread-safe."""

    def take(self, n: int, at_once: int = 1) -> list[Attempt]:
        """Up to n claimed attempts, waiting for work; empty when there will be none.

        `at_once` of them can begin right away: a desk gives more only of what takes little time."""
        ...

    def begin(self, attempt: Attempt) -> Channel | None:
        """Open the attempt's channel as it starts; None if it must not start."""
        ...

    def end(self, attempt: Attempt, outcome: object, failure: BaseException | None) -> None:
        """Leave the value, or why there is none. After an abandonment this does nothing."""
        ...

    def back(self, attempts: Sequence[Attempt]) -> None:
        """Give back attempts that were taken and will not begin."""
        ...


class Runner(Protocol):
    """Where attempts are executed: a fixed pool of workers that pull from a desk."""

    name: str

    def start(self, desk: Desk, workers: int) -> None: ...

    def abandon(self, attempt: Attempt) -> None:
        """Stop caring for an attempt that began: kill it where that can be done, and free its worker."""
        ...

    def stop(self) -> None:
        """End every worker that is not stuck in user code. Called once the desk has closed."""
        ...


class Source(Protocol):
    """Where tasks come from; it may still grow."""

    unit: str
    """The kind of task that the run counts as its units of work."""

    @property
    def size(self) -> int | None:
        """How many units there will be, if that is known."""
        ...

    @property
    def closed(self) -> bool:
        """`more` has nothing further to give, ever."""
        ...

    def performs(self, kind: str) -> bool:
        """Tasks of this kind are executed; otherwise only their recorded results are used."""
        ...

    def more(self, n: int) -> Sequence[Offer]:
        """Up to n further tasks; none for now if it is empty."""
        ...

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """The tasks that the end of this one brings into being."""
        ...


class Design(Protocol):
    """How factors become conditions."""

    name: str

    def size(self, space: Space) -> int:
        """How many different runs it has there, without making them; Invalid if it cannot be laid out."""
        ...

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """Its runs, the same for the same seed."""
        ...
