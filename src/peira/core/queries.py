"""What people ask of a store's catalogue: which runs, which calls, and what those come to."""

from __future__ import annotations

import msgspec


class RunQuery(msgspec.Struct, frozen=True):
    """Which runs to list; newest first. Frozen plans are listed where their status or an id is asked for."""

    study: str = ""
    status: str = ""
    tag: str = ""
    since: float = 0.0
    until: float = 0.0
    prefix: str = ""
    limit: int = 50


CALL_STATES = ("answered", "in_doubt", "intended", "lost", "void")
"""Where a call of a model may stand; see `core.state.Call`."""


class CallQuery(msgspec.Struct, frozen=True):
    """Which calls of models to list; steps are none. Those of the newest run first, last asked first.

    `run` is the id of the run that asked (last), `task` and `prefix` are the first digits of the asking
    task's id and of the call's own key."""

    run: str = ""
    model: str = ""
    state: str = ""
    task: str = ""
    prefix: str = ""
    limit: int = 50


class Tally(msgspec.Struct, frozen=True):
    """What calls come to: how many are in each state, and what is known of their tokens and cost.

    `unpriced` of the answers have no known cost; a voided answer was paid for, and counts."""

    states: dict[str, int] = {}
    input: int = 0
    output: int = 0
    cost: float = 0.0
    unpriced: int = 0
