"""Random sequences of events, compared with a small reference model of their meaning."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peira.core.contracts import Op
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.core.log.events import AnyEvent, Result, State
from peira.errors import Fenced
from peira.stores.verify import verify
from peira.testing.stores.actions import CLS, KIND, AnyStore, plan_run, spec

NAMES = ("a", "b")
ENDS = (State.succeeded, State.failed, State.cancelled, State.exhausted)
_examples = count()


@dataclass(frozen=True)
class ModelTask:
    """A task in the reference model."""

    state: State = State.queued
    epoch: int = 0
    attempts: int = 0
    interruptions: int = 0


Known = dict[str, ModelTask]
Act = tuple[str, str, Any]
"""A verb, the task, and an argument: an offset from its epoch, a final state, or another task."""

epochs = st.sampled_from([0, 0, 0, 0, -1, 1])
more = {
    "queue": st.none(),
    "claim": epochs,
    "release": st.none(),
    "interrupt": st.none(),
    "retry": epochs,
    "note": epochs,
    "finish": st.tuples(epochs, st.sampled_from(ENDS)),
    "reuse": st.sampled_from(NAMES),
}
# Most events need a running task, so claims are frequent.
verbs = st.sampled_from([*more, "claim", "claim", "claim", "interrupt", "retry"])
one_act = verbs.flatmap(lambda verb: st.tuples(st.just(verb), st.sampled_from(NAMES), more[verb]))
some_ops = st.lists(st.lists(one_act, min_size=1, max_size=3), min_size=4, max_size=20)


def step(known: Known, act: Act, epoch: int) -> ModelTask | None:
    """The task after the act at this epoch; Fenced if it must be refused, None if it changes nothing."""
    verb, name, more = act
    task = known.get(name)
    if verb == "queue":
        return _if(task is None, ModelTask())
    if verb == "claim":
        fresh = task or ModelTask()
        free = task is None or task.state not in (State.running, State.succeeded)
        claimed = replace(fresh, state=State.running, epoch=epoch, attempts=fresh.attempts + 1)
        return _if(free and epoch == fresh.epoch + 1, claimed)
    if verb == "reuse":
        source = known.get(more)
        usable = source is not None and source.state is State.succeeded
        own = task is not None and task.state is State.succeeded
        return _if(usable and not own, replace(task or ModelTask(), state=State.succeeded))
    if task is None or task.state is not State.running:
        raise Fenced
    if verb == "release":
        return replace(task, state=State.queued, attempts=task.attempts - 1)
    if verb == "interrupt":
        return replace(task, state=State.queued, interruptions=task.interruptions + 1)
    if epoch != task.epoch:
        raise Fenced
    if verb == "retry":
        return replace(task, state=State.queued)
    if verb == "finish":
        return replace(task, state=more[1], interruptions=0)
    return task


def _if(allowed: bool, task: ModelTask) -> ModelTask:
    """The task if the act is allowed, else Fenced."""
    if not allowed:
        raise Fenced
    return task


class EventSequence:
    """Applies the same acts to the model and, as events, to the store; ids are unique to the example."""

    def __init__(self, store: AnyStore) -> None:
        self._store, self._example = store, next(_examples)
        self._run = plan_run(store)
        self.known: Known = {}

    def id(self, name: str) -> str:
        """The id of the task of this name."""
        return digest([self._example, name])

    def tell(self, ops: list[list[Act]]) -> tuple[list[bool], list[Op]]:
        """Apply ops to the model; returns which ones it accepts, and the ops."""
        expected, made = [], []
        for acts in ops:
            trial, events = dict(self.known), []
            accepted = True
            for act in acts:
                epoch = self._epoch(trial, act)
                events.append(self._event(act, epoch))
                try:
                    if accepted:
                        trial[act[1]] = step(trial, act, epoch) or trial[act[1]]
                except Fenced:
                    accepted = False
            if accepted:
                self.known = trial
            expected.append(accepted)
            made.append(Op(self._run, tuple(events)))
        return expected, made

    def _epoch(self, known: Known, act: Act) -> int:
        """The epoch that an act names."""
        verb, name, more = act
        now = known[name].epoch if name in known else 0
        offset = more[0] if verb == "finish" else more if verb in ("claim", "retry", "note") else 0
        return now + int(offset) + (verb == "claim")

    def _event(self, act: Act, epoch: int) -> AnyEvent:
        """The event of an act."""
        verb, name, more = act
        task = self.id(name)
        if verb == "queue":
            return ev.TasksQueued((spec(name, id=task),))
        if verb == "claim":
            return ev.TasksClaimed(KIND, CLS, "owner", (task,), (epoch,))
        if verb == "release":
            return ev.TasksReleased((task,))
        if verb == "interrupt":
            return ev.TasksInterrupted((task,))
        if verb == "retry":
            return ev.TaskRetried(task, epoch, Result(), 1.0)
        if verb == "note":
            return ev.Observed(task, epoch, "note")
        if verb == "reuse":
            return ev.TaskReused(task, self.id(more), KIND, CLS, "x")
        return ev.TaskFinished(task, epoch, more[1])

    def rows(self) -> Known:
        """The tasks as the store has them."""
        found = self._store.find("task", [self.id(name) for name in NAMES])
        rows = {name: found.get(self.id(name)) for name in NAMES}
        return {
            name: ModelTask(row.state, row.epoch, row.attempts, row.interruptions)
            for name, row in rows.items()
            if row
        }


class ReferenceModelChecks:
    """The comparison of a store with the reference model."""

    @settings(
        max_examples=100,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(ops=some_ops, together=st.booleans())
    def test_any_events_mean_what_the_model_says(
        self, store: AnyStore, ops: list[list[Act]], together: bool
    ) -> None:
        sequence = EventSequence(store)
        expected, made = sequence.tell(ops)
        groups = [made] if together else [[op] for op in made]
        outcomes = [outcome for group in groups for outcome in store.commit(group).result()]
        assert [outcome is None for outcome in outcomes] == expected
        assert sequence.rows() == sequence.known
        assert [p for p in verify(store) if "second time" not in p] == []
