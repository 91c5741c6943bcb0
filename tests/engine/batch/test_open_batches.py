"""Batches at hand, by themselves: taken up once, left in order, told once; and those who wait for them."""

from __future__ import annotations

import asyncio
import json
import math
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from typing import Any

import msgspec
import pytest

from peira.core.contracts import Attempt, CallQuery, Op
from peira.core.ids import canonical, compose, digest, digest_bytes
from peira.core.log import events as ev
from peira.core.log.events import State
from peira.core.models import Answer, BatchState, NamedModel, Reply, Request, Usage
from peira.engine.batch.batcher import Batcher
from peira.engine.batch.open_batches import OpenBatches
from peira.engine.batch.record import BATCH, BatchedCall
from peira.engine.calls.budget import Reservation, RunAccounts
from peira.engine.calls.purchase import Buyer, CallRequest
from peira.engine.context import RunContext
from peira.errors import CallFailed, Exhausted, Parked
from peira.spec.limits import Budget
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify

TASK, KEYS = digest("a trial"), [digest(f"call {n}") for n in range(3)]


class Provider:
    """A model, and the endpoint that takes its batches; what it does is set from outside."""

    name, identity = "fake:x", {"fake": "x"}

    def __init__(self) -> None:
        self.batches, self.submits, self.looks, self.finds = self, 0, 0, 0
        self.submitting: Callable[[], Awaitable[str]] | None = None
        self.looking: Callable[[], BatchState] = lambda: BatchState(True, said="over")
        self.answers: dict[str, Answer | CallFailed] = {}
        self.found = ""

    def check(self, request: Request | None = None) -> None:
        return None

    async def submit(self, label: str, requests: Mapping[str, Request]) -> str:
        self.submits += 1
        return "its name" if self.submitting is None else await self.submitting()

    async def find(self, label: str) -> str:
        self.finds += 1
        return self.found

    async def look(self, batch: str) -> BatchState:
        self.looks += 1
        return self.looking()

    async def collect(self, batch: str) -> dict[str, Answer | CallFailed]:
        return self.answers

    def read(self, answer: Answer) -> Reply:
        return Reply(json.loads(answer.body), usage=Usage(3, 1))

    async def send(self, request: Request) -> Answer:
        raise NotImplementedError

    async def close(self) -> None:
        return None


def answer(text: str) -> Answer:
    return Answer(200, json.dumps(text).encode(), 0.0)


class Bench:
    """A store with a trial in it, a provider, and all that is told."""

    def __init__(self) -> None:
        self.store, self.provider = MemoryStore(), Provider()
        self.endings: dict[str, Any] = {}
        self.told: list[str] = []
        self.counted: list[State] = []
        self.problems: list[BaseException] = []
        self.taken_up: list[tuple[list[str], bool]] = []
        self.woken: list[list[str]] = []
        self.starved: list[str] = []
        self.run = self.plan("one")
        self.write(ev.TasksClaimed("generate", "generate", "1", (TASK,)))
        self.write(ev.TasksReleased((TASK,), (1,)))

    def plan(self, name: str, study: str = "s") -> str:
        run = compose("run", name)
        planned = ev.RunPlanned(self.store.put(b"{}"), study, 1)
        self.store.commit([Op(run, (planned,)), Op(run, (ev.RunStarted("1", 1),))]).result()
        return run

    def write(self, *events: ev.AnyEvent) -> None:
        assert self.store.commit([Op(self.run, events)]).result() == [None]

    def opened(self, run: str = "") -> OpenBatches:
        context, named = RunContext(run or self.run, "1", self.store), NamedModel("x", self.provider)
        buyer = Buyer(context, RunAccounts(Budget()), self)
        return OpenBatches(context, buyer, lambda _: named, self, self, tries=3)

    def batcher(self, reserve: RunAccounts) -> Batcher:
        context, named = RunContext(self.run, "1", self.store), NamedModel("x", self.provider)
        return Batcher(context, Buyer(context, reserve, self), reserve, lambda _: named, self)

    def wake(self, tasks: Iterable[str]) -> None:
        self.woken.append(sorted(tasks))

    def say(self, text: str) -> None:
        self.told.append(text)

    def starve(self, why: str) -> None:
        self.starved.append(why)

    def fail(self, problem: BaseException) -> None:
        self.problems.append(problem)

    def batch_ended(self, state: State) -> None:
        self.counted.append(state)

    def held(self, named: NamedModel, calls: Mapping[str, BatchedCall], counted: bool) -> None:
        self.taken_up.append((sorted(calls), counted))

    def ended(self, named: NamedModel, endings: Mapping[str, Any], busy: bool) -> None:
        assert not self.endings.keys() & endings.keys()
        self.endings |= endings

    def hand_in(self, batches: OpenBatches, *keys: str, send: int = 1) -> None:
        request = json.dumps({"messages": [{"role": "user", "content": "hello"}]}).encode()
        handed = BatchedCall(TASK, digest_bytes(request), len(request), "generate", send)
        batches.hand_in(NamedModel("x", self.provider), dict.fromkeys(keys or KEYS, (handed, request)))

    @property
    def batch(self) -> Any:
        [task] = [row for row in self.store.rows() if getattr(row, "kind", "") == BATCH]
        return task

    def calls(self) -> dict[str, str]:
        return {call.key: call.state for call in self.store.calls(CallQuery(limit=100))}


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    yield made
    assert verify(made.store) == []


def until(true: Callable[[], object]) -> Awaitable[None]:
    async def wait() -> None:
        while not true():
            await asyncio.sleep(0.005)

    return wait()


def left_open(bench: Bench) -> str:
    """A batch that was handed in and not collected; its id."""
    bench.provider.looking = lambda: BatchState(False)

    async def begin() -> None:
        batches = bench.opened()
        bench.hand_in(batches)
        await until(lambda: bench.provider.looks)
        await batches.close()

    asyncio.run(begin())
    bench.provider.looking = lambda: BatchState(True, said="over")
    return str(bench.batch.id)


def test_a_batch_from_beginning_to_end(bench: Bench) -> None:
    bench.provider.answers = {KEYS[0]: answer("yes"), KEYS[1]: CallFailed("no")}

    async def all_of_it() -> None:
        batches = bench.opened()
        bench.hand_in(batches)
        assert all(key in batches for key in KEYS)
        assert batches.of("x") == 1
        await until(lambda: bench.endings)
        assert not any(key in batches for key in KEYS)
        await batches.close()

    asyncio.run(all_of_it())
    assert bench.calls() == {KEYS[0]: "answered", KEYS[1]: "lost", KEYS[2]: "lost"}
    assert bench.endings[KEYS[0]] == Reservation(0.0, 4)
    assert (bench.endings[KEYS[1]].free, bench.endings[KEYS[2]].free) == (False, True)
    assert (bench.batch.state, bench.counted, bench.problems) == (State.succeeded, [State.succeeded], [])


def test_a_batch_is_left_for_later_and_taken_up_once(bench: Bench) -> None:
    batch = left_open(bench)
    assert (bench.batch.state, bench.batch.attempts, bench.endings) == (State.queued, 0, {})
    bench.provider.answers = {key: answer("yes") for key in KEYS}

    async def many_at_once() -> list[bool]:
        batches = bench.opened()
        taken = await asyncio.gather(*(batches.adopt(batch) for _ in range(5)))
        await until(lambda: bench.endings)
        later = await batches.adopt(batch)
        await batches.close()
        return [*taken, later]

    assert asyncio.run(many_at_once()) == [True] * 5 + [False]
    assert (bench.provider.submits, bench.batch.epoch) == (1, 2)
    assert set(bench.calls().values()) == {"answered"}
    assert bench.taken_up == [(sorted(KEYS), True)]


def test_a_batch_of_another_study_was_not_counted_before(bench: Bench) -> None:
    batch, other = left_open(bench), bench.plan("two", study="another")

    async def take_up() -> None:
        batches = bench.opened(other)
        await batches.adopt(batch, watch=False)
        await batches.close()

    asyncio.run(take_up())
    assert bench.taken_up == [(sorted(KEYS), False)]
    assert bench.batch.run == other


@pytest.mark.parametrize("gone", [False, True])
def test_what_was_recorded_before_the_process_died_is_not_recorded_again(bench: Bench, gone: bool) -> None:
    batch = left_open(bench)
    bench.write(ev.CallAnswered(TASK, KEYS[0]), ev.CallLost(TASK, KEYS[1], "no"))
    bench.provider.answers = {key: answer("yes") for key in (KEYS[0], KEYS[2])}
    bench.provider.answers[KEYS[1]] = CallFailed("no")

    def looking() -> BatchState:
        if gone:
            raise CallFailed("no such batch", status=404)
        return BatchState(True)

    bench.provider.looking = looking

    async def collect() -> BatchState:
        batches = bench.opened()
        await batches.adopt(batch, watch=False)
        assert KEYS[0] not in batches
        state = await batches.look(batch)
        await batches.close()
        return state

    assert asyncio.run(collect()).over
    assert bench.taken_up == [([KEYS[2]], True)]
    assert bench.calls() == {
        KEYS[0]: "answered",
        KEYS[1]: "lost",
        KEYS[2]: "in_doubt" if gone else "answered",
    }
    assert sorted(bench.endings) == sorted(KEYS[1:])
    assert bench.counted == [State.in_doubt if gone else State.succeeded]


def test_calls_that_were_asked_meanwhile_are_looked_at_again(bench: Bench) -> None:
    left_open(bench)

    async def ask_again() -> None:
        batches = bench.opened()
        bench.hand_in(batches, KEYS[2])
        await until(lambda: bench.endings)
        await batches.close()

    asyncio.run(ask_again())
    assert bench.endings[KEYS[2]].free
    assert bench.provider.submits == 1
    assert bench.calls()[KEYS[2]] == "intended"


def test_what_is_on_its_way_to_the_provider_gets_there(bench: Bench) -> None:
    async def slowly() -> str:
        await asyncio.sleep(0.2)
        return "a name"

    bench.provider.submitting = slowly

    async def close_early() -> None:
        batches = bench.opened()
        bench.hand_in(batches)
        await until(lambda: bench.provider.submits)
        await batches.close()

    asyncio.run(close_early())
    assert bench.provider.looks <= 1
    [step] = [row for row in bench.store.rows() if getattr(row, "name", "") == "handed in"]
    assert bytes(step.value) == b'"a name"'
    assert bench.batch.state in (State.queued, State.succeeded)


def test_a_provider_that_takes_nothing_is_not_waited_for_at_the_end(bench: Bench) -> None:
    async def busy() -> str:
        raise CallFailed("busy", free=True, retry_after=60)

    bench.provider.submitting = busy

    async def close_early() -> None:
        batches = bench.opened()
        bench.hand_in(batches)
        await until(lambda: bench.provider.submits)
        await asyncio.wait_for(batches.close(), 3)

    asyncio.run(close_early())
    assert set(bench.calls().values()) == {"lost"}
    assert (bench.batch.state, bench.counted) == (State.failed, [State.failed])


@pytest.mark.parametrize("found", ["", "its name"])
def test_a_batch_that_may_have_been_taken_is_looked_for(bench: Bench, found: str) -> None:
    async def cut() -> str:
        raise CallFailed("reset", doubt=True)

    bench.provider.submitting, bench.provider.found = cut, found
    bench.provider.answers = {key: answer("yes") for key in KEYS}

    async def all_of_it() -> None:
        batches = bench.opened()
        bench.hand_in(batches)
        await until(lambda: bench.endings)
        await batches.close()

    asyncio.run(all_of_it())
    assert set(bench.calls().values()) == {"answered" if found else "in_doubt"}
    assert bench.provider.finds == (1 if found else 3)
    assert bench.provider.submits == 1


def test_what_nobody_expects_is_told(bench: Bench) -> None:
    def looking() -> BatchState:
        raise ZeroDivisionError

    bench.provider.looking = looking

    async def all_of_it() -> None:
        batches = bench.opened()
        bench.hand_in(batches)
        await until(lambda: bench.problems)
        await batches.close()

    asyncio.run(all_of_it())
    assert isinstance(bench.problems[0], ZeroDivisionError)
    assert bench.batch.state is State.queued


# Those who wait


def asked_by(name: str) -> CallRequest:
    """The same call, needed by different trials."""
    attempt = Attempt(ev.TaskSpec(digest(name), "generate", "generate"), 1, None)
    request = Request(({"role": "user", "content": "hello"},))
    body = canonical(msgspec.to_builtins(request))
    return CallRequest(attempt, "scope", "generate", "1", request, body, digest_bytes(body))


def test_several_who_need_a_call_are_woken_together_and_it_is_set_aside_once(bench: Bench) -> None:
    names = ("a trial", "another", "a third")
    bench.write(ev.TasksClaimed("generate", "generate", "1", tuple(map(digest, names[1:]))))
    reserve = RunAccounts(Budget(calls=1))
    bench.provider.answers = {KEYS[0]: answer("yes")}
    named = NamedModel("x", bench.provider)

    async def all_of_it() -> None:
        batcher = bench.batcher(reserve)
        for name in names:
            with pytest.raises(Parked) as away:
                await batcher.ask(named, asked_by(name), KEYS[0], None)
            assert away.value.seconds == math.inf
        assert batcher.gathering
        batcher.hand_in()
        await until(lambda: bench.woken)
        assert not batcher.gathering
        with pytest.raises(Exhausted):
            await batcher.ask(named, asked_by("a trial"), KEYS[1], None)
        await batcher.close()

    asyncio.run(all_of_it())
    assert bench.woken == [sorted(map(digest, names))]
    assert (bench.calls(), bench.problems) == ({KEYS[0]: "answered"}, [])


def test_who_waits_for_what_is_set_aside_hears_of_what_is_settled_at_once(bench: Bench) -> None:
    """Also if that happens before anything else had its turn: nobody would come again."""
    reserve = RunAccounts(Budget(calls=1))
    named = NamedModel("x", bench.provider)

    async def all_of_it() -> None:
        batcher = bench.batcher(reserve)
        share = Reservation(0.0, 2)
        assert reserve.fit(named, share, None)
        with pytest.raises(Parked):
            await batcher.ask(named, asked_by("a trial"), KEYS[0], None)
        reserve.settle(named, None, share, None)
        await asyncio.wait_for(until(lambda: bench.woken), 5)
        await batcher.close()

    asyncio.run(all_of_it())
    assert bench.woken == [[TASK]]
