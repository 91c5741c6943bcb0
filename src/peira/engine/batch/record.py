"""The record of a batch: its calls, how each ended, and callbacks to the code that waits for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

import msgspec

from peira.core.codec import decode
from peira.core.ids import compose
from peira.core.log.state import Call
from peira.core.models import Batches, NamedModel
from peira.engine import kinds
from peira.engine.calls.budget import Reservation
from peira.errors import CallFailed, Invalid

BATCH = kinds.BATCH
"""The kind and the class of a batch's task."""


class BatchedCall(msgspec.Struct, frozen=True):
    """A call in a batch: its task, request, size, place, send number, and its reservation.

    `request` is the digest of the request, `size` its size in bytes.
    """

    task: str
    request: str
    size: int
    place: str
    send: int = 1
    money: float = 0.0
    tokens: int = 0

    @property
    def share(self) -> Reservation:
        """The amount reserved for the call."""
        return Reservation(self.money, self.tokens)


class BatchRecord(msgspec.Struct, frozen=True):
    """The content of a batch, stored as the payload of its task."""

    model: str
    calls: dict[str, BatchedCall]


read_record = msgspec.json.Decoder(BatchRecord).decode
Ending = Reservation | CallFailed
"""What a call of a batch took, or why it was not answered."""
Endings = Mapping[str, Ending]


@dataclass
class ActiveBatch:
    """A batch under way in this process.

    `calls` are those that may still be answered; `lost` those among them that are recorded as lost already.
    `name` is the provider's id of the batch, "" while it is not known; `searched` counts searches for it.
    `tenths` is the progress last reported; `unseen`: its last look failed.
    """

    id: str
    named: NamedModel
    epoch: int
    calls: Mapping[str, BatchedCall]
    name: str = ""
    lost: frozenset[str] = frozenset()
    searched: int = 0
    tenths: int = 0
    unseen: bool = False


class BatchCallbacks(Protocol):
    """Callbacks about batched calls, to the code that reserves money and waits for them.

    Called on the ledger's loop.
    """

    def held(self, named: NamedModel, calls: Mapping[str, BatchedCall], counted: bool) -> None:
        """These calls of an earlier run are under way; `counted`: they are in what was spent before."""
        ...

    def ended(self, named: NamedModel, endings: Endings, busy: bool) -> None:
        """The calls of a batch ended like this; `busy`: the provider refused it because it is busy."""
        ...


class NoBatchCallbacks:
    """Callbacks that do nothing, where nobody waits for the calls."""

    def held(self, named: NamedModel, calls: Mapping[str, BatchedCall], counted: bool) -> None: ...

    def ended(self, named: NamedModel, endings: Endings, busy: bool) -> None: ...


def batches_of(named: NamedModel) -> Batches:
    """The batch endpoint of a model; Invalid if it has none."""
    found: Batches | None = getattr(named.model, "batches", None)
    if found is None:
        raise Invalid(f"{named.name} has no batch endpoint; run without --batch")
    return found


def step_key(batch: str) -> str:
    """The key of the step in which the provider's id of a batch is recorded."""
    return compose("step", batch, "handed in")


def name_in(step: Call | None) -> str:
    """The provider's id in that step; "" if there is none."""
    return str(decode(bytes(step.value))) if step else ""
