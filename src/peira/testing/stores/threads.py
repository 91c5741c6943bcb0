"""Many threads at once: nothing is lost, nothing is taken twice."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

from peira.core import events as ev
from peira.core.contracts import Op
from peira.core.events import State
from peira.core.ids import digest, digest_bytes
from peira.stores.verify import verify
from peira.testing.stores.acts import (
    AnyStore,
    accept,
    claimed,
    commit,
    find_task,
    finished,
    plan_run,
    queued,
    spec,
)

THREADS = 8


class Threads:
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
