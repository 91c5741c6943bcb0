"""The rows that events project (tasks, runs, calls, recorded steps), and the queries that list them.

Only `core.log.state` replaces rows.
"""

from __future__ import annotations

import msgspec

from peira.core.log.events import NOTHING, Result, Spent, State, Status, Unsuccessful
from peira.core.looks import Look

NO_RESULT = Result()


class Task(msgspec.Struct, frozen=True, gc=False):
    """A task as projected from its events.

    `epoch` is the fencing token, raised by every claim; `attempts` counts claims that were not released,
    `interruptions` those that ended with their process, since the last end of the task. `not_before` is when
    a retry may start, `run` the run that changed it last, `reused_from` the task whose result it took over.
    `lent` is what another task that reused the result adds to this one's id.
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


class Run(msgspec.Struct, frozen=True):
    """A run as projected from its events.

    `next_seq` is the number of its next event. `owner` and `incarnation` identify the process that executes
    it. `planned`, `started` and `finished` are times; `counts`, `reason` and `spent` are those of its end.
    `reopened` says that work which it counted as done must be done again; `look` is the latest look of its
    stopping rule; `unsuccessful` are its trials that did not succeed, if they are few.
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


class Call(msgspec.Struct, frozen=True, gc=False):
    """A recorded step, or a call of a model, as projected.

    States: `recorded` (a step); `intended`, `answered`, `lost` (not billed, or allowed to be sent again),
    `in_doubt`, `void` (a call). Tokens and cost are -1 where they are unknown; `run` is the last run that
    asked.
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

    @property
    def known(self) -> bool:
        """Whether anything is recorded of what its answer says of itself."""
        return self.input >= 0 or self.output >= 0 or self.cost >= 0 or bool(self.served)


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
