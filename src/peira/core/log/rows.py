"""The rows that events project (tasks, runs, calls, recorded steps), and the queries that list them.

Only `core.log.state` replaces rows.
"""

from __future__ import annotations

import msgspec

from peira.core.log.events import NOTHING, OutcomeValue, Result, Spent, State, Status, Unsuccessful
from peira.core.looks import Look, Traffic

NO_RESULT = Result()


class Task(msgspec.Struct, frozen=True, gc=False):
    """A task as projected from its events.

    `epoch` is the fencing token, raised by every claim; `attempts` counts claims that were not released,
    `interruptions` those that ended with their process, since the last end of the task. `not_before` is when
    a retry may start, `run` the run that changed it last, `reused_from` the task whose result it took over.
    `lent` is what another task that reused the result adds to this one's id. Of a waiting task, `questions`
    are the keys of the open questions and `awaits` the ids of the tasks that it waits for. Of a job,
    `outcomes` are the values last reported of it, by name.
    """

    id: str
    kind: str
    cls: str
    state: State
    epoch: int = 0
    owner: str = ""
    attempts: int = 0
    interruptions: int = 0
    priority: int = 0
    not_before: float = 0.0
    reuse_key: str = ""
    scope: str = ""
    parent: str = ""
    needs: tuple[str, ...] = ()
    payload: str = ""
    run: str = ""
    reused_from: str = ""
    result: Result = NO_RESULT
    lent: str = ""
    questions: tuple[str, ...] = ()
    awaits: tuple[str, ...] = ()
    labels: dict[str, str] = {}
    outcomes: dict[str, OutcomeValue] = {}


class Run(msgspec.Struct, frozen=True):
    """A run as projected from its events.

    `next_seq` is the number of its next event. `owner` and `incarnation` identify the process that executes
    it. `planned`, `started` and `finished` are times; `counts`, `reason` and `spent` are those of its end.
    `reopened` says that work which it counted as done must be done again; `look` is the latest look of its
    stopping rule; `unsuccessful` are its trials that did not succeed, if they are few. `parallel` and
    `budget` are limits that were changed while it was under way (0 and empty: none was). `traffic` is how the
    jobs of a stream are drawn, if they are.
    """

    id: str
    manifest: str
    study: str
    trials: int
    status: Status
    planned: float
    next_seq: int = 1
    tags: tuple[str, ...] = ()
    provenance: str = ""
    resumes: str = ""
    owner: str = ""
    incarnation: int = 0
    started: float = 0.0
    finished: float = 0.0
    counts: dict[str, int] = {}
    reason: str = ""
    generation: int = 0
    spent: tuple[Spent, ...] = ()
    reopened: bool = False
    evaluation: str = ""
    look: Look | None = None
    name: str = ""
    unsuccessful: Unsuccessful | None = None
    parallel: int = 0
    budget: dict[str, float] = {}
    stream: str = ""
    traffic: Traffic | None = None


class Call(msgspec.Struct, frozen=True, gc=False):
    """A recorded step, a question to people, the state of a session, or a call of a model, as projected.

    States: `recorded` (a step); `kept` (a session, whose `value` is a `SessionRow`); `asked`, `closed` (a
    question, whose `value` is a `QuestionRow`); `intended`, `answered`, `lost` (not billed, or allowed to be
    sent again), `in_doubt`, `void` (a call). Tokens and cost are -1 where they are unknown; `run` is the last
    run that asked. In a shared store `owner` has sent it last, and no answer to that can come after `until`.
    """

    key: str
    task: str
    name: str
    state: str
    value: msgspec.Raw = NOTHING
    blob: str = ""
    model: str = ""
    request: str = ""
    sends: int = 0
    why: str = ""
    run: str = ""
    input: int = -1
    output: int = -1
    cost: float = -1.0
    served: str = ""
    batch: str = ""
    owner: str = ""
    until: float = 0.0

    @property
    def known(self) -> bool:
        """Whether anything is recorded of what its answer says of itself."""
        return self.input >= 0 or self.output >= 0 or self.cost >= 0 or bool(self.served)


ASKED, CLOSED = "asked", "closed"
"""The states of a question's row."""
QUESTION = "question"
"""The name of a question's row."""


class QuestionRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a question's row: what was asked, since when, and how it was closed.

    `question` is absent if it is in the blob of the row. `how` is `answered`, `expired`, `skipped` or `void`,
    "" while it is open; `by` and `id` say who closed it, with which command; `took` is how long a person
    looked at it, -1 if that is unknown.
    """

    since: float
    question: msgspec.Raw = NOTHING
    due: float = 0.0
    how: str = ""
    answer: msgspec.Raw = NOTHING
    by: str = ""
    at: float = 0.0
    id: str = ""
    took: float = -1.0


def question_row(call: Call) -> QuestionRow:
    """What the row of a question says."""
    return msgspec.json.decode(call.value, type=QuestionRow)


SESSION, KEPT = "session", "kept"
"""The name and the state of the row of a session's state."""


class SessionRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """The value of a session's row: the number of its version, and the state if it is not in the blob."""

    version: int
    value: msgspec.Raw = NOTHING


def session_row(call: Call) -> SessionRow:
    """What the row of a session says."""
    return msgspec.json.decode(call.value, type=SessionRow)


class RunQuery(msgspec.Struct, frozen=True):
    """Which runs to list, newest first.

    Frozen plans and deleted runs are listed only if their status, an id, a name or `after` is given: the id
    of a run, for those that began after it.
    """

    study: str = ""
    status: str = ""
    tag: str = ""
    since: float = 0.0
    until: float = 0.0
    prefix: str = ""
    limit: int = 50
    name: str = ""
    after: str = ""


class JobQuery(msgspec.Struct, frozen=True):
    """Which jobs to list (other tasks are not listed), newest first: of a class, and of a state if given.

    With `since`, those that were submitted at that time or later, as their label `at` says. With `oldest` the
    oldest come first; the first `skip` are left out. With `brief` only the id, the kind, the class, the
    state, the priority, the run and the labels of each are needed: the rest may be missing.
    """

    cls: str
    state: State | None = None
    limit: int = 50
    oldest: bool = False
    skip: int = 0
    brief: bool = False
    since: float = 0.0


CALL_STATES = ("answered", "in_doubt", "intended", "lost", "void")
"""The states of a model call; see `Call`."""


class CallQuery(msgspec.Struct, frozen=True):
    """Which model calls to list (steps are not calls): newest run first, latest call first.

    `run` is the id of the last run that asked, `task` and `prefix` are the first digits of the asking task's
    id and of the call's own key.
    """

    run: str = ""
    model: str = ""
    state: str = ""
    task: str = ""
    prefix: str = ""
    limit: int = 50


class CallTotals(msgspec.Struct, frozen=True):
    """Totals of calls: the number in each state, and the known tokens and cost.

    `unpriced` of the answers have no known cost; a voided answer was paid for, and counts.
    """

    states: dict[str, int] = {}
    input: int = 0
    output: int = 0
    cost: float = 0.0
    unpriced: int = 0
