"""Checks of claims: which queued tasks may be claimed, also from many threads at once."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from peira.core.contracts import Op
from peira.core.ids import digest, digest_bytes
from peira.core.log import events as ev
from peira.core.log.events import State, TaskSpec
from peira.stores.verify import verify
from peira.testing.stores.actions import (
    AnyStore,
    accept,
    claimed,
    commit,
    find_task,
    finished,
    plan_run,
    queued,
    refuse,
    retried,
    spec,
)


def take(store: AnyStore, run: str, n: int = 100, classes: tuple[str, ...] = ("work",)) -> list[str]:
    """Claim up to n tasks; their ids."""
    return [task.id for task in store.claim(run, "me", classes, n)]


def ids(*names: str) -> list[str]:
    """The ids of the tasks of these names."""
    return [digest(name) for name in names]


class ClaimChecks:
    """Checks of the order and the conditions of claims."""

    def test_a_claim_begins_an_attempt(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("a")))
        [task] = store.claim(run, "me", ["work"], 1)
        assert (task.id, task.state, task.epoch, task.attempts, task.owner) == (
            digest("a"),
            State.running,
            1,
            1,
            "me",
        )
        assert task == find_task(store, "a")
        assert store.claim(run, "you", ["work"], 1) == []
        accept(store, run, finished("a"))
        assert verify(store) == []

    def test_what_is_queued_is_listed_by_class_oldest_first(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("c", priority=2), spec("a"), spec("other", cls="else")))
        accept(store, run, queued(spec("b", payload="slip", needs=(digest("a"),))))
        assert [task.id for task in store.queued("work")] == ids("c", "a", "b")
        assert store.queued("work")[2] == find_task(store, "b")
        assert [task.id for task in store.queued("else")] == ids("other")
        accept(store, run, claimed("a", "c"), finished("a"), retried("c", not_before=9e9))
        assert sorted(task.id for task in store.queued("work")) == sorted(ids("c", "b"))
        accept(store, run, claimed("b"), ev.TasksInterrupted(tuple(ids("b"))))
        assert {task.id: task.interruptions for task in store.queued("work")} == dict(
            zip(ids("c", "b"), (0, 1), strict=True)
        )
        assert store.queued("nothing") == []

    def test_the_highest_priority_goes_first_and_then_the_oldest(self, store: AnyStore) -> None:
        run = plan_run(store)
        order: list[TaskSpec] = [
            spec(name, priority=p) for name, p in {"a": 0, "b": 2, "c": -1, "d": 2, "e": 0}.items()
        ]
        accept(store, run, queued(*order))
        assert take(store, run, 3) == ids("b", "d", "a")
        assert take(store, run) == ids("e", "c")

    def test_no_more_than_asked_for_and_only_of_these_classes(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(*(spec(f"{cls}{i}", cls=cls) for i in range(3) for cls in ("x", "y", "z"))))
        assert take(store, run, 0, ("x", "y")) == []
        assert take(store, run, 100, ()) == []
        assert take(store, run, 2, ("x",)) == ids("x0", "x1")
        assert take(store, run, 100, ("x", "z")) == ids("z0", "z1", "x2", "z2")
        assert take(store, run, 100, ("nobody's",)) == []

    def test_a_task_waits_until_its_time_has_come(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("past"), spec("future")), claimed("past", "future"))
        accept(store, run, retried("past", not_before=time.time() - 1))
        accept(store, run, retried("future", not_before=time.time() + 3600))
        assert take(store, run) == ids("past")

    def test_a_task_waits_until_its_needs_have_succeeded(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("both", needs=(digest("a"), digest("b")), priority=9)))
        accept(store, run, queued(spec("never", needs=(digest("unknown"),), priority=9)))
        accept(store, run, queued(spec("a"), spec("b"), spec("free")))
        assert take(store, run, 2) == ids("a", "b")
        accept(store, run, finished("a"))
        assert take(store, run, 1) == ids("free")
        accept(store, run, finished("b", state=State.failed))
        assert take(store, run) == []
        accept(store, plan_run(store), claimed("b", epoch=2), finished("b", epoch=2))
        assert take(store, run) == ids("both")
        assert verify(store) == []

    def test_each_claim_raises_the_epoch(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("a")))
        for epoch in (1, 2, 3):
            [task] = store.claim(run, "me", ["work"], 1)
            assert task.epoch == epoch
            accept(store, run, ev.TasksInterrupted((digest("a"),)))
        refuse(store, run, finished("a", epoch=3))

    def test_a_claim_belongs_to_the_run_that_made_it(self, store: AnyStore) -> None:
        first, second = plan_run(store), plan_run(store)
        accept(store, first, queued(spec("a")))
        assert take(store, second) == ids("a")
        assert find_task(store, "a").run == second

    def test_a_run_that_was_never_planned_takes_nothing(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("a")))
        assert store.claim("f" * 64, "me", ["work"], 1) == []
        assert find_task(store, "a").state is State.queued


THREADS = 8


class ThreadChecks:
    """Checks of commits, claims and reads from many threads at once."""

    def test_one_of_many_equal_claims_wins(self, store: AnyStore) -> None:
        run, start = plan_run(store), Barrier(THREADS)

        def work(_: int) -> list[bool]:
            start.wait()
            return [commit(store, run, claimed(f"t{i}")) is None for i in range(20)]

        with ThreadPoolExecutor(THREADS) as pool:
            won = list(pool.map(work, range(THREADS)))
        assert [sum(column) for column in zip(*won, strict=True)] == [1] * 20
        assert all(find_task(store, f"t{i}").attempts == 1 for i in range(20))
        assert verify(store) == []

    def test_no_task_is_handed_out_twice(self, store: AnyStore) -> None:
        run, start = plan_run(store), Barrier(THREADS)
        accept(store, run, queued(*(spec(f"t{i}") for i in range(100))))

        def work(me: int) -> list[str]:
            start.wait()
            mine: list[str] = []
            while taken := store.claim(run, str(me), ["work"], 3):
                mine += [task.id for task in taken]
                ends = [Op(run, (ev.TaskFinished(task.id, task.epoch, State.succeeded),)) for task in taken]
                assert store.commit(ends).result() == [None] * len(taken)
            return mine

        with ThreadPoolExecutor(THREADS) as pool:
            taken = [task for mine in pool.map(work, range(THREADS)) for task in mine]
        assert sorted(taken) == sorted(digest(f"t{i}") for i in range(100))
        assert verify(store) == []

    def test_no_event_is_lost(self, store: AnyStore) -> None:
        runs, start = [plan_run(store) for _ in range(2)], Barrier(THREADS)

        def work(me: int) -> None:
            start.wait()
            pending = []
            for i in range(50):
                name = f"{me} {i}"
                pending.append(store.commit([Op(runs[me % 2], (claimed(name), finished(name)))]))
            assert all(future.result() == [None] for future in pending)

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))
        for run in runs:
            seen = [record.seq for record in store.events(run)]
            assert seen == list(range(1, 2 + THREADS * 50 + 1))
        assert verify(store) == []

    def test_what_was_acknowledged_is_seen_at_once_by_everybody(self, store: AnyStore) -> None:
        run = plan_run(store)

        def work(me: int) -> None:
            for i in range(30):
                name = f"{me} {i}"
                accept(store, run, claimed(name), finished(name))
                assert find_task(store, name).state is State.succeeded

        with ThreadPoolExecutor(THREADS) as pool:
            list(pool.map(work, range(THREADS)))

    def test_the_same_bytes_may_be_put_by_many(self, store: AnyStore) -> None:
        start = Barrier(THREADS)
        data = [bytes([i]) * size for i in range(6) for size in (100, 100_000)]

        def work(_: int) -> list[str]:
            start.wait()
            return [store.put(one) for one in data]

        with ThreadPoolExecutor(THREADS) as pool:
            kept = list(pool.map(work, range(THREADS)))
        assert kept == [[digest_bytes(one) for one in data]] * THREADS
        assert [wrong for _, _, wrong in store.blobs() if wrong] == []
