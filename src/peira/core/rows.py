"""The rows that events project: tasks, runs, calls and recorded steps. `core.state` alone replaces them."""

from __future__ import annotations

import msgspec

from peira.core.events import NOTHING, Result, Spent, State, Status
from peira.core.looks import Look

NO_RESULT = Result()


class Task(msgspec.Struct, frozen=True, gc=False):
    """A task as projected. `lent` is what another identity that took over the result adds to this one."""

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
    """A run as projected. `look` is what its stopping rule saw last."""

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


class Call(msgspec.Struct, frozen=True, gc=False):
    """A recorded step, or a call of a model, as projected.

    States: `recorded` (a step); `intended`, `answered`, `lost` (not billed, or free to be sent again),
    `in_doubt`, `void` (a call). Tokens and cost are -1 where they are not known; `run` asked last."""

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
