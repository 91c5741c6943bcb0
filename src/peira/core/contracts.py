"""The interfaces (protocols) between the packages, with what each promises; all are small on purpose.

In order: stores (`Op` to `StoreScheme`), what is executed (`Agent`, `Evaluator`, `Work`), the engine's side
of execution (`Offer` to `Runner`), and where tasks and conditions come from (`Source`, `DesignMethod`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, runtime_checkable

import msgspec

from peira.core.context import Channel as Channel
from peira.core.context import Trial
from peira.core.ids import Json
from peira.core.log.events import AnyEvent, Record, Result, State, TaskSpec
from peira.core.log.rows import CallQuery as CallQuery
from peira.core.log.rows import CallTotals as CallTotals
from peira.core.log.rows import JobQuery as JobQuery
from peira.core.log.rows import RunQuery as RunQuery
from peira.core.log.state import Call, Run, Task
from peira.core.looks import StopRule as StopRule
from peira.core.looks import Watch as Watch
from peira.core.space import Point, Space
from peira.errors import Fenced


class PoolRequest(msgspec.Struct):
    """What an op needs of a pool of a shared run: it is taken in the transaction that commits the op.

    `most` is the size of the pool and `before` what was spent of it before the run; `given` is how much the
    op got, which is more than its `need` while the pool has much.
    """

    scope: str
    most: float
    before: float
    need: float
    given: float = 0.0


class Op(msgspec.Struct, frozen=True, gc=False):
    """Events of one run that are committed together or not at all, and the blobs they refer to.

    In a shared store it may draw on pools; it is refused (`NotGranted`) if one of them has too little.
    """

    run: str
    events: tuple[AnyEvent, ...]
    blobs: tuple[bytes, ...] = ()
    draws: tuple[PoolRequest, ...] = ()


Outcome = Fenced | None
"""The result of an op: None if it was accepted, else why it was refused."""


class Store(Protocol):
    """Event log, projections and blobs; an implementation holds only what is specific to its storage.

    Every method may be called from any thread.
    """

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        """Queue ops, in order; the future gives one outcome for each.

        When the future resolves, the accepted ops are durable and applied, and a refused one changed nothing.
        A fault of the disk ends the store: the future, and every later call that writes, raises StoreFault.
        """
        ...

    def claim(self, run: str, owner: str, classes: Sequence[str], n: int) -> list[Task]:
        """Claim up to n queued tasks of these classes that are ready; durable when it returns.

        Ready are tasks whose dependencies have succeeded and whose start time has come; highest priority
        first, then oldest.
        """
        ...

    def find(self, kind: Literal["task", "call", "run"], keys: Sequence[str]) -> dict[str, Any]:
        """The rows (Task, Call or Run) of those keys that exist, in bulk; sees everything acknowledged."""
        ...

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[Record]:
        """The run's records with seq > after, in order."""
        ...

    def put(self, data: bytes) -> str:
        """Store bytes and return their SHA-256; durable when it returns, and idempotent."""
        ...

    def get(self, digest: str) -> bytes:
        """The bytes of a digest, verified against it; Unknown if there are none."""
        ...


class Catalogue(Protocol):
    """Queries over a store, for people and for the engine; read only."""

    def runs(self, query: RunQuery) -> list[Run]:
        """The runs that match the query."""
        ...

    def calls(self, query: CallQuery) -> list[Call]:
        """The calls that match the query."""
        ...

    def tally(self, query: CallQuery) -> CallTotals:
        """Totals of all calls that match the query, whatever its limit."""
        ...

    def about(self, tasks: Sequence[str], until: str = "") -> list[Record]:
        """Every record about these tasks, in commit order, of all runs that began no later than `until`.

        Without `until`, of all runs. For a few tasks it is quick, however many events there are.
        """
        ...

    def changed_since(self, run: str) -> list[str]:
        """The ids of tasks with records in runs that began after this one, and in this or earlier ones."""
        ...

    def active(self) -> list[Task]:
        """Every task that an attempt holds: running or cancelling."""
        ...

    def waiting(self) -> list[Task]:
        """Every waiting task, oldest first; the cost grows with their number, not with that of all tasks."""
        ...

    def jobs(self, query: JobQuery) -> list[Task]:
        """The jobs that match the query, newest first."""
        ...

    def job_counts(self, cls: str) -> dict[State, int]:
        """How many jobs of a class are in each state."""
        ...

    def queued(self, cls: str) -> list[Task]:
        """The queued tasks of a class, oldest first."""
        ...

    def using(self, calls: Sequence[str]) -> list[Task]:
        """The tasks whose results refer to any of these calls; scans all results, so use it rarely."""
        ...


class Inspectable(Protocol):
    """The complete contents of a store, row by row, for `verify` and for sizes; read only."""

    def history(self) -> Iterator[Record]:
        """Every record of every run, in commit order."""
        ...

    def rows(self) -> Iterator[Task | Call | Run]:
        """Every projected row."""
        ...

    def blobs(self) -> Iterator[tuple[str, int, str]]:
        """Every blob: its digest, its stored size, and what is wrong with it ("" if nothing is)."""
        ...

    def damage(self) -> list[str]:
        """Problems of the storage itself (not of the events in it); one line each."""
        ...

    def losses(self) -> list[str]:
        """Acknowledged commits that are known to be lost; one line each."""
        ...

    def size(self, run: str = "") -> int:
        """Bytes held by one run's events and their results, or by the whole store."""
        ...


class Ownership(Protocol):
    """How a store is owned: one process owns it for writing, others may read it at the same time.

    A process that opens a store for writing owns it until it is closed or the process ends, however it ends.
    """

    @property
    def address(self) -> str:
        """Identifies this store on this machine; the same in every process that opens it."""
        ...

    @property
    def readonly(self) -> bool:
        """It was opened for reading: nothing may be written, and `incarnation` is meaningless."""
        ...

    @property
    def incarnation(self) -> int:
        """How many owners it has had, this one included; no two owners have the same number."""
        ...

    def owner(self) -> Mapping[str, int] | None:
        """The `pid` and `incarnation` of the process that owns it for writing now; None if there is none.

        Entries that the owner has not published yet are missing. A killed owner no longer counts as soon as
        another process could become the owner.
        """
        ...

    def folder(self, name: str) -> Path | None:
        """The folder for files of this kind that belong to the store, the same in every process.

        It need not exist yet. `control` holds commands to the owner, `work` the folders of running attempts,
        `logs`, `code` and `tables` files that can be rebuilt. None if the store has no place for files: then
        no command can be sent to its owner, and other files are temporary.
        """
        ...

    def close(self) -> None:
        """Finish what is queued and release the ownership; idempotent."""
        ...


@runtime_checkable
class OpenStore(Store, Catalogue, Inspectable, Ownership, Protocol):
    """A store that was opened: every interface that peira needs of one."""


@runtime_checkable
class ChangeCounter(Protocol):
    """A store that says cheaply whether anything was committed; not every store can."""

    def changes(self) -> int:
        """A number that differs from the last one if other connections committed since; read only."""
        ...


@runtime_checkable
class Backups(Protocol):
    """A store that can be copied to a file; not every store can."""

    def backup(self, target: Path) -> None:
        """Copy the store, as it is at one moment, to a new store at this path; durable when it returns.

        The store may be open for reading, and written by another process meanwhile. The copy has no owner.
        Raises Invalid if there is something at the path. A copy that was cut off is no store.
        """
        ...


@runtime_checkable
class StreamsBlobs(Protocol):
    """A store that takes and gives blobs in pieces, so that large ones are never held; not every one can."""

    def put_pieces(self, pieces: Callable[[], Iterable[bytes]]) -> str:
        """As `put` of the joined pieces. They are made twice: for their digest, then to be stored."""
        ...

    def get_pieces(self, digest: str) -> Iterator[bytes]:
        """As `get`, in pieces; that they do not match the digest is known, and raised, at the end."""
        ...


@runtime_checkable
class Commands(Protocol):
    """A store that carries commands to its owner, from any machine; others use files in their folder."""

    def send_command(self, id: str, body: bytes) -> None:
        """Leave a command for the owner, also if the store is open for reading; durable when it returns."""
        ...

    def command_queued(self, id: str) -> bool:
        """Whether the command was not executed yet."""
        ...

    def pending_commands(self) -> list[tuple[str, bytes]]:
        """The commands that were left, oldest first, each with its id; for the owner. They stay."""
        ...

    def remove_command(self, id: str) -> None:
        """Remove a command that was executed."""
        ...


@runtime_checkable
class Snapshots(Protocol):
    """A store that others may write while it is read, and that can be read as it is at one moment."""

    def snapshot(self) -> AbstractContextManager[Any]:
        """The reading part of the store (`Inspectable`, `find`, `events`, `get`), as it is now."""
        ...


@runtime_checkable
class PayloadRemoval(Protocol):
    """A store that can remove the bytes of payloads and keep a record of that; not every store can."""

    def forget(self, digests: Collection[str]) -> int:
        """Remove the bytes of these blobs and return their number.

        From then on `get` raises NotKept for them, and `verify` does not report them as missing. All or
        nothing, whenever the process is killed.
        """
        ...

    def forgotten(self) -> Collection[str]:
        """The digests of the blobs that `forget` removed."""
        ...

    def compress(self, codec: str) -> None:
        """Set the compression of payloads that are written from now on: "zstd" or "none"."""
        ...


class PlanEntry(NamedTuple):
    """What a task of a plan is about, in plain words, for people and programs that cannot read the plan.

    `place` is its number in the plan. `group` is its agent and its condition (as JSON), `subject` its case:
    id, slice, cluster, input, expected, metadata; each begins with a number that only equal ones share, and
    of a subject that is listed already there may be only this. `output` is the beginning of its result, if
    that is too long for its row; `scores` are the names and task ids of its scores.
    """

    place: int
    task: str
    group: tuple[int, str, str]
    subject: tuple[int | str | None, ...]
    repeat: int
    output: str = ""
    scores: Sequence[tuple[str, str]] = ()


class TaskOutcome(msgspec.Struct, frozen=True, gc=False):
    """The part of a task's row that results need; it is read in a fraction of the time."""

    state: State
    attempts: int
    run: str
    reused_from: str
    result: Result


@runtime_checkable
class FindsOutcomes(Protocol):
    """An object that finds the outcomes of many tasks at once."""

    def outcomes(self, ids: Sequence[str]) -> list[TaskOutcome | None]:
        """The outcome of each of these tasks; None if there is no such task."""
        ...


class TaskFinder(FindsOutcomes, Protocol):
    """Finds tasks, as `Store.find` does."""

    def find(self, ids: Sequence[str]) -> dict[str, Task]:
        """The rows of these tasks that exist."""
        ...

    def states(self, ids: Sequence[str]) -> list[State | None]:
        """The state of each of these tasks; None if there is no such task."""
        ...


@runtime_checkable
class ScansTasks(Protocol):
    """A store that can read all its tasks in one pass, for callers that need most of them."""

    def scan_tasks(self, wanted: int) -> TaskFinder | None:
        """A finder of the tasks as they are now; None if it is faster to look up `wanted` of them by id."""
        ...


@runtime_checkable
class Anticipates(Protocol):
    """A store that prepares for large runs if it is notified in advance."""

    def anticipate(self, tasks: int) -> None:
        """Prepare for the execution of this number of tasks; returns at once."""
        ...


class CallWords(NamedTuple):
    """The texts of a call: its prompt and its reply, or their beginnings."""

    key: str
    prompt: str
    reply: str


@runtime_checkable
class ListsPlans(Protocol):
    """A store with views for other programs, once it has the entries of plans; not every store has them."""

    def listed(self) -> Mapping[str, bool]:
        """The plans (by the digest of the manifest) with entries, and whether they are complete."""
        ...

    def list_plan(self, plan: str, entries: Iterable[PlanEntry], complete: bool = False) -> Future[None]:
        """Add entries of a plan; they replace those of the same places.

        They are written in the background: another thread then reads the iterable. `complete` says that the
        plan has all its entries with these.
        """
        ...

    def list_calls(self, calls: Iterable[CallWords]) -> Future[None]:
        """Add the texts of calls, in the background: another thread then reads the iterable."""
        ...

    def unlisted_calls(self, run: str = "") -> Sequence[str]:
        """The keys of calls (of one run, or of all) whose texts are not listed, or may have changed since.

        Those are calls without an answer, or in a batch.
        """
        ...

    def listed_cases(self, numbers: range) -> int:
        """How many subjects are listed whose numbers are in this range, whose step is 1."""
        ...

    def listed_tasks(self, plan: str, prefix: str) -> Sequence[tuple[str, int]]:
        """The ids of listed tasks of a plan that have this prefix, with their places in it."""
        ...


class Retained(msgspec.Struct, frozen=True):
    """What is kept when runs are deleted: the `tasks` and `calls` of these runs that other runs need."""

    deleted: Mapping[str, Run]
    tasks: Collection[str]
    calls: Collection[str]


@runtime_checkable
class Deletes(Protocol):
    """A store whose runs can be deleted; not every store can."""

    def retain(self, retained: Retained) -> None:
        """Delete the events of these runs, and the tasks, calls and blobs that nothing else needs.

        What is kept of them stays as rows, and the store stays sound (see `stores.retention`). All or
        nothing, whenever the process is killed. The store must be opened for writing and is closed by this.
        """
        ...


class Merged(msgspec.Struct, frozen=True):
    """What a merge added: new runs, the number of their records, and of tasks that both stores have."""

    runs: tuple[Run, ...]
    records: int
    shared: int


@runtime_checkable
class Merges(Protocol):
    """A store to which the runs of another can be added; not every store can."""

    def merge(self, other: OpenStore, ours: bool = False, dry_run: bool = False) -> Merged:
        """Add the runs of another store, which nobody writes meanwhile (see `stores.merge`).

        Raises Invalid with a line for each conflict; with `ours`, this store's result is kept instead.
        All or nothing, whenever the process is killed. The store must be opened for writing and is closed by
        this.
        """
        ...


@runtime_checkable
class Versioned(Protocol):
    """A scheme whose stores have a version of their format, and are migrated to the newest when opened."""

    def versions(self, address: str) -> tuple[int, int]:
        """The version of the store at the address (0: it is empty), and the newest that this peira writes."""
        ...


@runtime_checkable
class StoreScheme(Protocol):
    """How stores of one kind are found and opened: the plug-in of kind `store`.

    It is named by the scheme of their addresses (`mine` for mine://host/name) and made without options. A
    path is an address of the scheme `sqlite`.
    """

    def exists(self, address: str) -> bool:
        """Whether there is a store at the address; creates none."""
        ...

    def owner(self, address: str) -> Mapping[str, int] | None:
        """As `Ownership.owner`, without opening the store; None if there is no store."""
        ...

    def own(self, address: str, wait: float | None, compression: str) -> OpenStore:
        """Open the store for writing, owned by this process; it is created if it does not exist.

        Raises StoreInUse if another process owns it for longer than `wait` seconds (None: wait for ever).
        `compression` of payloads is "zstd" or "none".
        """
        ...

    def read(self, address: str) -> OpenStore:
        """Open the store for reading, also while another process owns it; Unknown if it does not exist."""
        ...


@runtime_checkable
class SecretAddresses(Protocol):
    """A scheme whose addresses may contain a password."""

    def public(self, address: str) -> str:
        """The address without secrets, by which this process can open the store from now on."""
        ...


@runtime_checkable
class Agent(Protocol):
    """The system under test."""

    @property
    def label(self) -> str:
        """The name under which results show it."""
        ...

    @property
    def asynchronous(self) -> bool:
        """Whether `invoke` returns an awaitable."""
        ...

    @property
    def takes(self) -> frozenset[str] | None:
        """The names of the factors it takes; None if it takes all."""
        ...

    @property
    def identity(self) -> Json:
        """Configuration and code, as they enter trial ids."""
        ...

    def invoke(self, trial: Trial) -> Any:
        """The output for the trial, or an awaitable of it when `asynchronous`."""
        ...


@runtime_checkable
class Evaluator(Protocol):
    """Scores one output."""

    @property
    def name(self) -> str:
        """The name under which its scores are recorded."""
        ...

    @property
    def asynchronous(self) -> bool:
        """Whether `judge` returns an awaitable."""
        ...

    @property
    def takes(self) -> frozenset[str]:
        """Which of output, expected, case, trial, transcript it takes; these enter the score's identity."""
        ...

    @property
    def identity(self) -> Json:
        """Configuration and code, as they enter score ids."""
        ...

    def judge(self, facts: Mapping[str, Any]) -> Any:
        """The score: bool, number, string or dict of those; or an awaitable of it when `asynchronous`."""
        ...


class Work(Protocol):
    """What a task does, independent of where it is executed.

    Its model calls are identified by its `scope` and its `stage`.
    """

    @property
    def stage(self) -> str:
        """The stage that its calls are recorded under."""
        ...

    @property
    def asynchronous(self) -> bool:
        """Whether `perform` returns an awaitable."""
        ...

    @property
    def reader(self) -> str:
        """The `WorkReader` (module:name) that rebuilds it in another process; "" if none can."""
        ...

    def scope(self) -> str:
        """The id that its calls belong to."""
        ...

    def perform(self, channel: Channel, epoch: int) -> Any:
        """Do the work in this process; returns the value, or an awaitable of it when `asynchronous`."""
        ...

    def message(self) -> dict[str, Any]:
        """The same work as plain JSON, for its reader; Invalid says why it cannot be serialised."""
        ...

    def copy(self) -> Work:
        """An independent copy for inspection: changes to it do not reach this one."""
        ...


class QuestionContext(msgspec.Struct, frozen=True):
    """What questions to people are about: `scope` is part of the keys of their answers, the rest is shown."""

    scope: str
    trial: str = ""
    case: str = ""
    evaluator: str = ""


@runtime_checkable
class AskingWork(Work, Protocol):
    """Work that says more about the questions it asks than its scope."""

    def question_context(self) -> QuestionContext:
        """What its questions are about; the same for equal work, whatever its code."""
        ...


class WorkReader(Protocol):
    """Rebuilds work from messages in another process.

    It is called with `code`, which says where the parts that the messages name are defined (file.py:name).
    """

    def load(self) -> None:
        """Load the code before any attempt starts; what cannot be loaded fails when it is used."""
        ...

    def read(self, message: Mapping[str, Any]) -> Work:
        """The work that a message describes."""
        ...


class Offer(msgspec.Struct, frozen=True, gc=False):
    """A task and its work, as a source hands it out.

    `former` are ids under which its result may already be recorded, each with the difference as text.
    `direct` work is plain code and may be executed without a claim of its own; the claim is recorded together
    with its end, or when it first uses its channel.
    """

    spec: TaskSpec
    work: Work
    former: tuple[tuple[str, str], ...] = ()
    direct: bool = False


class Attempt(msgspec.Struct, frozen=True, gc=False):
    """One execution of a task; `draw` counts failed attempts whose answers it does not replay."""

    spec: TaskSpec
    epoch: int
    work: Work
    draw: int = 0

    @property
    def key(self) -> tuple[str, int]:
        """The task's id and the epoch, which identify the attempt."""
        return self.spec.id, self.epoch


class Ended(msgspec.Struct, frozen=True, gc=False):
    """How a task ended; `value` is its normalised output where that is in memory."""

    state: State
    result: Result
    value: Any = None


class AttemptQueue(Protocol):
    """The queue between engine and runner: workers take attempts from it and return results; thread-safe."""

    def take(self, n: int, at_once: int = 1) -> list[Attempt]:
        """Up to n claimed attempts, blocking until there is work; empty when there will be no more.

        `at_once` of them can be started immediately: more than that are given only if they are short.
        """
        ...

    def begin(self, attempt: Attempt) -> Channel | None:
        """Open the attempt's channel as it starts; None if it must not start."""
        ...

    def end(self, attempt: Attempt, outcome: object, failure: BaseException | None) -> None:
        """Report the value, or the failure; does nothing once the attempt was abandoned."""
        ...

    def back(self, attempts: Sequence[Attempt]) -> None:
        """Return attempts that were taken and will not be started."""
        ...


@runtime_checkable
class Runner(Protocol):
    """Where attempts are executed: a fixed pool of workers that take attempts from a queue.

    The plug-in of kind `runner`, made with those of these arguments that it takes by name: `asynchronous`
    (the agents' work is awaited), `agents` (by label, where other processes find each one: "file.py:name", a
    table that names its kind and options, or None if they cannot), `label` (marks processes as the store
    owner's, so that the next owner can kill those that a killed one left behind) and `options` (its table in
    the project file, [runners.NAME]). Constructing it starts nothing; Invalid if it cannot execute these
    agents.
    """

    name: str

    def start(self, queue: AttemptQueue, workers: int) -> None:
        """Start so many workers, which take attempts from the queue until it closes."""
        ...

    def abandon(self, attempt: Attempt) -> None:
        """Give up an attempt that was started: kill it where that is possible, and free its worker."""
        ...

    def stop(self) -> None:
        """End every worker that is not stuck in user code; called once the queue has closed."""
        ...


@runtime_checkable
class GrowingRunner(Runner, Protocol):
    """A runner that starts with few workers and adds more while that helps, up to the number of `start`."""

    def grow(self) -> None:
        """Called every few hundredths of a second while the run goes on: start more workers if all are busy
        and more would help."""
        ...


@runtime_checkable
class ResizableRunner(Runner, Protocol):
    """A runner whose number of workers can be raised while it works."""

    def resize(self, workers: int) -> None:
        """Execute up to this number of attempts at once from now on; it is never lowered."""
        ...


class Source(Protocol):
    """Where tasks come from; more may be added while the run is going on."""

    unit: str
    """The kind of task that the run counts as its units of work."""

    @property
    def size(self) -> int | None:
        """How many units there will be; None if that is unknown."""
        ...

    @property
    def closed(self) -> bool:
        """Whether `more` will never return anything again."""
        ...

    def performs(self, kind: str) -> bool:
        """Whether tasks of this kind are executed; otherwise only their recorded results are used."""
        ...

    def more(self, n: int) -> Sequence[Offer]:
        """Up to n further tasks; empty if there are none at the moment."""
        ...

    def follow(self, offer: Offer, ended: Ended) -> Sequence[Offer]:
        """The tasks that depend on this one and can be created now that it has ended."""
        ...


@runtime_checkable
class OpenSource(Source, Protocol):
    """A source that may have no tasks for a long time; it calls back when it has new ones.

    `more` and `follow` are called with a lock of the engine held.
    """

    def watch(self, grown: Callable[[], None]) -> None:
        """Register the callback `grown`, called when `more` may return tasks again, or `closed` has changed.

        It may be called from any thread that holds no lock which `more` takes. `watch` is called once, before
        any other method.
        """
        ...


@runtime_checkable
class QueueSource(OpenSource, Protocol):
    """An open source that may hold far more than can begin soon: a queue for each class, by priority.

    Tasks of a class are requested while only few of at least their priority are ready to begin. So tasks that
    wait in one class delay no other class, and no task of higher priority.
    """

    def foremost(self) -> Mapping[str, int]:
        """The priority of the next task of each class; classes without tasks are left out."""
        ...

    def more_of(self, cls: str, n: int) -> list[Offer]:
        """The next `n` tasks of a class: highest priority first, then oldest first."""
        ...


@runtime_checkable
class BackgroundSource(Source, Protocol):
    """A source that records results itself, on a thread of its own."""

    def join(self) -> None:
        """Wait until its thread has ended; called before the run ends, after it was told to stop."""
        ...


@runtime_checkable
class PartialSource(Source, Protocol):
    """A source of which this process executes a part; it is notified of tasks left to other processes."""

    def leave(self, offer: Offer) -> None:
        """Note a task that is not performed here and has no recorded result; the engine's lock is held."""
        ...


class Consequences(msgspec.Struct, frozen=True, gc=False):
    """Events that are recorded in the same commit as the end of a task, and the blobs they refer to."""

    events: tuple[AnyEvent, ...] = ()
    blobs: tuple[bytes, ...] = ()


@runtime_checkable
class ChainingSource(Source, Protocol):
    """A source whose tasks queue further tasks durably, in the commit that records their end."""

    def with_end(self, offer: Offer, ended: Ended) -> Consequences:
        """The events and blobs to record with the end of this task; called with a lock of the engine held."""
        ...


class DesignMethod(Protocol):
    """How factors are combined into conditions."""

    name: str

    def size(self, space: Space) -> int:
        """The number of distinct runs, not generated; Invalid if the design does not fit the space."""
        ...

    def points(self, space: Space, seed: int) -> Iterator[Point]:
        """The runs of the design, the same for the same seed."""
        ...
