"""Checks of model calls: their projection, and the queries that list them."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from peira.core.codec import encode
from peira.core.contracts import CallQuery, CallTotals
from peira.core.ids import digest
from peira.core.log import events as ev
from peira.core.log.rows import CALL_STATES
from peira.core.log.state import NO_RESULT, Call
from peira.stores.verify import verify
from peira.testing.stores.actions import (
    AnyStore,
    accept,
    claimed,
    find_call,
    find_run,
    find_task,
    plan_run,
    recorded,
    refuse,
)


def intended(task: str, key: str, send: int = 1, model: str = "m:a") -> ev.CallIntended:
    """The event before a call is sent."""
    return ev.CallIntended(digest(task), 1, digest(key), model, digest("request"), "generate", send)


def answered(task: str, key: str, **more: Any) -> ev.CallAnswered:
    """The event that records an answer."""
    return ev.CallAnswered(digest(task), digest(key), msgspec.Raw(b'{"said":"yes"}'), **more)


def lost(task: str, key: str, doubt: bool = False, tokens: int = 0, money: float = 0.0) -> ev.CallLost:
    """The event of a send without an answer."""
    return ev.CallLost(digest(task), digest(key), "reset by peer", doubt, tokens, money)


def settled(task: str, key: str, how: str) -> ev.CallSettled:
    """The event of a decision about a call."""
    return ev.CallSettled(digest(task), digest(key), how, "somebody")


WAYS: dict[str, list[Any]] = {
    "intended": [intended],
    "answered": [intended, lambda t, k: answered(t, k, input=7, output=2, cost=0.25, served="m:b")],
    "unpriced": [intended, answered],
    "lost": [intended, lost],
    "in doubt": [intended, lambda t, k: lost(t, k, doubt=True)],
    "freed": [intended, lambda t, k: lost(t, k, doubt=True), lambda t, k: settled(t, k, "resend")],
    "void": [intended, lambda t, k: answered(t, k, cost=0.5), lambda t, k: settled(t, k, "discard")],
    "sent again": [intended, lost, lambda t, k: intended(t, k, send=2)],
}
"""The events that bring a call into each state."""
some_calls = st.lists(
    st.tuples(st.sampled_from(sorted(WAYS)), st.sampled_from(["m:a", "m:b"]), st.integers(0, 2)), max_size=12
)


class CallChecks:
    """Checks of the projection of calls, of their queries and of their totals."""

    def test_a_call_is_what_its_events_say(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("t"), intended("t", "c"))
        call = find_call(store, "c")
        assert (call.state, call.model, call.sends, call.run) == ("intended", "m:a", 1, run)
        assert (call.input, call.output, call.cost) == (-1, -1, -1.0)
        accept(store, run, answered("t", "c", input=7, output=2, cost=0.25, served="m:b"))
        call = find_call(store, "c")
        assert (call.state, call.served, call.request) == ("answered", "m:b", digest("request"))
        assert (call.input, call.output, call.cost) == (7, 2, 0.25)
        assert bytes(call.value) == b'{"said":"yes"}'
        assert verify(store) == []

    def test_a_call_belongs_to_the_run_that_asked_last(self, store: AnyStore) -> None:
        first, second = plan_run(store), plan_run(store)
        accept(store, first, claimed("t"), intended("t", "c"), lost("t", "c"))
        accept(store, first, ev.TasksReleased((digest("t"),)))
        accept(store, second, claimed("t", epoch=2))
        again = intended("t", "c", send=2)
        accept(store, second, msgspec.structs.replace(again, epoch=2), answered("t", "c"))
        assert find_call(store, "c").run == second
        assert store.calls(CallQuery(run=first)) == []
        assert [call.key for call in store.calls(CallQuery(run=second))] == [digest("c")]
        assert verify(store) == []

    def test_what_was_settled(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("t"), intended("t", "c"), lost("t", "c", doubt=True))
        refuse(store, run, settled("t", "c", "discard"))
        accept(store, run, settled("t", "c", "resend"))
        assert (find_call(store, "c").state, find_call(store, "c").sends) == ("lost", 1)
        refuse(store, run, settled("t", "c", "resend"))
        accept(store, run, intended("t", "c", send=2), answered("t", "c"))
        refuse(store, run, settled("t", "c", "resend"))
        accept(store, run, settled("t", "c", "discard"))
        assert find_call(store, "c").state == "void"
        assert verify(store) == []

    def test_who_used_an_answer_is_found_by_its_result(self, store: AnyStore) -> None:
        run = plan_run(store)
        keys = {name: digest(f"{run} {name}") for name in "cde"}
        results = {
            "one": ev.Result(calls=(keys["c"], keys["d"])),
            "two": ev.Result(calls=(keys["d"],)),
            "tells of it": ev.Result(output=msgspec.Raw(encode(keys["c"]))),
            "none": ev.Result(took=1.0),
        }
        for name, result in results.items():
            accept(store, run, claimed(f"{run} {name}"))
            accept(store, run, ev.TaskFinished(digest(f"{run} {name}"), 1, ev.State.succeeded, result))
        accept(store, run, claimed(f"{run} under way"))

        def users(*names: str) -> list[str]:
            found = {task.id for task in store.using([keys[name] for name in names])}
            return [name for name in results if digest(f"{run} {name}") in found]

        assert (users("c"), users("d"), users("e"), users()) == (["one"], ["one", "two"], [], [])
        assert users("c", "d", "e") == ["one", "two"]
        many = [*map(digest, map(str, range(250))), keys["c"]]
        assert [task.id for task in store.using(many)] == [digest(f"{run} one")]

    def test_a_discarded_answer_puts_back_all_that_used_it_and_are_over(self, store: AnyStore) -> None:
        run = plan_run(store)
        done = [("asked", ev.State.failed), ("used", ev.State.succeeded)]
        accept(store, run, claimed("asked"), claimed("used"), claimed("under way"))
        accept(store, run, intended("asked", "c"), answered("asked", "c"))
        result = ev.Result(calls=(digest("c"),))
        for name, state in done:
            accept(store, run, ev.TaskFinished(digest(name), 1, state, result))
        void = ev.CallSettled(digest("asked"), digest("c"), "discard", "somebody", (digest("used"),))
        refuse(store, run, msgspec.structs.replace(void, others=(*void.others, digest("never seen"))))
        accept(store, run, msgspec.structs.replace(void, others=(*void.others, digest("under way"))))
        assert [find_task(store, name).state for name, _ in done] == [ev.State.queued] * 2
        assert [find_task(store, name).result for name, _ in done] == [NO_RESULT] * 2
        assert find_task(store, "under way").state is ev.State.running
        assert verify(store) == []

    def test_a_call_in_a_batch_needs_no_attempt_and_knows_its_batch(self, store: AnyStore) -> None:
        run = plan_run(store)
        handed = msgspec.structs.replace(intended("t", "c"), epoch=0, batch=digest("b"))
        accept(store, run, claimed("t"), ev.TasksReleased((digest("t"),), (1,)), handed)
        assert (find_call(store, "c").state, find_call(store, "c").batch) == ("intended", digest("b"))
        refuse(store, run, intended("t", "d"))
        accept(store, run, answered("t", "c", cost=0.25))
        assert (find_call(store, "c").state, find_call(store, "c").batch) == ("answered", digest("b"))
        assert verify(store) == []

    def test_what_a_run_is_answered_after_its_end_it_has_spent(self, store: AnyStore) -> None:
        run = plan_run(store)
        handed = [
            msgspec.structs.replace(intended("t", key, model=model), epoch=0, batch=digest("b"))
            for key, model in {"c": "m:a", "d": "m:a", "e": "m:b", "f": "m:b"}.items()
        ]
        refuse(store, run, handed[0])
        accept(store, run, claimed("t"), *handed, answered("t", "c", input=7, output=2, cost=0.25))
        spent = ev.Spent("m:a", 1, 1, 7, 2, 0.25)
        accept(
            store, run, ev.RunFinished(ev.Status.interrupted, {"planned": 1, "work.left": 1}, spent=(spent,))
        )
        accept(store, run, answered("t", "d", input=5, output=1, cost=0.5), answered("t", "e"))
        accept(store, run, lost("t", "f", doubt=True, tokens=9, money=0.125))
        assert find_run(store, run).spent == (
            ev.Spent("m:a", 2, 2, 12, 3, 0.75),
            ev.Spent("m:b", 2, 1, unpriced=1, doubtful=1, doubtful_tokens=9, doubtful_money=0.125),
        )
        assert verify(store) == []

    def test_steps_are_no_calls(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("t"), recorded("t", "s"))
        assert store.calls(CallQuery()) == []
        assert store.tally(CallQuery()) == CallTotals()

    def test_calls_of_an_unknown_run_or_model_are_none(self, store: AnyStore) -> None:
        run = plan_run(store)
        accept(store, run, claimed("t"), intended("t", "c"))
        for query in (
            CallQuery(run="f" * 64),
            CallQuery(model="m"),
            CallQuery(task="0" * 60),
            CallQuery(prefix=digest("d")),
        ):
            assert store.calls(query) == []
            assert store.tally(query) == CallTotals()

    @settings(
        max_examples=30,
        deadline=None,
        suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.differing_executors],
    )
    @given(made=some_calls)
    def test_calls_are_listed_by_run_model_state_task_and_key(self, store: AnyStore, made: list[Any]) -> None:
        known = [call.key for call in store.calls(CallQuery(limit=1_000_000))]
        run, other = plan_run(store), plan_run(store)
        calls = [self._make(store, (run, other)[n % 2], way, model, n) for way, model, n in made]
        news = [call for call in store.calls(CallQuery(limit=1_000_000)) if call.key not in known]
        assert {call.key: call for call in news} == {call.key: call for call in calls}
        asked = [call.key for call in calls]
        assert news == sorted(news, key=lambda call: (call.run == other, asked.index(call.key)), reverse=True)
        for query in _queries(run, calls):
            expected = [call for call in news if _matches(call, query)]
            assert store.calls(query) == expected[: query.limit]
            self._adds_up(store.tally(query), expected)

    def _make(self, store: AnyStore, run: str, way: str, model: str, task: int) -> Call:
        """A call that went through the events of `way`."""
        name, key = f"{run} {task}", f"{run} {task} {store.events(run)[-1].seq}"
        if digest(name) not in store.find("task", [digest(name)]):
            accept(store, run, claimed(name))
        for make in WAYS[way]:
            event = make(name, key)
            if isinstance(event, ev.CallIntended):
                event = msgspec.structs.replace(event, model=model)
            accept(store, run, event)
        return find_call(store, key)

    def _adds_up(self, tally: CallTotals, calls: list[Call]) -> None:
        """Assert that the totals are those of the calls."""
        counts = {state: sum(call.state == state for call in calls) for state in CALL_STATES}
        assert tally.states == {state: n for state, n in counts.items() if n}
        assert tally.input == sum(call.input for call in calls if call.input != -1)
        assert tally.output == sum(call.output for call in calls if call.output != -1)
        assert tally.cost == pytest.approx(sum(call.cost for call in calls if call.cost != -1))
        paid = [call for call in calls if call.state in ("answered", "void")]
        assert tally.unpriced == sum(call.cost == -1 for call in paid)


def _queries(run: str, calls: list[Call]) -> list[CallQuery]:
    """Queries restricted to these runs, so that other examples in the same store do not count."""
    queries = [CallQuery(run=run), CallQuery(run=run, limit=2), CallQuery(run=run, model="m:b")]
    queries += [CallQuery(run=run, state=state) for state in CALL_STATES]
    for call in calls:
        queries += [
            CallQuery(task=call.task),
            CallQuery(task=call.task[:15], state=call.state),
            CallQuery(prefix=call.key),
            CallQuery(prefix=call.key[:15]),
            CallQuery(run=call.run, model=call.model, state=call.state, task=call.task, prefix=call.key),
        ]
    return queries


def _matches(call: Call, query: CallQuery) -> bool:
    """Whether the call matches the query."""
    same = all(
        not wanted or getattr(call, name) == wanted
        for name, wanted in (("run", query.run), ("model", query.model), ("state", query.state))
    )
    return same and call.task.startswith(query.task) and call.key.startswith(query.prefix)
