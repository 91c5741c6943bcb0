"""What is known of a batch: which calls it holds, whose they are, how each of them ended, and who is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import msgspec

from peira.core.codec import decode
from peira.core.events import State
from peira.core.ids import compose
from peira.core.models import Batches, CallFailed, Named
from peira.core.state import Call
from peira.engine import kinds
from peira.engine.budget import Share
from peira.errors import Invalid

BATCH = kinds.BATCH
"""The kind of task that a batch is, and its class."""


class Handed(msgspec.Struct, frozen=True):
    """A call in a batch: whose it is, which request, how large, where, the how-manieth send, and what was set
    aside for it."""

    task: str
    request: str
    size: int
    place: str
    send: int = 1
    money: float = 0.0
    tokens: int = 0

    @property
    def share(self) -> Share:
        return Share(self.money, self.tokens)


class Slip(msgspec.Struct, frozen=True):
    """What a batch holds, as its task keeps it."""

    model: str
    calls: dict[str, Handed]


read_slip = msgspec.json.Decoder(Slip).decode
Ending = Share | CallFailed
"""What a call of a batch took in the end, or why it brought no answer."""
Endings = Mapping[str, Ending]


@dataclass
class Opened:
    """A batch at hand. `calls` are those that may still be answered, `lost` those among them that are
    recorded without one; `name` is the provider's for it, "" while that is not known."""

    id: str
    named: Named
    epoch: int
    calls: Mapping[str, Handed]
    name: str = ""
    lost: frozenset[str] = frozenset()
    searched: int = 0
    tenths: int = 0
    unseen: bool = False


@dataclass(frozen=True)
class Told:
    """Who is told what: people; whoever sets money aside for calls and waits for them (`held` from an earlier
    run, and `ended`); whoever counts batches; whoever must stop everything."""

    say: Callable[[str], None] = lambda text: None
    held: Callable[[Named, Mapping[str, Handed], bool], None] = lambda named, calls, counted: None
    ended: Callable[[Named, Endings, bool], None] = lambda named, endings, busy: None
    counted: Callable[[State], None] = lambda state: None
    fail: Callable[[BaseException], None] = lambda problem: None


def batches_of(named: Named) -> Batches:
    """The batch endpoint of a model; Invalid if it has none."""
    found: Batches | None = getattr(named.model, "batches", None)
    if found is None:
        raise Invalid(f"{named.name} has no batch endpoint; run without --batch")
    return found


def step_key(batch: str) -> str:
    """Where a provider's name for a batch is recorded."""
    return compose("step", batch, "handed in")


def name_in(step: Call | None) -> str:
    return str(decode(bytes(step.value))) if step else ""
