"""Claims: who may take which queued task."""

from __future__ import annotations

import time

from peira.core import events as ev
from peira.core.events import State, TaskSpec
from peira.core.ids import digest
from peira.stores.verify import verify
from peira.testing.stores.acts import (
    AnyStore,
    accept,
    claimed,
    find_task,
    finished,
    plan_run,
    queued,
    refuse,
    retried,
    spec,
)


def take(store: AnyStore, run: str, n: int = 100, classes: tuple[str, ...] = ("work",)) -> list[str]:
    return [task.id for task in store.claim(run, "me", classes, n)]


def ids(*names: str) -> list[str]:
    return [digest(name) for name in names]


class Claims:
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
