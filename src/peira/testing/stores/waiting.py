"""Checks of tasks that wait: for people, for other tasks, paused, or being cancelled."""

from __future__ import annotations

import msgspec

from peira.core.ids import digest
from peira.core.log import events as ev
from peira.core.log.events import State, Status
from peira.core.log.rows import ASKED, CLOSED, question_row
from peira.stores.verify import verify
from peira.testing.stores.actions import (
    AnyStore,
    accept,
    claimed,
    find_call,
    find_run,
    find_task,
    finished,
    plan_run,
    queued,
    recorded,
    refuse,
    spec,
)


def asked(name: str, key: str, epoch: int = 1, due: float = 0.0) -> ev.QuestionAsked:
    """The event with which a task asks people."""
    question = msgspec.Raw(b'{"prompt":"Send this?"}')
    return ev.QuestionAsked(digest(name), epoch, digest(key), 1000.5, question, due=due)


def waits(name: str, *keys: str, awaits: tuple[str, ...] = (), epoch: int = 1) -> ev.TaskWaiting:
    """The event with which a task begins to wait."""
    return ev.TaskWaiting(digest(name), epoch, tuple(map(digest, keys)), tuple(map(digest, awaits)))


def answered(name: str, key: str, value: bytes = b'"send"', by: str = "ann") -> ev.QuestionAnswered:
    """The event that answers a question."""
    return ev.QuestionAnswered(digest(name), digest(key), msgspec.Raw(value), 1001.5, by, "command 1")


def closed(name: str, key: str, how: str = "skipped") -> ev.QuestionClosed:
    """The event that closes a question without an answer."""
    return ev.QuestionClosed(digest(name), digest(key), how, 1001.5, "ann")


class WaitChecks:
    """Checks of waiting, paused and cancelling tasks, and of the questions that they ask."""

    def test_a_task_that_asks_waits_and_no_attempt_is_counted(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"))
        accept(store, run, asked("a", "q"), waits("a", "q"))
        task = find_task(store, "a")
        assert (task.state, task.attempts, task.interruptions, task.epoch) == (State.waiting, 0, 0, 1)
        assert task.questions == (digest("q"),)
        assert (task.owner, store.active()) == ("", [])
        assert [one.id for one in store.waiting()] == [digest("a")]
        assert (call := find_call(store, "q")).state == ASKED
        assert question_row(call).since == 1000.5
        assert verify(store) == []

    def test_waiting_tasks_are_listed_oldest_first(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("c", "a", "b", "d"))
        for name in ("a", "c", "b"):
            accept(store, run, asked(name, f"q {name}"), waits(name, f"q {name}"))
        accept(store, run, answered("a", "q a"))
        assert [one.id for one in store.waiting()] == [digest("c"), digest("b")]

    def test_the_last_answer_queues_the_task_and_the_next_claim_clears_it(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"))
        accept(store, run, asked("a", "q"), asked("a", "r"), waits("a", "q", "r"))
        accept(store, run, answered("a", "r", b"[1]"))
        assert find_task(store, "a").state is State.waiting
        assert find_task(store, "a").questions == (digest("q"),)
        refuse(store, run, claimed("a", epoch=2))
        accept(store, run, closed("a", "q"))
        task = find_task(store, "a")
        assert (task.state, task.questions, store.waiting()) == (State.queued, (), [])
        row = question_row(find_call(store, "r"))
        assert (row.how, row.by, row.id, bytes(row.answer)) == ("answered", "ann", "command 1", b"[1]")
        assert bytes(row.question) == b'{"prompt":"Send this?"}'
        assert question_row(find_call(store, "q")).how == "skipped"
        accept(store, run, claimed("a", epoch=2))
        accept(store, run, finished("a", 2))
        assert (find_task(store, "a").attempts, find_task(store, "a").questions) == (1, ())
        assert verify(store) == []

    def test_the_first_answer_wins(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"))
        refuse(store, run, answered("a", "q"))
        accept(store, run, asked("a", "q"), waits("a", "q"))
        accept(store, run, answered("a", "q"))
        refuse(store, run, answered("a", "q", b'"drop"', "ben"))
        refuse(store, run, closed("a", "q", "expired"))
        assert find_call(store, "q").state == CLOSED
        accept(store, run, claimed("a", epoch=2))
        refuse(store, run, asked("a", "q", 2), waits("a", "q", epoch=2))

    def test_an_attempt_that_waits_holds_its_task_no_more(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a", "b"))
        refuse(store, run, waits("a"))
        refuse(store, run, asked("a", "q", 2), waits("a", "q", epoch=2))
        accept(store, run, asked("a", "q"), waits("a", "q"))
        refuse(store, run, recorded("a", "s"))
        refuse(store, run, ev.TasksReleased((digest("a"),), (1,)))
        refuse(store, run, ev.TasksInterrupted((digest("a"),)))
        refuse(store, run, waits("a", "q"))

    def test_a_void_question_may_be_asked_again_and_an_open_one_moves(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a", "b"))
        accept(store, run, asked("a", "q", due=5.0), waits("a", "q"))
        accept(store, run, asked("b", "q", due=9.0), waits("b", "q"))
        assert find_call(store, "q").task == digest("b")
        assert question_row(find_call(store, "q")).due == 5.0
        accept(store, run, finished("b", 1, State.cancelled), closed("b", "q", "void"))
        assert find_task(store, "b").state is State.cancelled
        assert find_task(store, "a").state is State.waiting
        accept(store, run, claimed("b", epoch=2))
        accept(store, run, asked("b", "q", 2, due=9.0), waits("b", "q", epoch=2))
        assert question_row(find_call(store, "q")).due == 9.0
        accept(store, run, answered("b", "q"))
        accept(store, run, ev.TasksWoken((digest("a"),)))
        assert (find_task(store, "a").state, find_task(store, "a").questions) == (State.queued, ())
        assert verify(store) == []

    def test_a_task_may_wait_for_tasks_until_it_is_woken(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("child")), claimed("parent"))
        accept(store, run, asked("parent", "q"), waits("parent", "q", awaits=("child",)))
        assert find_task(store, "parent").awaits == (digest("child"),)
        accept(store, run, answered("parent", "q"))
        assert find_task(store, "parent").state is State.waiting
        accept(store, run, claimed("child"))
        accept(store, run, finished("child"), ev.TasksWoken((digest("parent"),)))
        assert (find_task(store, "parent").state, find_task(store, "parent").awaits) == (State.queued, ())
        refuse(store, run, ev.TasksWoken((digest("parent"),)))
        assert verify(store) == []

    def test_a_later_run_goes_on_with_what_waits(self, store: AnyStore) -> None:
        run, later = plan_run(store), plan_run(store)
        accept(store, run, claimed("a", "b"))
        accept(store, run, asked("a", "q"), waits("a", "q"))
        refuse(store, later, ev.TasksAdopted((digest("a"), digest("b"))))
        accept(store, later, ev.TasksAdopted((digest("a"),)))
        task = find_task(store, "a")
        assert (task.run, task.state, task.epoch, task.attempts) == (later, State.waiting, 2, 0)
        assert store.changed_since(run) == [digest("a")]
        accept(store, later, answered("a", "q"))
        assert verify(store) == []

    def test_paused_tasks_are_not_claimed_and_wait_again_when_resumed(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("a")), claimed("b"))
        accept(store, run, asked("b", "q"), waits("b", "q"))
        accept(store, run, ev.TasksPaused((digest("a"), digest("b")), "ann"))
        refuse(store, run, ev.TasksPaused((digest("a"),)))
        assert find_task(store, "a").state is State.paused
        assert store.claim(run, "me", ["work"], 5) == []
        refuse(store, run, claimed("a"))
        accept(store, run, ev.TasksResumed((digest("a"), digest("b"))))
        assert find_task(store, "a").state is State.queued
        assert find_task(store, "b").state is State.waiting
        accept(store, run, ev.TasksPaused((digest("b"),)))
        accept(store, run, answered("b", "q"))
        assert find_task(store, "b").state is State.paused
        accept(store, run, ev.TasksResumed((digest("b"),)))
        assert [task.id for task in store.claim(run, "me", ["work"], 5)] == [digest("a"), digest("b")]
        assert verify(store) == []

    def test_a_task_that_is_being_cancelled_only_ends(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"), queued(spec("b")))
        accept(store, run, ev.TasksCancelling((digest("a"),), "ann"))
        refuse(store, run, ev.TasksCancelling((digest("b"),)))
        assert [task.state for task in store.active()] == [State.cancelling]
        refuse(store, run, asked("a", "q"), waits("a", "q"))
        accept(store, run, finished("a", 1, State.cancelled))
        assert find_task(store, "a").state is State.cancelled
        assert verify(store) == []

    def test_a_run_is_paused_resumed_adjusted_and_cancelled(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, ev.RunPaused("ann"))
        assert find_run(store, run).status is Status.paused
        accept(store, run, ev.RunResumed("ann"))
        accept(store, run, ev.RunAdjusted(8, {"money": 2.0}), ev.RunAdjusted(0, {"tokens": 5.0}))
        assert (found := find_run(store, run)).status is Status.running
        assert (found.parallel, found.budget) == (8, {"money": 2.0, "tokens": 5.0})
        accept(store, run, ev.RunCancelling("ann"))
        assert find_run(store, run).status is Status.cancelling
        refuse(store, run, ev.RunPaused("ann"))
        accept(store, run, ev.RunFinished(Status.cancelled))
        refuse(store, run, ev.RunResumed("ann"))
        assert verify(store) == []

    def test_a_run_that_waits_for_people_has_ended(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"))
        accept(store, run, asked("a", "q"), waits("a", "q"))
        accept(store, run, ev.RunFinished(Status.waiting))
        accept(store, run, answered("a", "q"))
        assert find_run(store, run).status is Status.waiting
        assert find_task(store, "a").state is State.queued
        assert verify(store) == []
