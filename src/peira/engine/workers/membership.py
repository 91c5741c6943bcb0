"""This process as a member of a shared store: it renews its lease, hears what is wanted of the run, and
releases what members had that are gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from peira.core.codec import encode
from peira.core.log.events import Spent, Status
from peira.core.log.state import UNDER_WAY
from peira.core.looks import Look
from peira.engine.control import StopRequest
from peira.engine.execution import Execution
from peira.engine.recovery import release_gone
from peira.engine.run_start import spent_by_owner
from peira.errors import Fenced, StoreFault
from peira.stores.sharing import Heartbeat, SharedStore, Sharing

BEAT = 1.0
"""Seconds between two renewals of the lease; a request to stop or to pause is heard within this time."""


def _interval(sharing: Sharing) -> float:
    """Seconds between two renewals: several within a short lease."""
    return min(BEAT, sharing.lease / 4)


@contextmanager
def renewed(sharing: Sharing) -> Iterator[None]:
    """Renew the lease of this process within the block, in which it works on no run yet."""
    ending = threading.Event()

    def serve() -> None:
        with suppress(Fenced, StoreFault):  # whatever the process does next will find that out, too
            sharing.beat("")
            while not ending.wait(_interval(sharing)):
                sharing.beat("")

    thread = threading.Thread(target=serve, name="peira-lease", daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()


def has_ended(process: int) -> bool:
    """Whether a process of this machine has ended; one that nobody has waited for yet has, too."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] in ("Z", "X")
    except FileNotFoundError:
        return Path("/proc/self/stat").exists()
    except (OSError, IndexError):
        return False


def reclaim_shares(store: SharedStore, gone: Collection[int]) -> None:
    """Return to the budget's pools what members that are gone held and cannot have spent."""
    spent: dict[tuple[str, int], list[Spent]] = {}
    for share in store.sharing.shares(gone):
        place = share.run, share.member
        if place not in spent:
            spent[place] = spent_by_owner(store, share.run, str(share.member))
        account, _, limit = share.scope.rpartition(".")
        store.sharing.give_back(share, min(share.granted, _spent_of(spent[place], account, limit)))


def _spent_of(spent: Sequence[Spent], account: str, limit: str) -> float:
    """What these bills take from a limit of an account, at most."""
    model = account.removeprefix("budget.per_model.") if account != "budget" else ""
    ours = [one for one in spent if model in ("", one.model)]
    if limit == "money":
        return sum(one.most_money for one in ours)
    return float(sum(one.most_tokens if limit == "tokens" else one.sends for one in ours))


class StopNotice(msgspec.Struct, frozen=True, omit_defaults=True):
    """Why all members are to stop; with `starved` only no more trials begin."""

    status: Status
    reason: str
    now: bool = False
    exit_code: int = 1
    starved: bool = False

    @staticmethod
    def of(execution: Execution) -> StopNotice | None:
        """What an execution has to tell the others; None if it goes on, or only this process leaves."""
        starved = execution.state.stop is None
        stop = execution.state.starved if starved else execution.state.stop
        if stop is None or stop.status is Status.interrupted:
            return None
        return StopNotice(stop.status, stop.reason, stop.now, stop.exit_code, starved)

    def apply(self, execution: Execution) -> None:
        """Let an execution of another process stop, too."""
        if self.starved:
            execution.starve(self.reason)
        else:
            execution.request(StopRequest(self.status, self.reason, self.now, self.exit_code))


read_notice = msgspec.json.Decoder(StopNotice).decode


class Membership:
    """The lease of this process while it works on a run, renewed by a thread of its own ("peira-lease")."""

    def __init__(
        self,
        store: SharedStore,
        execution: Execution,
        on_lost: Callable[[BaseException], None],
        on_look: Callable[[Look], None],
    ) -> None:
        """`on_look` is called with the last answer of the run's stopping rule."""
        self._store, self._execution = store, execution
        self._on_lost, self._on_look = on_lost, on_look
        self._ending, self._beating = threading.Event(), threading.Lock()
        self._published: StopNotice | None = None
        self._limits: tuple[int, dict[str, float]] = (0, {})
        self.last = self._beat()
        """How the run stood when the lease was last renewed."""
        self._thread = threading.Thread(target=self._serve, name="peira-lease", daemon=True)

    def start(self) -> None:
        """Begin to renew the lease."""
        self._adjust()
        self._thread.start()

    def close(self) -> None:
        """Renew it no more."""
        self._ending.set()
        self._thread.join()

    def _serve(self) -> None:
        try:
            while not self._ending.wait(_interval(self._store.sharing)):
                self.beat()
        except BaseException as problem:
            self._on_lost(problem)

    def _beat(self) -> Heartbeat:
        sharing, execution = self._store.sharing, self._execution
        return sharing.beat(execution.run, execution.tally.failures)

    def beat(self) -> Heartbeat:
        """Renew the lease, and do what is wanted; returns how the run stands."""
        with self._beating:
            before, beat = self.last, self._beat()
            self.last = beat
            self._obey(beat, before)
        return beat

    def _obey(self, beat: Heartbeat, before: Heartbeat) -> None:
        execution = self._execution
        if beat.stop and beat.stop != before.stop:
            read_notice(beat.stop).apply(execution)
        execution.note_failures_elsewhere(beat.failures)
        if execution.state.paused != (beat.status is Status.paused) and beat.status in UNDER_WAY:
            execution.pause(beat.status is Status.paused)
        if beat.version != before.version:
            self._adjust()
        if execution.waiting:
            execution.look_at_waits()
        execution.share_limits()
        ended = [number for number, process in beat.neighbours if has_ended(process)]
        if ended:
            self._store.sharing.ended(ended)
        if gone := {*beat.gone, *ended}:
            reclaim_shares(self._store, gone)
            release_gone(self._store, gone)

    def _adjust(self) -> None:
        """Take over limits of the run that were raised, and what its stopping rule has said."""
        run = self._store.find("run", [self._execution.run])[self._execution.run]
        if run.look is not None:
            self._on_look(run.look)
        limits = run.parallel, run.budget
        if limits != self._limits:
            parallel = run.parallel if run.parallel != self._limits[0] else 0
            self._limits = limits
            self._execution.adjust(parallel, run.budget)

    def publish(self) -> None:
        """Tell the other members if this process was asked to stop the run, or has reached a limit of it."""
        notice = StopNotice.of(self._execution)
        if notice is not None and notice != self._published:
            self._published = notice
            self._store.sharing.stop(self._execution.run, encode(notice))
