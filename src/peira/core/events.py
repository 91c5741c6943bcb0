"""What happened: typed, frozen events, the only truth in a store.

An event is written once, inside a `Record` that says where and when (run, number, time). Everything
else a store holds is a projection that `core.state.apply` computes from the events. Fields may be
added with a default, never renamed or removed: `VERSION` is stored with every run, and old events decode.
Values like these cannot form cycles, so the garbage collector is spared them (`gc=False`): with
hundreds of thousands alive it would cost a quarter of the time.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from peira.core.looks import Look

VERSION = 1
NOTHING = msgspec.Raw(b"")
"""An absent value. This very object: another empty Raw would be encoded, and not be JSON."""


class State(StrEnum):
    """Where a task stands."""

    __hash__ = str.__hash__  # an Enum's own is Python code, and states are looked up all the time

    queued = "queued"
    running = "running"
    waiting = "waiting"
    paused = "paused"
    cancelling = "cancelling"
    succeeded = "succeeded"
    failed = "failed"
    cancelled = "cancelled"
    blocked = "blocked"
    exhausted = "exhausted"
    in_doubt = "in_doubt"


class Status(StrEnum):
    """Where a run stands. One that is frozen is a plan that was kept, and is never started."""

    planned = "planned"
    running = "running"
    completed = "completed"
    failures = "completed with failures"
    stopped = "stopped by a limit"
    cancelled = "cancelled"
    interrupted = "interrupted"
    frozen = "frozen"


class Event(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True, gc=False):
    """The base of all events."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why an attempt failed, as it is shown: the type, one message, and where."""

    type: str
    message: str
    trace: str = ""


class Artifact(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A file an agent attached: its bytes are the blob with this digest."""

    name: str
    digest: str
    size: int
    media: str = ""


class Result(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What an attempt left behind. `output` is canonical JSON; a large one is the blob named by `blob`.
    `calls` are the keys of the calls whose answers it used."""

    took: float = 0.0
    output: msgspec.Raw = NOTHING
    blob: str = ""
    failure: Failure | None = None
    metrics: dict[str, float] = {}
    artifacts: tuple[Artifact, ...] = ()
    about: dict[str, str] = {}
    unseen: str = ""
    calls: tuple[str, ...] = ()


class TaskSpec(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A task as its source offers it: opaque id, kind, class, and what must succeed before it."""

    id: str
    kind: str
    cls: str
    reuse_key: str = ""
    scope: str = ""
    parent: str = ""
    priority: int = 0
    needs: tuple[str, ...] = ()
    payload: str = ""


class Spent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a run spent on one model: sends that may have been billed, answers, tokens, US dollars.

    `unpriced` of the answers have no known price, and `doubtful` of the sends brought no answer: these tokens
    and this money may have been billed for them, beside what was."""

    model: str
    sends: int = 0
    answers: int = 0
    input: int = 0
    output: int = 0
    money: float = 0.0
    unpriced: int = 0
    doubtful: int = 0
    doubtful_tokens: int = 0
    doubtful_money: float = 0.0

    @classmethod
    def in_doubt(cls, model: str, tokens: int, money: float) -> Spent:
        """One send that brought no answer."""
        return cls(model, 1, doubtful=1, doubtful_tokens=tokens, doubtful_money=money)

    @property
    def most_tokens(self) -> int:
        """With those that may have been billed: what counts against a budget."""
        return self.input + self.output + self.doubtful_tokens

    @property
    def most_money(self) -> float:
        return self.money + self.doubtful_money

    def plus(self, more: Spent) -> Spent:
        """Both together, as spent on this one's model."""
        return Spent(
            self.model,
            self.sends + more.sends,
            self.answers + more.answers,
            self.input + more.input,
            self.output + more.output,
            self.money + more.money,
            self.unpriced + more.unpriced,
            self.doubtful + more.doubtful,
            self.doubtful_tokens + more.doubtful_tokens,
            self.doubtful_money + more.doubtful_money,
        )


class RunPlanned(Event, frozen=True, tag="run.planned", gc=False):
    """A run was opened on a manifest (the blob of this digest), under a name if it judges stored work."""

    manifest: str
    study: str
    trials: int
    tags: tuple[str, ...] = ()
    provenance: str = ""
    resumes: str = ""
    version: int = VERSION
    generation: int = 0
    evaluation: str = ""


class RunStarted(Event, frozen=True, tag="run.started", gc=False):
    owner: str
    incarnation: int


class RunFinished(Event, frozen=True, tag="run.finished", gc=False):
    """The run's one end. `counts` add up to what the source held."""

    status: Status
    counts: dict[str, int] = {}
    reason: str = ""
    spent: tuple[Spent, ...] = ()


class RunNoted(Event, frozen=True, tag="run.noted", gc=False):
    """Something people should know of, while it ran: a model was paused, a fallback was asked."""

    text: str


class RunLooked(Event, frozen=True, tag="run.looked", gc=False):
    """The study's stopping rule looked at what there was. Not every look is recorded, every change is."""

    look: Look


class RunDecided(Event, frozen=True, tag="run.decided", gc=False):
    """The stopping rule has its answer: no further trials are begun."""

    rule: str
    look: Look


class RunReopened(Event, frozen=True, tag="run.reopened", gc=False):
    """Something that this run counted as done is to be done again: an answer it used was voided."""

    key: str


class RunInterrupted(Event, frozen=True, tag="run.interrupted", gc=False):
    """Written by the next owner, for a run whose process is gone."""

    incarnation: int


class CommandTaken(Event, frozen=True, tag="run.command", gc=False):
    """The owner's answer to a command from another process."""

    command: str
    id: str
    by: str = ""


class TasksQueued(Event, frozen=True, tag="tasks.queued", gc=False):
    tasks: tuple[TaskSpec, ...]


class TasksClaimed(Event, frozen=True, tag="tasks.claimed", gc=False):
    """Tasks of one kind begin an attempt. `epochs` are the new ones; empty means all are 1."""

    task_kind: str
    cls: str
    owner: str
    tasks: tuple[str, ...]
    epochs: tuple[int, ...] = ()
    scopes: tuple[str, ...] = ()


class TasksReleased(Event, frozen=True, tag="tasks.released", gc=False):
    """Claimed, never begun, given back by the holder of these epochs: not an attempt."""

    tasks: tuple[str, ...]
    epochs: tuple[int, ...] = ()


class TasksInterrupted(Event, frozen=True, tag="tasks.interrupted", gc=False):
    """Claimed by an owner that is gone."""

    tasks: tuple[str, ...]


class TaskRetried(Event, frozen=True, tag="task.retried", gc=False):
    """An attempt failed and another will follow, not before the given time."""

    task: str
    epoch: int
    result: Result
    not_before: float = 0.0


class TaskFinished(Event, frozen=True, tag="task.finished", gc=False):
    """A task's one end in this run."""

    task: str
    epoch: int
    state: State
    result: Result = Result()


class TaskReused(Event, frozen=True, tag="task.reused", gc=False):
    """A new identity took over a result recorded under another (a factor added at its baseline)."""

    task: str
    source: str
    task_kind: str
    cls: str
    added: str


class StepRecorded(Event, frozen=True, tag="step.recorded", gc=False):
    """A step's value, as canonical JSON or as the blob that holds it."""

    task: str
    epoch: int
    key: str
    name: str
    value: msgspec.Raw = NOTHING
    blob: str = ""


class CallIntended(Event, frozen=True, tag="call.intended", gc=False):
    """A model is about to be asked, for the `send`-th time; `request` is a blob. Durable before the send.

    With a `batch` (a task of that id) it is handed in with others, and no attempt waits: whoever asked will
    ask again when the answer is there. Where a budget is kept, `tokens` and `money` are set aside for it."""

    task: str
    epoch: int
    key: str
    model: str
    request: str
    place: str
    send: int = 1
    batch: str = ""
    tokens: int = 0
    money: float = 0.0

    def in_doubt(self) -> Spent:
        """What it comes to if nobody hears of it."""
        return Spent.in_doubt(self.model, self.tokens, self.money)


class CallAnswered(Event, frozen=True, tag="call.answered", gc=False):
    """What came back, as received. Not fenced: an answer that was paid for is kept, however late.

    Tokens are as the provider counted them, -1 where it did not; `cost` is in US dollars, -1 if unknown."""

    task: str
    key: str
    answer: msgspec.Raw = NOTHING
    blob: str = ""
    input: int = -1
    output: int = -1
    cost: float = -1.0
    served: str = ""

    def bill(self, model: str) -> Spent:
        """What it comes to."""
        tokens = max(0, self.input), max(0, self.output)
        return Spent(model, 1, 1, *tokens, max(0.0, self.cost), int(self.cost < 0))


class CallLost(Event, frozen=True, tag="call.lost", gc=False):
    """A send brought no answer; with `doubt` it may have been billed all the same, for about so much."""

    task: str
    key: str
    why: str
    doubt: bool = False
    tokens: int = 0
    money: float = 0.0

    def bill(self, model: str) -> Spent:
        """What it comes to."""
        return Spent.in_doubt(model, self.tokens, self.money) if self.doubt else Spent(model)


class CallSettled(Event, frozen=True, tag="call.settled", gc=False):
    """Somebody decided about a call: one in doubt may be sent again (`resend`), or a recorded answer is bad
    and void (`discard`), and the task that asked is to be done again, with the `others` that used it."""

    task: str
    key: str
    how: str
    by: str = ""
    others: tuple[str, ...] = ()


class Observed(Event, frozen=True, tag="trial.observed", gc=False):
    """Something an agent wanted noted while it worked."""

    task: str
    epoch: int
    name: str
    data: msgspec.Raw = msgspec.Raw(b"null")


class Attached(Event, frozen=True, tag="trial.attached", gc=False):
    task: str
    epoch: int
    artifact: Artifact


class Reported(Event, frozen=True, tag="trial.reported", gc=False):
    task: str
    epoch: int
    metrics: dict[str, float] = {}
    about: dict[str, str] = {}


AnyEvent = (
    RunPlanned
    | RunStarted
    | RunFinished
    | RunNoted
    | RunLooked
    | RunDecided
    | RunReopened
    | RunInterrupted
    | CommandTaken
    | TasksQueued
    | TasksClaimed
    | TasksReleased
    | TasksInterrupted
    | TaskRetried
    | TaskFinished
    | TaskReused
    | StepRecorded
    | CallIntended
    | CallAnswered
    | CallLost
    | CallSettled
    | Observed
    | Attached
    | Reported
)


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event in its place: the run's `seq`-th, at this time."""

    run: str
    seq: int
    at: float
    event: AnyEvent


TERMINAL = frozenset(
    {State.succeeded, State.failed, State.cancelled, State.blocked, State.exhausted, State.in_doubt}
)
