"""The fold: whatever events come, in whatever order, it takes each whole or refuses it whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.codec import decode_event, encode
from peira.core.contracts import Op
from peira.core.log import events as ev
from peira.core.log.events import TERMINAL, AnyEvent, Record, Result, State, Status, TaskSpec
from peira.core.log.state import apply, replace, touched
from peira.errors import Fenced
from peira.stores.fold import RowView, fold

RUNS, TASKS, KEYS = ("r", "q"), ("a", "b", "c"), ("k", "l")

run = st.sampled_from(RUNS)
task = st.sampled_from(TASKS)
some_tasks = st.lists(task, min_size=1, max_size=3, unique=True).map(tuple)
epoch = st.integers(0, 3)
result = st.sampled_from([Result(), Result(0.5, msgspec.Raw(b"1")), Result(failure=ev.Failure("E", "no"))])


def claims(tasks: tuple[str, ...]) -> st.SearchStrategy[AnyEvent]:
    epochs = st.tuples(*[st.integers(1, 3) for _ in tasks])
    return st.builds(
        ev.TasksClaimed, st.just("k"), st.just("x"), st.sampled_from(["o", "p"]), st.just(tasks), epochs
    )


def specs(tasks: tuple[str, ...]) -> AnyEvent:
    return ev.TasksQueued(tuple(TaskSpec(name, "k", "x", needs=("c",)) for name in tasks))


claim = some_tasks.flatmap(claims)
finish = st.builds(ev.TaskFinished, task, epoch, st.sampled_from(sorted(TERMINAL)), result)
events = st.one_of(
    claim,
    claim,  # most things happen to a task under way
    claim,
    finish,
    finish,
    some_tasks.map(specs),
    st.builds(ev.TasksReleased, some_tasks),
    st.builds(ev.TasksInterrupted, some_tasks),
    st.builds(ev.TaskRetried, task, epoch, result, st.just(9.0)),
    st.builds(ev.TaskReused, task, task, st.just("k"), st.just("x"), st.just("factor")),
    st.builds(
        ev.StepRecorded, task, epoch, st.sampled_from(KEYS), st.just("step"), st.just(msgspec.Raw(b"1"))
    ),
    st.builds(ev.Observed, task, epoch, st.just("note")),
    st.builds(ev.Attached, task, epoch, st.just(ev.Artifact("f", "d", 1))),
    st.builds(ev.Reported, task, epoch, st.just({"m": 1.0})),
    st.just(ev.RunPlanned("manifest", "study", 3)),
    st.just(ev.RunStarted("o", 1)),
    st.builds(ev.RunFinished, st.sampled_from([Status.completed, Status.cancelled])),
    st.just(ev.RunInterrupted(2)),
    st.just(ev.CommandTaken("cancel", "1")),
)
# How far an event's epoch is from the one that would fit.
offset = st.sampled_from([0, 0, 0, 0, 0, -1, 1])
told = st.lists(st.tuples(run, events, offset), max_size=25)
OPENED = [(name, ev.RunPlanned("manifest", "study", 3), 0) for name in RUNS]
Told = list[tuple[str, AnyEvent, int]]


def copy(view: RowView) -> RowView:
    return RowView(dict(view.tasks), dict(view.calls), dict(view.runs))


class Story:
    """Records as they would be numbered, folded into a view; what is refused leaves no trace."""

    def __init__(self) -> None:
        self.view = RowView()
        self.accepted: list[Record] = []

    def record(self, run: str, event: AnyEvent) -> Record:
        known = self.view.runs.get(run)
        return Record(run, known.next_seq if known else 1, float(len(self.accepted)), event)

    def fitting(self, told: Told) -> Iterator[tuple[str, AnyEvent]]:
        """The same events, at the epochs that their tasks are at by then (or one beside)."""
        for run, event, offset in told:
            if isinstance(event, ev.TasksClaimed):
                epochs = tuple(self.epoch(name) + 1 for name in event.tasks)
                yield run, replace(event, epochs=(epochs[0] + offset, *epochs[1:]))
            elif hasattr(event, "epoch"):
                yield run, replace(event, epoch=self.epoch(event.task) + offset)
            else:
                yield run, event

    def epoch(self, name: str) -> int:
        return self.view.tasks[name].epoch if name in self.view.tasks else 0

    def tell(self, run: str, event: AnyEvent) -> bool:
        record = self.record(run, event)
        try:
            apply(self.view, record)
        except Fenced:
            return False
        self.accepted.append(record)
        return True


@given(told)
def test_a_refused_event_changes_nothing(told: Told) -> None:
    story = Story()
    for run, event in story.fitting([*OPENED, *told]):
        before = copy(story.view)
        if not story.tell(run, event):
            assert story.view == before


@given(told)
def test_an_accepted_event_changes_only_what_it_is_said_to_touch(told: Told) -> None:
    story = Story()
    for run, event in story.fitting([*OPENED, *told]):
        before = copy(story.view)
        if story.tell(run, event):
            after = story.view
            changed = {name for name in after.tasks if after.tasks[name] != before.tasks.get(name)}
            assert changed <= set(touched(event))
            if isinstance(event, ev.TasksQueued | ev.TasksClaimed | ev.TasksReleased | ev.TasksInterrupted):
                assert changed == set(touched(event))
            assert {name for name in after.runs if after.runs[name] != before.runs.get(name)} == {run}
            assert before.tasks.keys() <= after.tasks.keys()
            calls = {key for key in after.calls if after.calls[key] != before.calls.get(key)}
            assert calls == ({event.key} if isinstance(event, ev.StepRecorded) else set())


@given(told)
def test_the_rows_it_touches_are_all_an_event_needs(told: Told) -> None:
    """A store reads only these: with them alone, an event is accepted or refused just the same."""
    story = Story()
    for run, event in story.fitting([*OPENED, *told]):
        whole = story.view
        part = RowView(
            {name: whole.tasks[name] for name in touched(event) if name in whole.tasks},
            {event.key: whole.calls[event.key]}
            if isinstance(event, ev.StepRecorded) and event.key in whole.calls
            else {},
            {run: whole.runs[run]} if run in whole.runs else {},
        )
        record = story.record(run, event)
        try:
            apply(part, record)
            accepted = True
        except Fenced:
            accepted = False
        assert story.tell(run, event) == accepted
        assert all(whole.tasks[name] == row for name, row in part.tasks.items())


@given(told)
def test_epochs_only_rise_and_each_attempt_ends_once(told: Told) -> None:
    story = Story()
    ends: set[tuple[str, int]] = set()
    for run, event in story.fitting([*OPENED, *told]):
        before = copy(story.view)
        if not story.tell(run, event):
            continue
        for name, row in before.tasks.items():
            now = story.view.tasks[name]
            assert now.epoch - row.epoch in (0, 1)
            assert (now.epoch > row.epoch) == (isinstance(event, ev.TasksClaimed) and name in event.tasks)
            assert now.attempts >= 0
        if isinstance(event, ev.TaskFinished | ev.TaskRetried):
            assert (event.task, event.epoch) not in ends
            ends.add((event.task, event.epoch))
        for row in story.view.tasks.values():
            assert bool(row.owner) == (row.state is State.running) or row.reused_from
            assert row.attempts <= row.epoch


@given(told)
def test_each_run_ends_once_and_is_numbered_without_gaps(told: Told) -> None:
    story = Story()
    for run, event in story.fitting([*OPENED, *told]):
        story.tell(run, event)
    for run in RUNS:
        own = [record for record in story.accepted if record.run == run]
        assert [record.seq for record in own] == list(range(1, len(own) + 1))
        assert story.view.runs[run].next_seq == len(own) + 1
        assert sum(isinstance(record.event, ev.RunFinished) for record in own) <= 1
        assert sum(isinstance(record.event, ev.RunPlanned) for record in own) == 1


ops = st.lists(
    st.tuples(run, st.lists(events, min_size=1, max_size=4)).map(lambda op: Op(op[0], tuple(op[1]))),
    max_size=10,
)


@given(ops, st.booleans())
def test_ops_are_all_or_nothing_and_replaying_what_was_accepted_gives_the_same_rows(
    ops: list[Op], together: bool
) -> None:
    opening = [Op(name, (event,)) for name, event, _ in OPENED]
    view, kept = RowView(), []
    for group in [[*opening, *ops]] if together else [[op] for op in [*opening, *ops]]:
        records, _, outcomes = fold(view, group, 5.0)
        accepted = [op for op, refusal in zip(group, outcomes, strict=True) if refusal is None]
        assert [r.event for r in records] == [event for op in accepted for event in op.events]
        kept += records
    replayed = RowView()
    for record in kept:
        apply(replayed, record)
    assert replayed == view


@given(events)
def test_an_event_survives_being_written(event: AnyEvent) -> None:
    assert encode(decode_event(encode(event))) == encode(event)


def under_way(epoch: int = 1, **changes: Any) -> Story:
    """Task a is at its n-th attempt."""
    story = Story()
    assert story.tell("r", ev.RunPlanned("m", "s", 1))
    for n in range(1, epoch + 1):
        assert story.tell("r", ev.TasksClaimed("k", "x", "o", ("a",), (n,)))
        if n < epoch:
            assert story.tell("r", ev.TasksInterrupted(("a",)))
    return story


@pytest.mark.parametrize(
    "event",
    [
        ev.TaskFinished("a", 1, State.succeeded),
        ev.TaskRetried("a", 1, Result()),
        ev.StepRecorded("a", 1, "k", "step", msgspec.Raw(b"1")),
        ev.Observed("a", 1, "late"),
        ev.Attached("a", 1, ev.Artifact("f", "d", 1)),
        ev.Reported("a", 1, {"m": 1.0}),
    ],
    ids=lambda event: type(event).__name__,
)
def test_an_attempt_that_lost_its_task_is_fenced(event: AnyEvent) -> None:
    assert not under_way(epoch=2).tell("r", event)
    ended = under_way(epoch=1)
    assert ended.tell("r", ev.TaskFinished("a", 1, State.failed))
    assert not ended.tell("r", event)


def test_one_bad_task_refuses_a_whole_claim() -> None:
    story = under_way()
    before = copy(story.view)
    assert not story.tell("r", ev.TasksClaimed("k", "x", "o", ("b", "a"), (1, 1)))
    assert story.view == before


def test_a_given_back_claim_is_no_attempt_and_an_interrupted_one_is_counted() -> None:
    story = under_way()
    story.tell("r", ev.TasksReleased(("a",)))
    assert (story.view.tasks["a"].attempts, story.view.tasks["a"].interruptions) == (0, 0)
    story.tell("r", ev.TasksClaimed("k", "x", "o", ("a",), (2,)))
    story.tell("r", ev.TasksInterrupted(("a",)))
    assert (story.view.tasks["a"].attempts, story.view.tasks["a"].interruptions) == (1, 1)
    story.tell("r", ev.TasksClaimed("k", "x", "o", ("a",), (3,)))
    story.tell("r", ev.TaskFinished("a", 3, State.succeeded))
    assert story.view.tasks["a"].interruptions == 0


def test_a_result_is_taken_over_from_a_success_only_and_its_row_is_named() -> None:
    story = under_way()
    reuse = ev.TaskReused("b", "a", "k", "x", "factor")
    assert set(touched(reuse)) == {"a", "b"}
    assert not story.tell("r", reuse)
    assert story.tell("r", ev.TaskFinished("a", 1, State.succeeded, Result(output=msgspec.Raw(b"7"))))
    assert story.tell("r", reuse)
    taken = story.view.tasks["b"]
    assert (taken.state, bytes(taken.result.output), taken.reused_from) == (State.succeeded, b"7", "a")
    assert not story.tell("r", reuse)


def test_a_step_is_recorded_once() -> None:
    story = under_way()
    first = ev.StepRecorded("a", 1, "k", "step", msgspec.Raw(b"1"))
    assert story.tell("r", first)
    assert not story.tell("r", replace(first, value=msgspec.Raw(b"2")))
    assert bytes(story.view.calls["k"].value) == b"1"


def test_a_claim_is_for_the_next_epoch_only() -> None:
    story = under_way()
    assert story.tell("r", ev.TaskFinished("a", 1, State.failed))
    for epoch in (0, 1, 3):
        assert not story.tell("r", ev.TasksClaimed("k", "x", "o", ("a",), (epoch,)))
    assert story.tell("r", ev.TasksClaimed("k", "x", "o", ("a",), (2,)))


def test_nothing_happens_in_a_run_that_was_never_planned() -> None:
    assert not Story().tell("r", ev.TasksClaimed("k", "x", "o", ("a",)))


def test_old_events_decode_without_the_fields_that_came_later() -> None:
    old = b'{"kind":"task.finished","task":"a","epoch":1,"state":"succeeded"}'
    assert decode_event(old) == ev.TaskFinished("a", 1, State.succeeded)
    assert decode_event(b'{"kind":"run.planned","manifest":"m","study":"s","trials":1}').version == 1  # type: ignore[union-attr]
