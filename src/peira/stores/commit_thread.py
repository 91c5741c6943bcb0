"""Group commit: a thread that turns whatever is queued into one durable commit.

Callers are acknowledged after the commit and not before; there is no added delay. If a commit fails for good,
everything from then on is refused.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress

import msgspec

from peira.core.contracts import Op, Outcome
from peira.core.failpoints import reach
from peira.core.log.events import TasksClaimed
from peira.core.log.state import Task
from peira.errors import StoreFault

MOST_OPS = 2048
"""Ops in one commit."""


class WriteRequest(msgspec.Struct, frozen=True):
    """Ops to commit, or (with `choose`) ops to be chosen on the writer's own thread."""

    ops: Sequence[Op]
    choose: Callable[[], Sequence[Op]] | None = None
    done: Future[list[Outcome]] = msgspec.field(default_factory=Future)


class CommitThread:
    """The queue of a store's writes and the thread that commits them; a store implements `_commit`."""

    def __init__(self) -> None:
        self._queue: queue.SimpleQueue[WriteRequest | None] = queue.SimpleQueue()
        self._fault: StoreFault | None = None
        self._closed = False
        self._gate = threading.Lock()
        self._thread = threading.Thread(target=self._serve, name="peira-writer", daemon=True)
        self._thread.start()

    def _commit(self, batch: list[WriteRequest]) -> None:
        """Commit the batch and acknowledge its requests; what it raises ends the thread.

        A request that chooses its ops is the last of its batch.
        """
        raise NotImplementedError

    def submit(self, request: WriteRequest) -> Future[list[Outcome]]:
        """Queue a request; StoreFault if the store is closed, or has failed."""
        with self._gate:
            if self._fault or self._closed:
                raise self._fault or StoreFault("the store is closed")
            self._queue.put(request)
        return request.done

    def submit_again(self, request: WriteRequest) -> bool:
        """Queue a request of the thread itself; False once the store is being closed."""
        with self._gate:
            if not self._closed:
                self._queue.put(request)
            return not self._closed

    def waiting(self) -> list[WriteRequest]:
        """What is queued and in no batch yet; for the thread itself, which alone takes from the queue."""
        with self._gate:
            found = [self._queue.get() for _ in range(self._queue.qsize())]
            for request in found:
                self._queue.put(request)
        return [request for request in found if request is not None]

    def close(self) -> None:
        """Commit what is queued and end the thread."""
        with self._gate:
            self._closed = True
            self._queue.put(None)
        self._thread.join()

    def _serve(self) -> None:
        for batch in self._batches():
            try:
                self._commit(batch)
            except Exception as problem:  # whatever it was, nobody may be left waiting
                self._fail(batch, problem)
                return

    def _batches(self) -> Iterator[list[WriteRequest]]:
        """What is queued right now, up to MOST_OPS; a choosing request closes its batch."""
        while (request := self._queue.get()) is not None:
            batch, size = [request], len(request.ops)
            while size < MOST_OPS and batch[-1].choose is None and not self._queue.empty():
                following = self._queue.get()
                if following is None:
                    yield batch
                    return
                batch.append(following)
                size += len(following.ops)
            yield batch

    def _fail(self, batch: list[WriteRequest], problem: Exception) -> None:
        fault = StoreFault(f"the store cannot be written ({problem}); what was acknowledged is kept")
        with self._gate:
            self._fault = fault
            while not self._queue.empty():
                if (request := self._queue.get()) is not None:
                    batch.append(request)
        for request in batch:
            with suppress(InvalidStateError):  # it was acknowledged
                request.done.set_exception(fault)


def acknowledge(
    batch: Sequence[WriteRequest], groups: Iterable[Sequence[Op]], outcomes: Sequence[Outcome]
) -> None:
    """Give each request the outcomes of its group of ops."""
    start = 0
    for request, group in zip(batch, groups, strict=True):
        request.done.set_result(list(outcomes[start : start + len(group)]))
        start += len(group)
    reach("store.after_acknowledge")


def claims(run: str, owner: str, tasks: Iterable[Task]) -> list[Op]:
    """The claims of these tasks, one op each."""
    return [Op(run, (TasksClaimed(t.kind, t.cls, owner, (t.id,), (t.epoch + 1,)),)) for t in tasks]


def claimed(ops: Sequence[Op]) -> Iterator[str]:
    """The tasks that claiming ops take."""
    for op in ops:
        for event in op.events:
            if isinstance(event, TasksClaimed):
                yield from event.tasks
