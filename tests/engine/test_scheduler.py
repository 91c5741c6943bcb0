"""The scheduler against a simple model of it: whatever is done, in whatever order, both say the same."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from itertools import count, product

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from peira.core.contracts import Offer
from peira.core.log.events import TERMINAL, State, TaskSpec
from peira.engine.scheduler import Scheduler, TaskEntry

NAMES = tuple("abcdefgh")
CLASSES = ("x", "y")
SUSPECT = 2
QUESTIONS = ("q", "r")
KEYS = (*NAMES[:4], *QUESTIONS)
"""What a task may wait for: tasks and questions."""


def entry(
    name: str,
    needs: tuple[str, ...] = (),
    *,
    cls: str = "x",
    priority: int = 0,
    interruptions: int = 0,
    not_before: float = 0.0,
) -> TaskEntry:
    spec = TaskSpec(name, "work", cls, priority=priority, needs=needs)
    return TaskEntry(Offer(spec, None), interruptions=interruptions, not_before=not_before)


def names(entries: list[TaskEntry]) -> list[str]:
    return [entry.spec.id for entry in entries]


@dataclass
class Known:
    """A task at hand as the model sees it: held by needs, later, asleep, waiting, ready, or started."""

    name: str
    cls: str
    priority: int
    suspect: bool
    missing: set[str] = field(default_factory=set)
    at: str = "ready"
    since: int = 0
    not_before: float = 0.0
    sharers: int = 0
    woken: bool = False
    awaits: set[str] = field(default_factory=set)


class Model:
    """What the scheduler promises, found by looking at everything each time."""

    def __init__(self) -> None:
        self.tasks: dict[str, Known] = {}
        self.ended: dict[str, State] = {}
        self.blocked: list[str] = []
        self.arrived: list[str] = []
        self.now = 0.0
        self._order = count()

    def of(self, at: str) -> list[Known]:
        return sorted((t for t in self.tasks.values() if t.at == at), key=lambda t: t.since)

    def place(self, task: Known) -> None:
        if task.missing:
            task.at = "held"
        elif task.awaits:
            task.at = "waiting"
        elif task.not_before == math.inf:
            task.at = "asleep"
        else:
            task.at = "later" if task.not_before else "ready"
        task.since = next(self._order)

    def offer(self, task: Known, needs: tuple[str, ...]) -> bool:
        if (same := self.tasks.get(task.name)) is not None:
            same.sharers += 1
            return False
        self.ended.pop(task.name, None)
        self.tasks[task.name] = task
        if task.awaits:  # it began before: its needs were met
            self.place(task)
        elif any(self.ended.get(need, State.succeeded) is not State.succeeded for need in needs):
            self.end(task.name, State.blocked)
        else:
            task.missing = set(needs) - self.ended.keys()
            self.place(task)
        return True

    def end(self, name: str, state: State) -> None:
        if state is State.blocked:
            self.blocked.append(name)
        self.tasks.pop(name, None)
        self.ended[name] = state
        for task in [t for t in self.of("held") if name in t.missing]:
            if state is not State.succeeded:
                if task.name in self.tasks:
                    self.end(task.name, State.blocked)
            else:
                task.missing.discard(name)
                if not task.missing:
                    self.place(task)
        self.arrive(name)

    def arrive(self, key: str) -> None:
        for task in [t for t in self.of("waiting") if key in t.awaits]:
            task.awaits.discard(key)
            if not task.awaits:
                self.arrived.append(task.name)
                self.place(task)

    def ripen(self) -> float | None:
        due = sorted(self.of("later"), key=lambda t: t.not_before)
        for task in due:
            if task.not_before <= self.now:
                task.not_before = 0.0
                self.place(task)
        return min((t.not_before for t in self.of("later")), default=None)

    def next(self, cls: str) -> list[str]:
        """What may start in this class, in order."""
        started = self.of("started")
        ready = self.of("ready")
        if suspects := [t for t in ready if t.suspect]:
            return [t.name for t in suspects[:1] if t.cls == cls and not started]
        if any(t.suspect for t in started):
            return []
        return [t.name for t in sorted(ready, key=lambda t: -t.priority) if t.cls == cls]


class SchedulerMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.scheduler = Scheduler(SUSPECT)
        self.model = Model()
        self.suspects: set[str] = set()

    @rule(
        name=st.sampled_from(NAMES),
        cls=st.sampled_from(CLASSES),
        needs=st.one_of(st.just(()), st.lists(st.sampled_from(NAMES), max_size=3, unique=True).map(tuple)),
        priority=st.sampled_from([0, 0, 0, 2, 1, -1]),
        interruptions=st.sampled_from([0, 0, 0, 1, 2, 3]),
        wait=st.sampled_from([0, 0, 0, 1, 2, math.inf]),
        awaits=st.one_of(st.just(set()), st.sets(st.sampled_from(KEYS), max_size=2)),
    )
    def offer(
        self,
        name: str,
        cls: str,
        needs: tuple[str, ...],
        priority: int,
        interruptions: int,
        wait: float,
        awaits: set[str],
    ) -> None:
        if name in self.suspects:
            interruptions = SUSPECT  # what was suspect once is so whenever it is offered
        elif interruptions >= SUSPECT and name not in self.model.tasks:
            self.suspects.add(name)
        not_before = self.model.now + wait if wait else 0.0
        ended = {need: state for need, state in self.model.ended.items() if need in needs and need != name}
        if name not in self.model.tasks:
            self.model.ended.pop(name, None)
        offered = entry(
            name, needs, cls=cls, priority=priority, interruptions=interruptions, not_before=not_before
        )
        if awaits:
            not_before = 0.0
        offered.awaits, offered.not_before = frozenset(awaits), not_before
        known = Known(
            name, cls, priority, interruptions >= SUSPECT, not_before=not_before, awaits=set(awaits)
        )
        assert self.scheduler.offer(offered, ended) is self.model.offer(known, needs)

    @rule(cls=st.sampled_from(CLASSES), n=st.integers(0, 3))
    def start(self, cls: str, n: int) -> None:
        may = self.model.next(cls)
        assert self.scheduler.ready(cls) == len(may)
        before = set(self.scheduler.started)
        took = names(self.scheduler.start(cls, max(n, 1)))
        assert took == may[: max(n, 1)]
        assert not before & set(took)
        for name in took:
            self.model.tasks[name].at, self.model.tasks[name].woken = "started", False

    def _started(self, data: st.DataObject) -> str:
        return data.draw(st.sampled_from([t.name for t in self.model.of("started")]))

    some_started = precondition(lambda self: self.model.of("started"))

    @some_started
    @rule(data=st.data())
    def give_back(self, data: st.DataObject) -> None:
        name = self._started(data)
        self.scheduler.again(name)
        self.model.place(self.model.tasks[name])

    @some_started
    @rule(data=st.data(), wait=st.sampled_from([0, 1, 3]))
    def again(self, data: st.DataObject, wait: int) -> None:
        name = self._started(data)
        not_before = self.model.now + wait if wait else 0.0
        self.scheduler.again(name, not_before)
        self.model.tasks[name].not_before = not_before
        self.model.place(self.model.tasks[name])

    @some_started
    @rule(data=st.data())
    def sleep(self, data: st.DataObject) -> None:
        task = self.model.tasks[self._started(data)]
        self.scheduler.again(task.name, math.inf)
        task.at, task.not_before = "asleep", 0.0
        if task.woken:  # somebody was faster
            self.model.place(task)

    @rule(some=st.lists(st.sampled_from(NAMES), max_size=4))
    def wake(self, some: list[str]) -> None:
        self.scheduler.wake(some)
        for task in [self.model.tasks[name] for name in some if name in self.model.tasks]:
            task.woken = task.at == "started"
            if task.at == "held" and task.not_before == math.inf:
                task.not_before = 0.0
            if task.at == "asleep":
                task.not_before = 0.0
                self.model.place(task)

    @some_started
    @rule(data=st.data(), keys=st.sets(st.sampled_from(KEYS), max_size=3))
    def wait(self, data: st.DataObject, keys: set[str]) -> None:
        """A started task waits for questions and tasks, also for itself or for none."""
        task = self.model.tasks[self._started(data)]
        self.scheduler.wait(task.name, keys)
        task.awaits, task.not_before = set(keys), 0.0
        self.model.place(task)

    @rule(keys=st.lists(st.sampled_from(QUESTIONS), max_size=2))
    def arrive(self, keys: list[str]) -> None:
        self.scheduler.arrive(keys)
        for key in keys:
            self.model.arrive(key)

    @rule(some=st.sets(st.sampled_from(NAMES), max_size=3))
    def remove(self, some: set[str]) -> None:
        """Cancel what has not started, wherever it is."""
        gone = {n for n in some if n in self.model.tasks and self.model.tasks[n].at != "started"}
        assert {entry.spec.id for entry in self.scheduler.remove(some)} == gone
        for name in gone:
            del self.model.tasks[name]
        for name in sorted(gone):
            self.scheduler.settle(name, State.cancelled)
            self.model.end(name, State.cancelled)

    @some_started
    @rule(data=st.data(), state=st.sampled_from([State.succeeded, State.succeeded, *sorted(TERMINAL)]))
    def end(self, data: st.DataObject, state: State) -> None:
        name = self._started(data)
        self.scheduler.end(name, state)
        self.model.end(name, state)
        if state is State.blocked:  # it said so itself: only what needed it is blocked by the scheduler
            self.model.blocked.remove(name)

    @rule(name=st.sampled_from(NAMES), state=st.sampled_from([State.succeeded, State.failed]))
    def end_elsewhere(self, name: str, state: State) -> None:
        """A task that was never at hand turns out to be over."""
        if name not in self.model.tasks:
            self.scheduler.settle(name, state)
            self.model.end(name, state)

    @rule(seconds=st.sampled_from([0, 1, 5]))
    def ripen(self, seconds: int) -> None:
        self.model.now += seconds
        assert self.scheduler.ripen(self.model.now) == self.model.ripen()

    @precondition(lambda self: self.scheduler.stuck)
    @rule()
    def give_up_waiting(self) -> None:
        self.scheduler.give_up_waiting()
        for task in self.model.of("held"):
            if task.name in self.model.tasks:
                self.model.end(task.name, State.blocked)
        assert self.scheduler.idle

    @invariant()
    def agrees(self) -> None:
        scheduler, model = self.scheduler, self.model
        assert set(scheduler.started) == {t.name for t in model.of("started")}
        assert len(scheduler) == len(model.tasks)
        assert scheduler.idle == (not model.tasks)
        held = model.of("held")
        assert scheduler.stuck == (bool(held) and len(held) == len(model.tasks))
        assert [scheduler.ready(cls) for cls in CLASSES] == [len(model.next(cls)) for cls in CLASSES]
        plain = [t for t in model.of("ready") if not t.suspect]
        for cls, least in product(CLASSES, (-1, 0, 1, 2)):
            found = sum(t.cls == cls and t.priority >= least for t in plain)
            assert scheduler.ready_from(cls, least) == found
        asleep, busy = len(model.of("asleep")), model.of("started") + model.of("ready")
        assert (scheduler.asleep, scheduler.resting) == (asleep, asleep > 0 and not busy)
        waiting = [t.name for t in model.of("waiting")]
        assert (len(scheduler.waiting), scheduler.waiting_of("work")) == (
            len(waiting),
            sum(1 + t.sharers for t in model.of("waiting")),
        )
        assert all(scheduler.awaits(name) == (name in waiting) for name in NAMES)
        assert scheduler.only_waiting == (bool(waiting) and len(waiting) + len(held) == len(model.tasks))
        assert sorted(names(scheduler.arrived)) == sorted(model.arrived)
        scheduler.arrived.clear()
        model.arrived.clear()
        assert sorted(names(scheduler.blocked)) == sorted(model.blocked)
        assert {n: len(e.others) for n, e in scheduler.started.items()} == {
            t.name: t.sharers for t in model.of("started")
        }
        scheduler.blocked.clear()
        model.blocked.clear()

    def teardown(self) -> None:
        """Whatever has happened, all of it can be brought to an end."""
        for _ in range(100):
            self.scheduler.ripen(1e9)
            self.scheduler.wake(NAMES)
            self.scheduler.arrive(KEYS)
            for cls in CLASSES:
                for taken in self.scheduler.start(cls, 10):
                    self.scheduler.end(taken.spec.id, State.succeeded)
            for name in list(self.scheduler.started):
                self.scheduler.end(name, State.succeeded)
            if self.scheduler.stuck:
                self.scheduler.give_up_waiting()
            if self.scheduler.idle:
                return
        raise AssertionError("tasks are left that nothing will ever start")


SchedulerMachine.TestCase.settings = settings(max_examples=150, stateful_step_count=40, deadline=None)
TestScheduler = SchedulerMachine.TestCase


def scheduled(*entries: TaskEntry) -> Scheduler:
    scheduler = Scheduler(SUSPECT)
    for one in entries:
        scheduler.offer(one)
    return scheduler


def test_a_failure_blocks_what_needs_it_directly_and_by_another() -> None:
    """b needs a; c needs both a and b: found twice, blocked once."""
    scheduler = scheduled(entry("a"), entry("b", ("a",)), entry("c", ("a", "b")))
    scheduler.start("x", 1)
    scheduler.end("a", State.failed)
    assert sorted(names(scheduler.blocked)) == ["b", "c"]
    assert scheduler.idle


def test_who_is_woken_on_the_way_to_bed_does_not_sleep() -> None:
    scheduler = scheduled(entry("a"), entry("b"))
    scheduler.start("x", 2)
    scheduler.wake(["a"])
    scheduler.again("a", math.inf)
    scheduler.again("b", math.inf)
    assert (names(scheduler.start("x", 2)), scheduler.asleep) == (["a"], 1)
    scheduler.again("a", math.inf)  # that was for the time before
    assert scheduler.start("x", 2) == []
    scheduler.wake(["a", "b", "a"])
    assert sorted(names(scheduler.start("x", 5))) == ["a", "b"]


def test_who_is_woken_while_held_behind_another_does_not_sleep() -> None:
    scheduler = scheduled(entry("a"), entry("b", ("a",), not_before=math.inf))
    scheduler.wake(["b"])
    scheduler.start("x", 1)
    scheduler.end("a", State.succeeded)
    assert (names(scheduler.start("x", 1)), scheduler.asleep) == (["b"], 0)


def test_a_task_waits_for_all_of_what_it_waits_for_whatever_its_end() -> None:
    scheduler = scheduled(entry("a"), entry("b"))
    scheduler.start("x", 2)
    scheduler.wait("a", ["b", "question"], tasks=True)
    scheduler.arrive(["question"])
    assert (scheduler.awaits("a"), scheduler.start("x", 2)) == (True, [])
    scheduler.end("b", State.failed)
    assert (names(scheduler.arrived), names(scheduler.start("x", 2))) == (["a"], ["a"])


def test_when_nothing_new_is_begun_those_that_have_slept_go_on() -> None:
    scheduler = scheduled(entry("a"), entry("b"), entry("c"))
    scheduler.start("x", 2)
    scheduler.again("a", math.inf)
    scheduler.again("b", math.inf)
    scheduler.wake(["a"])
    scheduler.drop("work")
    assert (len(scheduler), scheduler.asleep) == (2, 1)
    assert names(scheduler.start("x", 5)) == ["a"]


def test_a_suspect_waits_out_its_back_off() -> None:
    scheduler = scheduled(entry("a", interruptions=2), entry("b"))
    assert names(scheduler.start("x", 2)) == ["a"]
    scheduler.again("a", 10.0)
    assert names(scheduler.start("x", 2)) == ["b"]
    scheduler.end("b", State.succeeded)
    assert scheduler.start("x", 2) == []
    assert scheduler.ripen(10.0) is None
    assert names(scheduler.start("x", 2)) == ["a"]


def test_a_suspect_runs_alone() -> None:
    scheduler = scheduled(entry("a"), entry("b", cls="y"))
    assert names(scheduler.start("x", 5)) == ["a"]
    scheduler.offer(entry("s", interruptions=2))
    assert scheduler.start("y", 5) == []  # nothing joins what must end before the suspect can start
    assert scheduler.start("x", 5) == []
    scheduler.end("a", State.succeeded)
    assert names(scheduler.start("x", 5)) == ["s"]
    assert scheduler.start("y", 5) == []
    scheduler.end("s", State.succeeded)
    assert names(scheduler.start("y", 5)) == ["b"]


def test_priority_comes_before_arrival_and_classes_do_not_meet() -> None:
    scheduler = scheduled(
        entry("plain"),
        entry("low", priority=-1),
        entry("other", cls="y", priority=9),
        entry("high", priority=2),
        entry("higher", priority=3),
        entry("high too", priority=2),
        entry("plain too"),
    )
    assert names(scheduler.start("x", 9)) == ["higher", "high", "high too", "plain", "plain too", "low"]
    assert names(scheduler.start("y", 9)) == ["other"]


def test_tasks_that_need_each_other_are_stuck_and_then_blocked() -> None:
    scheduler = scheduled(entry("a", ("b",)), entry("b", ("a",)), entry("c", ("c",)))
    assert scheduler.stuck
    scheduler.give_up_waiting()
    assert sorted(names(scheduler.blocked)) == ["a", "b", "c"]
    assert scheduler.idle


def test_a_long_chain_is_blocked_whole() -> None:
    length = 5000
    scheduler = scheduled(entry("0"), *(entry(str(i), (str(i - 1),)) for i in range(1, length)))
    scheduler.start("x", 1)
    scheduler.end("0", State.cancelled)
    assert len(scheduler.blocked) == length - 1


@pytest.mark.parametrize("state", sorted(TERMINAL - {State.succeeded}))
def test_a_need_that_ended_badly_before_blocks_at_once(state: State) -> None:
    scheduler = Scheduler()
    assert scheduler.offer(entry("a", ("n", "m")), {"n": State.succeeded, "m": state})
    assert names(scheduler.blocked) == ["a"]
    assert scheduler.idle
