"""Stores that several processes write at the same time: the interface through which these share runs.

A process that opened such a store to share it is a *member*. It holds a lease on the clock of the store,
which it renews (`beat`); who lets it run out is dead: it may write no more, and others take over what it had.
The trials of a shared run are handed out as ranges of positions of the plan's run order, each leased to one
member until all that follows from its trials has ended, durably.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Protocol, runtime_checkable

import msgspec

from peira.core.contracts import OpenStore
from peira.core.log.events import Status


class LeasedRange(msgspec.Struct, frozen=True):
    """Positions of a plan's run order that are leased to this process; `lost` of its holders died before."""

    first: int
    size: int
    lost: int = 0


class Beat(msgspec.Struct, frozen=True):
    """What a member hears when it renews its lease: how the run stands, and who is gone.

    `version` changes with the run's own row; `stop` is why all are to stop ("" if they are not); `failures`
    are those that other members counted; `left` is the number of positions that were not handed out, `open`
    that of ranges that are not done; `members` work on the run; `gone` have ended or died, and what they had
    is not released yet.
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

    def beat(self, run: str, failures: int = 0) -> Beat:
        """Renew the lease; `failures` is the number that this process counted in the run."""
        ...

    def living(self) -> frozenset[str]:
        """The numbers of all living members, as the owners of tasks are named."""
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

    def take(self, run: str, size: int, members: int) -> LeasedRange | None:
        """Lease a range: one that became free, or the next positions, about `size`; None if there is none.

        Towards the end ranges are smaller, so that all `members` have something to do.
        """
        ...

    def done(self, run: str, leased: LeasedRange, counts: Mapping[str, int]) -> None:
        """All of a range has ended, durably; `counts` are its tasks by kind and state."""
        ...

    def free(self, run: str, leased: LeasedRange, counts: Mapping[str, int]) -> None:
        """Give a range back that is not done; `counts` are the tasks of it that have ended."""
        ...

    def stop(self, run: str, why: bytes) -> None:
        """Ask all members to stop working on a run; the first reason stays."""
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
