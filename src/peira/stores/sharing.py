"""Stores that several processes write at the same time: the interface through which these share runs.

A process that opened such a store to share it is a *member*. It holds a lease on the clock of the store,
which it renews (`beat`); who lets it run out is dead: it may write no more, and others take over what it had.
The trials of a shared run are handed out as ranges of positions of the plan's run order, each leased to one
member until all that follows from its trials has ended, durably.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Protocol, runtime_checkable

import msgspec

from peira.core.contracts import OpenStore
from peira.core.log.events import Status

STAGES = ("generate", "transform", "evaluate")
"""The classes of work: trials, answers, scores."""


class LeasedRange(msgspec.Struct, frozen=True):
    """Positions of a plan's run order that are leased to this process; `lost` of its holders died before."""

    first: int
    size: int
    lost: int = 0


class Heartbeat(msgspec.Struct, frozen=True):
    """The reply to the renewal of a lease: the state of the run, and which members have ended or died.

    `version` changes with the run's own row; `stop` is why all are to stop ("" if they are not); `failures`
    are those that other members counted; `left` is the number of positions that were not handed out, `open`
    that of ranges that are not done; `members` work on the run; `gone` have ended or died, and what they had
    is not released yet; `neighbours` are the numbers and processes of members on this machine that are not
    known to have ended.
    """

    status: Status
    version: int
    stop: bytes = b""
    failures: int = 0
    left: int = 0
    open: int = 0
    taken: int = 0
    members: int = 1
    gone: tuple[int, ...] = ()
    neighbours: tuple[tuple[int, int], ...] = ()


class PoolDraw(msgspec.Struct, frozen=True):
    """What a pool gave; if nothing, `left` is what is in it, and `hope` whether others may give any back."""

    given: float
    left: float = 0.0
    hope: bool = False


class PoolShare(msgspec.Struct, frozen=True):
    """The share that a dead member holds of a pool (`scope`: an account and a limit) of a run."""

    run: str
    scope: str
    member: int
    granted: float


class SharedRun(msgspec.Struct, frozen=True):
    """A run that is shared: `options` say how it is executed; `members` of it are alive.

    `stop` is why all were to stop, if they were.
    """

    run: str
    status: Status
    options: bytes
    members: int
    stop: bytes = b""


class Sharing(Protocol):
    """How the members of a store share runs; every method may be called from any thread.

    Methods raise `Fenced` once this process has lost its lease.
    """

    lease: float
    """Seconds after which a member that did not beat is dead."""

    def beat(self, run: str, failures: int = 0) -> Heartbeat:
        """Renew the lease; `failures` is the number that this process counted in the run."""
        ...

    def living(self) -> frozenset[str]:
        """The numbers of all living members, as the owners of tasks are named."""
        ...

    def may_write(self, owner: str) -> bool:
        """Whether a member may still record an answer: it is alive, or not known to have ended."""
        ...

    def now(self) -> float:
        """The time, by the clock of the store."""
        ...

    def ended(self, members: Collection[int]) -> None:
        """These members are known to have ended: nothing that they have sent is waited for."""
        ...

    def released(self, members: Collection[int]) -> None:
        """What these members had as tasks is queued again: their ranges are free from now on."""
        ...

    def share(self, run: str, trials: int, options: bytes) -> None:
        """Let members work on a run of so many trials; called before the run is recorded."""
        ...

    def runs(self) -> list[SharedRun]:
        """The shared runs that have not ended, oldest first."""
        ...

    def take(self, run: str, size: int, members: int, classes: Sequence[str] = STAGES) -> LeasedRange | None:
        """Lease a range: one that became free, or the next positions, about `size`; None if there is none.

        Towards the end ranges are smaller, so that all `members` have something to do. Who does only these
        `classes` of work gets ranges that have some.
        """
        ...

    def lost_range(self, run: str, known: Collection[int]) -> LeasedRange | None:
        """A range that is leased to this process, and not among those it knows, by their first positions:
        the answer that named it, or the mark that it was done, was lost with a connection or the server."""
        ...

    def may_take(self, run: str, classes: Sequence[str]) -> bool:
        """Whether there is, or may come, work of these classes that another member does not have."""
        ...

    def done(self, run: str, leased: LeasedRange, counts: Mapping[str, int]) -> None:
        """All of a range has ended, durably; `counts` are its tasks by kind and state."""
        ...

    def free(
        self, run: str, leased: LeasedRange, counts: Mapping[str, int], needs: Collection[str] = ()
    ) -> None:
        """Give a range back that is not done; `counts` are the tasks of it that have ended, and `needs` the
        classes of those that are left, if that is known."""
        ...

    def park(self, run: str, leased: LeasedRange, counts: Mapping[str, int]) -> None:
        """All that is left of a range waits for people: it does not keep the run open."""
        ...

    def resume(self, run: str) -> bool:
        """Hold the ranges again that this process has parked; False if the run is being closed."""
        ...

    def close_ranges(self, run: str, stopped: bool) -> bool:
        """Whether all of a run is done or waits: then nobody takes or resumes any range of it. If the run was
        `stopped`, what is not being done may be left."""
        ...

    def draw(self, run: str, scope: str, most: float, before: float, need: float) -> PoolDraw:
        """Take `need` from a pool of `most`, or more while there is much; nothing if that is not there.

        `before` was spent before the pool was made. A pool is made when it is first drawn on.
        """
        ...

    def settle(
        self, run: str, scope: str, share: float, used: float, settled: float, everything: bool = False
    ) -> float:
        """Say what is used of a share, and settled of that; the rest is given back if another process wants
        it, or with `everything`. Returns the share from now on."""
        ...

    def shares(self, members: Collection[int]) -> list[PoolShare]:
        """What these members hold of pools and have not given back."""
        ...

    def give_back(self, share: PoolShare, spent: float) -> None:
        """Return a dead member's share to its pool, except this much, which it spent at most."""
        ...

    def take_turns(self, model: str, interval: float, n: int) -> float:
        """Take `n` times to send to a model, each `interval` seconds after the other, which nobody else has;
        returns in how many seconds the first one is."""
        ...

    def use_tokens(self, model: str, more: float) -> float:
        """Add seconds of a model's rate of tokens to what all have used (less, if negative); returns in how
        many seconds all of that is over."""
        ...

    def hold_slots(self, model: str, most: int, using: int, wanted: int) -> int:
        """Hold up to `wanted` of the `most` calls of a model that all may have under way: a fair part, and no
        fewer than are `using`. Returns how many."""
        ...

    def close_model(self, model: str, seconds: float) -> None:
        """Nobody is to send to a model for so long."""
        ...

    def model_state(self, model: str) -> tuple[float, float]:
        """For how many seconds nobody is to send, and in how many all tokens that were used are over."""
        ...

    def stop(self, run: str, why: bytes) -> None:
        """Ask all members to stop working on a run; the first reason stays."""
        ...

    def close_plan(self, run: str) -> None:
        """Hand out no more of a run's plan; ranges that are not done stay to be done."""
        ...

    def hold(self, duty: str, seconds: float) -> bool:
        """Take or keep a duty that one member has at a time, for so many seconds; whether it is ours."""
        ...

    def counts(self, run: str) -> tuple[dict[str, int], dict[str, int]]:
        """The tasks that this run changed last, and the tasks of its ranges: both by kind and state."""
        ...


@runtime_checkable
class ListsSharedRuns(Protocol):
    """A store that runs may be shared in, opened in whatever way."""

    def shared_runs(self, run: str = "") -> list[SharedRun]:
        """The shared runs that have not ended, oldest first; or only this one, whether it has ended."""
        ...


@runtime_checkable
class SharedStore(OpenStore, ListsSharedRuns, Protocol):
    """A store that is open to be shared."""

    @property
    def sharing(self) -> Sharing:
        """How this process shares its runs."""
        ...


@runtime_checkable
class SharingScheme(Protocol):
    """A scheme whose stores can be shared by several processes."""

    def share(self, address: str, lease: float, wait: float | None, compression: str) -> SharedStore:
        """Open the store as one of its members; created if it does not exist.

        StoreInUse if a process owns it alone for longer than `wait` seconds (None: wait for ever).
        """
        ...

    def declare_gone(self, address: str, host: str, process: int) -> None:
        """The members of this process are known to have ended: nobody need wait for their leases."""
        ...

    def environment(self, address: str) -> Mapping[str, str]:
        """The environment variables with which other processes of this user can open it."""
        ...
