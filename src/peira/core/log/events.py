"""The events of the log: typed and frozen; everything else in a store is derived from them.

First the values that events contain, then the events of runs, tasks, calls and trials, then `Record`, an
event with its position in the log. The tags and fields are the format of stores.
"""

from __future__ import annotations

from enum import StrEnum

import msgspec

from peira.core.looks import Look, Traffic

VERSION = 1
NOTHING = msgspec.Raw(b"")
"""An absent value; compare by identity, because another empty Raw would be encoded as invalid JSON."""


IMPORTED = "imported"
"""The tag of runs that record results made elsewhere, and the key in `about` of where those come from."""


class State(StrEnum):
    """The state of a task."""

    __hash__ = str.__hash__  # faster than the hash of Enum, which is Python code

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
    """The status of a run.

    `waiting` is the end of a run whose remaining tasks all wait for people; `paused` and `cancelling` runs
    are under way. `frozen` is a plan that was stored and is never started, `refused` one with problems, which
    its events name; of a `deleted` run only what others need is left.
    """

    planned = "planned"
    running = "running"
    completed = "completed"
    failures = "completed with failures"
    stopped = "stopped by a limit"
    cancelled = "cancelled"
    interrupted = "interrupted"
    waiting = "waiting for people"
    paused = "paused"
    cancelling = "cancelling"
    frozen = "frozen"
    refused = "refused"
    deleted = "deleted"


class Event(msgspec.Struct, frozen=True, tag_field="kind", omit_defaults=True, gc=False):
    """The base class of all events."""


class Failure(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Why an attempt failed, as it is shown: the exception type, one message, and the traceback."""

    type: str
    message: str
    trace: str = ""


class Artifact(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A file that an agent attached; its bytes are the blob with this digest."""

    name: str
    digest: str
    size: int
    media: str = ""


class Result(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The result of an attempt.

    `took` is its duration in seconds, without the `queued` ones in which its calls waited in peira itself
    (for a slot, a rate limit, a back-off). `output` is canonical JSON; a large one is stored as the blob
    named by `blob`. `failure` says why there is no output. `metrics`, `artifacts` and `about` are what the
    agent reported, attached and described. `calls` are the keys of the calls whose answers it used.
    `exposed` are the places in the output, from byte to byte, of keys that the environment held: it is kept
    as it came, and shown without them. `trail` is the blob with the order of what it did, if it did more than
    ask models (`core.chat.transcript.TrailEntry`).
    """

    took: float = 0.0
    output: msgspec.Raw = NOTHING
    blob: str = ""
    failure: Failure | None = None
    metrics: dict[str, float] = {}
    artifacts: tuple[Artifact, ...] = ()
    about: dict[str, str] = {}
    unseen: str = ""
    calls: tuple[str, ...] = ()
    queued: float = 0.0
    exposed: tuple[tuple[int, int], ...] = ()
    trail: str = ""


class TaskSpec(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """A task as its source offers it: opaque id, kind, class, and the tasks that must succeed before it.

    Claims select tasks by `cls`; those of higher `priority` are claimed first. `needs` are the ids of the
    tasks that must succeed first; `scope` identifies its calls; `payload` is the digest of a blob with its
    data, for tasks that cannot be rebuilt from the plan; `labels` are what lists of tasks show of it.
    """

    id: str
    kind: str
    cls: str
    reuse_key: str = ""
    scope: str = ""
    parent: str = ""
    priority: int = 0
    needs: tuple[str, ...] = ()
    payload: str = ""
    labels: dict[str, str] = {}


class Spent(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """What a run spent on one model: sends that may have been billed, answers, tokens, US dollars.

    `unpriced` of the answers have no known price. `doubtful` of the sends got no answer: the doubtful tokens
    and money may have been billed for them, in addition to the rest. `account` is the budget that it was
    taken from, if that is not the run's own.
    """

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
    account: str = ""

    @classmethod
    def in_doubt(cls, model: str, tokens: int, money: float) -> Spent:
        """One send that got no answer and may have been billed."""
        return cls(model, 1, doubtful=1, doubtful_tokens=tokens, doubtful_money=money)

    @property
    def most_tokens(self) -> int:
        """The tokens including those that may have been billed: what counts against a budget."""
        return self.input + self.output + self.doubtful_tokens

    @property
    def most_money(self) -> float:
        """The money including what may have been billed: what counts against a budget."""
        return self.money + self.doubtful_money

    def plus(self, more: Spent) -> Spent:
        """The sum of both, as spent on this one's model."""
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
            self.account,
        )


class RunPlanned(Event, frozen=True, tag="run.planned", gc=False):
    """A run was created from a manifest (the blob of this digest).

    `trials` is the number of planned trials, `provenance` the blob that records where and with what it was
    planned, `resumes` the id of the run that it continues. `generation` is raised by runs that start afresh;
    `evaluation` is the name of the evaluation if it scores stored outputs; `name` is the name that a person
    gave the run, unique in its store; `stream` is the blob that declares what is executed if that is no
    study: a stream, or a work plan; `version` is that of the event format; `by` is who started it.
    """

    manifest: str
    study: str
    trials: int
    tags: tuple[str, ...] = ()
    provenance: str = ""
    resumes: str = ""
    version: int = VERSION
    generation: int = 0
    evaluation: str = ""
    name: str = ""
    stream: str = ""
    by: str = ""


class RunStarted(Event, frozen=True, tag="run.started", gc=False):
    """The owner of the store began to execute the run."""

    owner: str
    incarnation: int


class Unsuccessful(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """The trials of a run that did not succeed, or a task of which did not: their indices in the plan.

    `counts` are those of their tasks, by kind.
    """

    trials: tuple[int, ...]
    counts: dict[str, int] = {}


class RunFinished(Event, frozen=True, tag="run.finished", gc=False):
    """The run ended, once; `counts` add up to the number of units of the source.

    `unsuccessful` is known if they are few: nothing else needs to be looked at when the plan is run again.
    """

    status: Status
    counts: dict[str, int] = {}
    reason: str = ""
    spent: tuple[Spent, ...] = ()
    unsuccessful: Unsuccessful | None = None


class RunNoted(Event, frozen=True, tag="run.noted", gc=False):
    """A notice for people while the run went on: a model was paused, a fallback was used."""

    text: str


class RunLooked(Event, frozen=True, tag="run.looked", gc=False):
    """A look of the study's stopping rule; every change is recorded, not every look.

    In a shared run `after` are the units of the look before it: refused if another one was recorded since.
    """

    look: Look
    after: int = -1


class RunDecided(Event, frozen=True, tag="run.decided", gc=False):
    """The stopping rule has decided: no further trials are started; `after` as in `RunLooked`."""

    rule: str
    look: Look
    after: int = -1


class GoalLooked(Event, frozen=True, tag="goal.looked", gc=False):
    """The verdict on a goal of a stream has changed: "met", "missed" or "undecided".

    The mean of `n` jobs since the beginning of its window, with the ends of the confidence sequence.
    """

    goal: str
    verdict: str
    mean: float
    low: float | None
    high: float | None
    n: int
    since: float


class TrafficSplit(Event, frozen=True, tag="stream.split", gc=False):
    """From now on the jobs of a stream are drawn with these probabilities; `by` says who decided that."""

    traffic: Traffic
    by: str = ""


class RunReopened(Event, frozen=True, tag="run.reopened", gc=False):
    """Work that this run counted as done must be done again: an answer it used was voided."""

    key: str


class RunInterrupted(Event, frozen=True, tag="run.interrupted", gc=False):
    """The process of the run is gone; written by the next owner of the store."""

    incarnation: int


class CommandTaken(Event, frozen=True, tag="run.command", gc=False):
    """The owner accepted a command (its name and id) from another process; `by` says who sent it."""

    command: str
    id: str
    by: str = ""


class TasksQueued(Event, frozen=True, tag="tasks.queued", gc=False):
    """Tasks were added to the queue."""

    tasks: tuple[TaskSpec, ...]


class TasksClaimed(Event, frozen=True, tag="tasks.claimed", gc=False):
    """An attempt of each of these tasks of one kind starts.

    `epochs` are the new ones; empty means that all are 1.
    """

    task_kind: str
    cls: str
    owner: str
    tasks: tuple[str, ...]
    epochs: tuple[int, ...] = ()
    scopes: tuple[str, ...] = ()


class TasksReleased(Event, frozen=True, tag="tasks.released", gc=False):
    """Tasks were claimed, not started, and returned by the holder of these epochs: not an attempt."""

    tasks: tuple[str, ...]
    epochs: tuple[int, ...] = ()


class TasksInterrupted(Event, frozen=True, tag="tasks.interrupted", gc=False):
    """Tasks were claimed by an owner that is gone; they are queued again.

    Where several processes may say so, `epochs` are those of the claims that are meant.
    """

    tasks: tuple[str, ...]
    epochs: tuple[int, ...] = ()


class TaskRetried(Event, frozen=True, tag="task.retried", gc=False):
    """An attempt failed and another will follow, not before the given time."""

    task: str
    epoch: int
    result: Result
    not_before: float = 0.0


class TaskFinished(Event, frozen=True, tag="task.finished", gc=False):
    """A task reached its terminal state in this run."""

    task: str
    epoch: int
    state: State
    result: Result = Result()


class TaskWaiting(Event, frozen=True, tag="task.waiting", gc=False):
    """An attempt ended because its task must wait: it counts neither as an attempt nor as an interruption.

    The task waits until all of `questions` (keys) are closed and all tasks of `awaits` (ids) have ended, in
    whatever state. The commit that has this event also has the `QuestionAsked` of questions that are new.
    """

    task: str
    epoch: int
    questions: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()


class TasksWoken(Event, frozen=True, tag="tasks.woken", gc=False):
    """Nothing that these waiting tasks waited for is left: they are queued again."""

    tasks: tuple[str, ...]


class TasksAdopted(Event, frozen=True, tag="tasks.adopted", gc=False):
    """This run goes on with tasks that began to wait in an earlier one; raises their epochs."""

    tasks: tuple[str, ...]


class TasksPaused(Event, frozen=True, tag="tasks.paused", gc=False):
    """Queued or waiting tasks are not to be started until they are resumed; questions stay open."""

    tasks: tuple[str, ...]
    by: str = ""


class TasksResumed(Event, frozen=True, tag="tasks.resumed", gc=False):
    """Paused tasks are queued again, or wait for what they waited for."""

    tasks: tuple[str, ...]
    by: str = ""


class TasksCancelling(Event, frozen=True, tag="tasks.cancelling", gc=False):
    """Running tasks are to be cancelled: each ends as cancelled, also if its process dies before that."""

    tasks: tuple[str, ...]
    by: str = ""


class QuestionAsked(Event, frozen=True, tag="question.asked", gc=False):
    """A task asks people; `question` is a `PersonQuestion` as JSON, or the blob that contains it.

    `at` is when it is asked, `due` when nobody may answer any more (0: never). A question that is open
    already moves to this task, with its first time and deadline kept.
    """

    task: str
    epoch: int
    key: str
    at: float
    question: msgspec.Raw = NOTHING
    blob: str = ""
    due: float = 0.0


class QuestionAnswered(Event, frozen=True, tag="question.answered", gc=False):
    """Somebody answered an open question: the first answer is the only one.

    `value` is canonical JSON; `by` is a person, or "deadline"; `id` that of the command which brought it;
    `took` the seconds that the person looked at the question, -1 if that is unknown.
    """

    task: str
    key: str
    value: msgspec.Raw
    at: float
    by: str
    id: str = ""
    took: float = -1.0


class QuestionClosed(Event, frozen=True, tag="question.closed", gc=False):
    """An open question will get no answer.

    `how` is `expired` (its deadline passed), `skipped` (by a person), or `void` (its task was cancelled).
    """

    task: str
    key: str
    how: str
    at: float
    by: str = ""
    id: str = ""


class RunPaused(Event, frozen=True, tag="run.paused", gc=False):
    """Nothing more is started in this run until it is resumed; what was running may finish."""

    by: str = ""
    id: str = ""


class RunResumed(Event, frozen=True, tag="run.resumed", gc=False):
    """A paused run goes on."""

    by: str = ""
    id: str = ""


class RunCancelling(Event, frozen=True, tag="run.cancelling", gc=False):
    """The run is being cancelled: it ends as cancelled, also if its process dies before that."""

    by: str = ""
    id: str = ""


class RunAdjusted(Event, frozen=True, tag="run.adjusted", gc=False):
    """Limits of a run under way were changed: the number of workers, fields of the budget."""

    parallel: int = 0
    budget: dict[str, float] = {}
    by: str = ""
    id: str = ""


class TaskReused(Event, frozen=True, tag="task.reused", gc=False):
    """A task took over the result recorded under another id (a factor was added at its baseline)."""

    task: str
    source: str
    task_kind: str
    cls: str
    added: str


class StepRecorded(Event, frozen=True, tag="step.recorded", gc=False):
    """The value of a step, as canonical JSON or as the blob that contains it."""

    task: str
    epoch: int
    key: str
    name: str
    value: msgspec.Raw = NOTHING
    blob: str = ""


class SessionWritten(Event, frozen=True, tag="session.written", gc=False):
    """A job wrote the state of its session, as canonical JSON or as the blob that contains it.

    `version` follows the one that the job had read. The commit also has the `StepRecorded` of the write,
    which is fenced: so a write is made once, by an attempt that holds its task.
    """

    task: str
    key: str
    version: int
    value: msgspec.Raw = NOTHING
    blob: str = ""


class CallIntended(Event, frozen=True, tag="call.intended", gc=False):
    """A request is about to be sent to a model; durable before the send.

    `send` is the number of this send of the call, from 1; `request` is a blob. With a `batch` (a task of that
    id) it is submitted with others and no attempt waits: the asking task is executed again when the answer is
    there. If the run has a budget, `tokens` and `money` are reserved for it. In a shared store `owner` is who
    sends it, and `until` when no answer can come any more. `account` is the budget that pays for it, if that
    is not the run's own.
    """

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
    owner: str = ""
    until: float = 0.0
    account: str = ""

    def in_doubt(self) -> Spent:
        """The cost to assume if no answer is ever recorded."""
        doubtful = Spent.in_doubt(self.model, self.tokens, self.money)
        return msgspec.structs.replace(doubtful, account=self.account) if self.account else doubtful


class CallAnswered(Event, frozen=True, tag="call.answered", gc=False):
    """What came back, as received. Not fenced: an answer that was paid for is kept, however late. It is
    committed before anybody reads it; what it says of itself follows as `CallRead`.

    Not fenced: an answer that was paid for is kept, however late. Tokens are as the provider counted them, -1
    where it did not; `cost` is in US dollars, -1 if unknown.
    """

    task: str
    key: str
    answer: msgspec.Raw = NOTHING
    blob: str = ""
    input: int = -1
    output: int = -1
    cost: float = -1.0
    served: str = ""

    @property
    def known(self) -> bool:
        """Whether it carries anything of what the answer says of itself."""
        return self.input >= 0 or self.output >= 0 or self.cost >= 0 or bool(self.served)

    def bill(self, model: str) -> Spent:
        """The cost of the answer."""
        tokens = max(0, self.input), max(0, self.output)
        return Spent(model, 1, 1, *tokens, max(0.0, self.cost), int(self.cost < 0))


class CallRead(Event, frozen=True, tag="call.read", gc=False):
    """What a recorded answer says of itself: tokens, cost and the model that served it, as in `CallAnswered`,
    where stores of earlier versions have them. Written after the answer is durable, and only if it says
    anything."""

    task: str
    key: str
    input: int = -1
    output: int = -1
    cost: float = -1.0
    served: str = ""

    def bill(self, model: str) -> Spent:
        """What it adds to the bill of its answer."""
        money, priced = max(0.0, self.cost), int(self.cost >= 0)
        return Spent(
            model, input=max(0, self.input), output=max(0, self.output), money=money, unpriced=-priced
        )


class CallBilled(Event, frozen=True, tag="call.billed", gc=False):
    """A send was answered whose call had been answered before, through another send: this bill is paid, too,
    and its answer is not kept. Tokens and cost as in `CallRead`."""

    task: str
    key: str
    model: str
    input: int = -1
    output: int = -1
    cost: float = -1.0

    def bill(self) -> Spent:
        """The cost of the answer."""
        tokens = max(0, self.input), max(0, self.output)
        return Spent(self.model, 1, 1, *tokens, max(0.0, self.cost), int(self.cost < 0))


class CallLost(Event, frozen=True, tag="call.lost", gc=False):
    """A send got no answer; with `doubt` it may have been billed nevertheless, at most about so much.

    In a shared store `send` is its number: another process may have sent the call again.
    """

    task: str
    key: str
    why: str
    doubt: bool = False
    tokens: int = 0
    money: float = 0.0
    send: int = 0

    def bill(self, model: str) -> Spent:
        """The cost to assume: nothing, unless it may have been billed."""
        return Spent.in_doubt(model, self.tokens, self.money) if self.doubt else Spent(model)


class CallSettled(Event, frozen=True, tag="call.settled", gc=False):
    """A person decided about a call.

    `resend`: a call in doubt may be sent again. `discard`: a recorded answer is bad and void, and the task
    that asked is done again, together with the `others` that used it.
    """

    task: str
    key: str
    how: str
    by: str = ""
    others: tuple[str, ...] = ()


class Observed(Event, frozen=True, tag="trial.observed", gc=False):
    """An observation that an agent recorded while it worked."""

    task: str
    epoch: int
    name: str
    data: msgspec.Raw = msgspec.Raw(b"null")


class Attached(Event, frozen=True, tag="trial.attached", gc=False):
    """An agent attached a file."""

    task: str
    epoch: int
    artifact: Artifact


class Reported(Event, frozen=True, tag="trial.reported", gc=False):
    """An agent reported metrics, or facts about itself."""

    task: str
    epoch: int
    metrics: dict[str, float] = {}
    about: dict[str, str] = {}


OutcomeValue = bool | int | float | str
"""A value that is reported of a job: as those of scores, without parts."""


class OutcomeReported(Event, frozen=True, tag="job.outcome", gc=False):
    """What became of a job, reported after it was submitted, by anybody; the last report of a name counts.

    `id` is that of the command which brought it.
    """

    task: str
    name: str
    value: OutcomeValue
    by: str = ""
    id: str = ""


class RowsKept(Event, frozen=True, tag="rows.kept", gc=False):
    """Rows as they were here, in the place of the events that led to them, which were deleted.

    `tasks` and `calls` are rows as JSON, by id and by key.
    """

    tasks: dict[str, msgspec.Raw] = {}
    calls: dict[str, msgspec.Raw] = {}


class Unreadable(Event, frozen=True, tag="unreadable", gc=False):
    """Stands where a record is that cannot be read, and is never written: the others are read all the
    same."""

    why: str


AnyEvent = (
    RunPlanned
    | RunStarted
    | RunFinished
    | RunNoted
    | RunLooked
    | RunDecided
    | GoalLooked
    | TrafficSplit
    | RunReopened
    | RunInterrupted
    | CommandTaken
    | TasksQueued
    | TasksClaimed
    | TasksReleased
    | TasksInterrupted
    | TaskRetried
    | TaskFinished
    | TaskWaiting
    | TasksWoken
    | TasksAdopted
    | TasksPaused
    | TasksResumed
    | TasksCancelling
    | QuestionAsked
    | QuestionAnswered
    | QuestionClosed
    | RunPaused
    | RunResumed
    | RunCancelling
    | RunAdjusted
    | TaskReused
    | StepRecorded
    | SessionWritten
    | CallIntended
    | CallAnswered
    | CallRead
    | CallBilled
    | CallLost
    | CallSettled
    | Observed
    | Attached
    | Reported
    | OutcomeReported
    | RowsKept
    | Unreadable
)


class Record(msgspec.Struct, frozen=True, gc=False):
    """An event with its position (the run's `seq`, from 1) and its time."""

    run: str
    seq: int
    at: float
    event: AnyEvent


TERMINAL = frozenset(
    {State.succeeded, State.failed, State.cancelled, State.blocked, State.exhausted, State.in_doubt}
)
