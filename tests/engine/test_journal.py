"""The way into the store: in order, bounded, and what went wrong is told."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from itertools import count

import pytest

from peira.core.contracts import Op, Outcome
from peira.core.log.events import CommandTaken
from peira.engine.journal import GROUP, MOST_PENDING, Journal
from peira.errors import Fenced, StoreFault


class SlowStore:
    """Takes groups of ops and answers when it is told to: a disk whose speed is ours."""

    def __init__(self) -> None:
        self.groups: list[list[str]] = []
        self.pending: list[tuple[Future[list[Outcome]], int]] = []
        self.fault: BaseException | None = None
        self.at_once = False

    def commit(self, ops: Sequence[Op]) -> Future[list[Outcome]]:
        self.groups.append([op.run for op in ops])
        done: Future[list[Outcome]] = Future()
        self.pending.append((done, len(ops)))
        if self.at_once:
            self.answer()
        return done

    def answer(self) -> None:
        while self.pending:
            done, n = self.pending.pop(0)
            if self.fault:
                done.set_exception(self.fault)
            else:
                done.set_result([Fenced("no")] + [None] * (n - 1))


def op(name: object) -> Op:
    return Op(str(name), (CommandTaken("x", str(name)),))


@pytest.fixture
def store() -> SlowStore:
    return SlowStore()


@pytest.fixture
def journal(store: SlowStore) -> Journal:
    return Journal(store)  # type: ignore[arg-type]


def test_ops_are_gathered_until_there_are_enough(journal: Journal, store: SlowStore) -> None:
    for i in range(GROUP - 1):
        journal.add([op(i)])
    assert store.groups == []
    journal.add([op("last")])
    assert [len(group) for group in store.groups] == [GROUP]


def test_what_must_be_durable_takes_everything_earlier_along(journal: Journal, store: SlowStore) -> None:
    journal.add([op(1), op(2)])
    sent = journal.send([op(3)])
    journal.add([op(4)])
    journal.flush()
    assert store.groups == [["1", "2", "3"], ["4"]]
    assert not sent.done()
    store.answer()
    assert len(sent.result()) == 3


def test_write_says_what_became_of_its_own_ops(journal: Journal, store: SlowStore) -> None:
    store.at_once = True
    journal.add([op("refused")])
    assert journal.write([op(1), op(2)]) == [None, None]
    [refusal] = journal.write([op(3)])
    assert isinstance(refusal, Fenced)


def test_drain_waits_for_everything_added_before(journal: Journal, store: SlowStore) -> None:
    journal.add([op(1)])
    journal.flush()
    journal.add([op(2)])
    drained = threading.Event()
    thread = threading.Thread(target=lambda: (journal.drain(), drained.set()))
    thread.start()
    assert not drained.wait(0.05)
    store.answer()
    assert drained.wait(10)
    thread.join()
    assert store.groups == [["1"], ["2"]]


def test_drain_with_nothing_to_do_returns(journal: Journal) -> None:
    journal.drain()


def test_a_refused_op_is_no_fault_and_a_fault_is_told_to_whoever_comes_next(
    journal: Journal, store: SlowStore
) -> None:
    store.at_once = True
    journal.add([op(1)])
    journal.flush()
    journal.flush()
    store.fault = StoreFault("the disk is full")
    journal.add([op(2)])
    with pytest.raises(StoreFault, match="disk is full"):
        journal.flush()


def test_too_many_groups_on_their_way_make_the_next_caller_wait(journal: Journal, store: SlowStore) -> None:
    passed = threading.Event()

    def work() -> None:
        for i in range(MOST_PENDING + 1):
            journal.add([op(i)])
            journal.flush()
        passed.set()

    thread = threading.Thread(target=work)
    thread.start()
    assert not passed.wait(0.1)
    assert len(store.groups) <= MOST_PENDING + 1
    store.at_once = True
    while not passed.wait(0.01):
        store.answer()
    thread.join()


@pytest.fixture
def hasty() -> Iterator[None]:
    """Threads that change over as often as they can, so that races show."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


def test_many_threads_keep_their_own_order_and_lose_nothing(
    journal: Journal, store: SlowStore, hasty: None
) -> None:
    store.at_once = True
    problems: list[BaseException] = []
    numbers = count()

    def work(who: int) -> None:
        try:
            for i in range(300):
                journal.add([op(f"{who}:{i}")])
                if next(numbers) % 3 == 0:
                    journal.flush()
                if i % 50 == 0:
                    journal.drain()
        except BaseException as problem:
            problems.append(problem)

    threads = [threading.Thread(target=work, args=(who,)) for who in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.drain()
    assert problems == []
    written = [name for group in store.groups for name in group]
    assert len(written) == 6 * 300
    for who in range(6):
        assert [n for n in written if n.startswith(f"{who}:")] == [f"{who}:{i}" for i in range(300)]
