"""Checks of commits: atomic, in order, fenced by epochs."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from peira.core.contracts import Op
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.core.log.events import AnyEvent, Result, State, Status
from peira.errors import Fenced, Unwritable
from peira.stores.verify import verify
from peira.testing.stores.actions import (
    CLS,
    KIND,
    AnyStore,
    accept,
    claimed,
    everything,
    find_call,
    find_run,
    find_task,
    finished,
    plan_only,
    plan_run,
    queued,
    recorded,
    refuse,
    retried,
    spec,
)


class CommitChecks:
    """Checks of which events are accepted, and of what they change."""

    def test_what_was_accepted_is_applied_and_in_the_log(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"))
        accept(store, run, finished("a", value='{"x":1}'))
        task = find_task(store, "a")
        assert (task.state, task.epoch, task.attempts, task.run) == (State.succeeded, 1, 1, run)
        assert task.result == Result(0.5, msgspec.Raw(b'{"x":1}'))
        assert [record.event for record in store.events(run)][2:] == [
            claimed("a"),
            finished("a", value='{"x":1}'),
        ]
        assert verify(store) == []

    def test_events_of_one_op_become_true_together(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, queued(spec("a")), claimed("a"), recorded("a", "s"), finished("a"))
        assert find_task(store, "a").state is State.succeeded
        assert find_call(store, "s").value == msgspec.Raw(b"[1,2]")
        assert verify(store) == []

    def test_nothing_to_commit_is_no_error(self, store: AnyStore) -> None:
        assert store.commit([]).result() == []

    @pytest.mark.parametrize(
        "event",
        [
            claimed("a"),
            claimed("new", epoch=2),
            queued(spec("new"), spec("a")),
            finished("a", epoch=2),
            finished("nobody"),
            retried("a", epoch=0),
            recorded("nobody", "s"),
            ev.TasksReleased((digest("a"), digest("nobody"))),
            ev.TasksInterrupted((digest("done"),)),
            ev.TaskReused(digest("new"), digest("a"), KIND, CLS, "x"),
            ev.Observed(digest("a"), 7, "late"),
            ev.Reported(digest("done"), 1, {"x": 1.0}),
        ],
        ids=lambda event: type(event).__name__,
    )
    def test_a_refused_event_changes_nothing(self, store: AnyStore, event: AnyEvent) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a", "done"), finished("done"))
        refuse(store, run, event)
        accept(store, run, finished("a"))
        assert verify(store) == []

    def test_an_op_refused_at_its_last_event_changes_nothing(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"))
        refuse(
            store,
            run,
            queued(spec("b")),
            claimed("b"),
            recorded("a", "s"),
            finished("a"),
            finished("b", epoch=2),
        )
        assert store.find("call", [digest("s")]) == {}
        accept(store, run, queued(spec("b")), claimed("b"), recorded("a", "s"), finished("a"), finished("b"))
        assert verify(store) == []

    def test_what_could_not_be_read_again_is_refused(self, store: AnyStore) -> None:
        """One op alone: those beside it are kept."""
        run = plan_run(store)
        odd: Any = {"metrics": {"n": "many"}, "about": {"model": 7}}
        ops = [
            Op(run, (claimed("a"),)),
            Op(run, (ev.Reported(digest("a"), 1, **odd),)),
            Op(run, (claimed("b"), ev.StepRecorded(digest("b"), 1, digest("s"), "s", msgspec.Raw(b"{")))),
        ]
        outcomes = store.commit([*ops, Op(run, (finished("a"),))]).result()
        assert [type(outcome) for outcome in outcomes] == [type(None), Unwritable, Unwritable, type(None)]
        assert [type(record.event).__name__ for record in store.events(run)][-2:] == [
            "TasksClaimed",
            "TaskFinished",
        ]
        assert verify(store) == []

    def test_ops_are_judged_one_by_one_in_their_order(self, store: AnyStore) -> None:
        run = plan_run(store)
        ops = [
            Op(run, (claimed("a"),)),
            Op(run, (claimed("a"),)),
            Op(run, (finished("a", state=State.failed),)),
            Op("f" * 64, (claimed("b"),)),
            Op(run, (claimed("a", epoch=2),)),
            Op(run, (finished("a", state=State.failed),)),
        ]
        outcomes = store.commit(ops).result()
        assert [type(outcome) for outcome in outcomes] == [
            type(None),
            Fenced,
            type(None),
            Fenced,
            type(None),
            Fenced,
        ]
        assert [record.seq for record in store.events(run)] == [1, 2, 3, 4, 5]
        assert find_task(store, "a").state is State.running
        assert verify(store) == []

    def test_a_commit_may_be_large(self, store: AnyStore) -> None:
        run = plan_run(store)
        names = [f"t{i}" for i in range(1500)]
        ops = [Op(run, (claimed(name), finished(name))) for name in names]
        assert store.commit(ops).result() == [None] * 1500
        assert len(store.find("task", [digest(name) for name in names])) == 1500
        assert verify(store) == []

    def test_commits_keep_the_order_in_which_they_were_queued(self, store: AnyStore) -> None:
        run = plan_run(store)
        pending = [store.commit([Op(run, (ev.CommandTaken("note", str(i)),))]) for i in range(200)]
        assert all(future.result() == [None] for future in pending)
        commands = [r.event for r in store.events(run) if isinstance(r.event, ev.CommandTaken)]
        assert [command.id for command in commands] == [str(i) for i in range(200)]

    def test_numbers_are_dense_in_each_run(self, store: AnyStore) -> None:
        runs = [plan_run(store) for _ in range(3)]
        for i in range(30):
            accept(store, runs[i % 3], ev.CommandTaken("note", str(i)))
        for run in runs:
            assert [record.seq for record in store.events(run)] == list(range(1, 13))
            assert find_run(store, run).next_seq == 13

    def test_a_run_is_planned_once_and_before_anything_else(self, store: AnyStore) -> None:
        refuse(store, "f" * 64, ev.RunStarted("owner", 1))
        run = plan_run(store)
        refuse(store, run, ev.RunPlanned("m", "study", 1))
        refuse(store, run, ev.RunStarted("owner", 2))

    def test_a_run_ends_once(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"), finished("a"))
        counts = {"planned": 1, "work.succeeded": 1}
        accept(store, run, ev.RunFinished(Status.completed, counts, "because"))
        found = find_run(store, run)
        assert (found.status, found.counts, found.reason) == (Status.completed, counts, "because")
        assert found.finished >= found.started >= found.planned > 0
        refuse(store, run, ev.RunFinished(Status.cancelled))
        refuse(store, run, ev.RunInterrupted(2))
        assert verify(store) == []

    def test_a_run_whose_owner_died_is_interrupted(self, store: AnyStore) -> None:
        run, unstarted = plan_run(store), plan_only(store)
        accept(store, run, ev.RunInterrupted(2))
        accept(store, unstarted, ev.RunInterrupted(2))
        assert {find_run(store, r).status for r in (run, unstarted)} == {Status.interrupted}

    def test_an_attempt_that_lost_its_epoch_is_refused(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"), ev.TasksInterrupted((digest("a"),)), claimed("a", epoch=2))
        for late in (finished("a"), retried("a"), recorded("a", "s"), ev.Observed(digest("a"), 1, "late")):
            refuse(store, run, late)
        accept(store, run, recorded("a", "s", epoch=2), finished("a", epoch=2))
        refuse(store, run, finished("a", epoch=2))
        assert verify(store) == []

    def test_an_interruption_is_counted_and_a_release_is_not_an_attempt(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"), ev.TasksReleased((digest("a"),)))
        assert (find_task(store, "a").attempts, find_task(store, "a").interruptions) == (0, 0)
        accept(store, run, claimed("a", epoch=2), ev.TasksInterrupted((digest("a"),)))
        accept(store, run, claimed("a", epoch=3), ev.TasksInterrupted((digest("a"),)))
        assert (find_task(store, "a").attempts, find_task(store, "a").interruptions) == (2, 2)
        accept(store, run, claimed("a", epoch=4), finished("a", epoch=4))
        assert (find_task(store, "a").attempts, find_task(store, "a").interruptions) == (3, 0)
        assert verify(store) == []

    def test_a_retry_keeps_why_and_when(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"), retried("a", not_before=12.5))
        task = find_task(store, "a")
        assert (task.state, task.not_before, task.owner) == (State.queued, 12.5, "")
        assert task.result.failure == ev.Failure("ValueError", "no")
        assert verify(store) == []

    def test_a_failed_task_may_be_tried_by_another_run(self, store: AnyStore) -> None:
        first, second = plan_run(store), plan_run(store)
        accept(store, first, claimed("a"), finished("a", state=State.failed))
        accept(store, second, claimed("a", epoch=2), finished("a", epoch=2))
        assert (find_task(store, "a").state, find_task(store, "a").run) == (State.succeeded, second)
        assert verify(store) == []

    def test_a_result_may_be_taken_over(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"), finished("a", value="42"))
        accept(store, run, ev.TaskReused(digest("b"), digest("a"), KIND, CLS, "style"))
        task = find_task(store, "b")
        assert (task.state, task.reused_from) == (State.succeeded, digest("a"))
        assert task.result == find_task(store, "a").result
        assert verify(store) == []

    def test_a_step_is_recorded_once(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("a"), recorded("a", "s"))
        before = everything(store)
        refuse(store, run, recorded("a", "s"))
        assert everything(store) == before
        assert find_call(store, "s").task == digest("a")

    def test_every_field_of_a_task_is_kept(self, store: AnyStore) -> None:
        run = plan_run(store)
        full = spec(
            "a",
            reuse_key="key",
            scope="scope",
            parent=digest("p"),
            priority=3,
            needs=(digest("b"), digest("c")),
            payload=store.put(b"17"),
        )
        accept(store, run, queued(full))
        task = find_task(store, "a")
        assert {f: getattr(task, f) for f in full.__struct_fields__} == msgspec.structs.asdict(full)
        result = Result(
            took=1.25,
            output=msgspec.Raw(b'"\xc3\xa9"'),
            metrics={"tokens": 3.0},
            artifacts=(ev.Artifact("a.txt", store.put(b"text"), 4, "text/plain"),),
            about={"model": "m"},
            unseen="u",
        )
        accept(store, run, claimed("a"), ev.TaskFinished(digest("a"), 1, State.succeeded, result))
        assert find_task(store, "a").result == result
        assert verify(store) == []
