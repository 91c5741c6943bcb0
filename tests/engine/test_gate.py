"""The gate of a model, on an event loop whose clock moves only when everybody waits: no test takes time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.models import CallFailed, Limits
from peira.engine.gate import BURST, PATIENCE, PROBES, STRIKES, Gate, Pace
from peira.errors import Parked

SLACK = 0.01
ODD = 1e-6
"""Sums of floats."""


class Timeless(asyncio.SelectorEventLoop):
    """Jumps to the next thing that is due; who waits for nothing at all is an error, not a hang."""

    def __init__(self) -> None:
        self.clock = 0.0
        super().__init__()

    def time(self) -> float:
        return self.clock

    def _run_once(self) -> None:
        if not self._ready:
            assert self._scheduled, "everybody waits and nothing will happen"
            self.clock = max(self.clock, self._scheduled[0]._when)
        super()._run_once()


def timeless(scene: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
    loop = Timeless()
    try:
        return loop.run_until_complete(scene())
    finally:
        loop.run_until_complete(asyncio.sleep(0))
        loop.close()


def now() -> float:
    return asyncio.get_running_loop().time()


@dataclass
class Scene:
    """A gate, those who went through it, and what it said."""

    limits: Limits = field(default_factory=Limits)
    flying: int = 0
    most: int = 0
    sent: list[tuple[float, float]] = field(default_factory=list)
    parked: list[float] = field(default_factory=list)
    said: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.gate = Gate("m", self.limits, now, self.said.append)

    async def send(
        self,
        took: float = 0.1,
        tokens: float = 10,
        used: float | None = None,
        problem: CallFailed | None = None,
        wait: float | None = None,
    ) -> None:
        """One send, from asking for a turn to leaving."""
        sent_at = await self.gate.enter(tokens)
        self.flying += 1
        self.most = max(self.most, self.flying)
        self.sent.append((now(), tokens if used is None else used))
        try:
            await asyncio.sleep(took)
            if problem is None:
                self.gate.answered(0 if used is None else used - tokens, wait)
            else:
                self.gate.failed(problem, sent_at)
        finally:
            self.flying -= 1
            self.gate.leave()

    async def persist(self, **how: Any) -> None:
        """Send, coming back as often and as late as one is told to."""
        while True:
            try:
                return await self.send(**how)
            except Parked as away:
                self.parked.append(now() + away.seconds)
                await asyncio.sleep(away.seconds)

    async def round(self, n: int, **how: Any) -> list[Any]:
        return await asyncio.gather(*(self.send(**how) for _ in range(n)), return_exceptions=True)

    async def most_at_once(self, n: int = 40) -> int:
        self.most = 0
        await asyncio.gather(*(self.persist() for _ in range(n)))
        return self.most


def busy(retry_after: float | None = None) -> CallFailed:
    return CallFailed("too many", free=True, busy=True, retry_after=retry_after)


def refused() -> CallFailed:
    return CallFailed("connection refused", free=True)


def lost() -> CallFailed:
    return CallFailed("reset by peer", doubt=True)


def spans(sent: list[tuple[float, float]]) -> list[tuple[float, int, float]]:
    """(length, sends, tokens of all but the last) of every span between two sends."""
    return [
        (sent[j][0] - sent[i][0], j - i + 1, sum(tokens for _, tokens in sent[i:j]))
        for i in range(len(sent))
        for j in range(i, len(sent))
    ]


# At once

ARRIVALS = st.lists(
    st.tuples(
        st.floats(0, 20),  # when
        st.floats(0, 5),  # how long it takes
        st.sampled_from(["answer", "answer", "answer", "busy", "refused", "lost", "permanent"]),
    ),
    max_size=40,
)
OUTCOMES = {
    "answer": lambda: None,
    "busy": lambda: busy(0.5),
    "refused": refused,
    "lost": lost,
    "permanent": lambda: CallFailed("no such model"),
}


@given(ARRIVALS, st.integers(1, 5))
def test_never_more_in_flight_than_allowed(arrivals: list[tuple[float, float, str]], most: int) -> None:
    async def play() -> None:
        scene = Scene(Limits(concurrency=most))

        async def come(when: float, took: float, outcome: str) -> None:
            await asyncio.sleep(when)
            with suppress(CallFailed):  # it may have been given up
                await scene.persist(took=took, problem=OUTCOMES[outcome]())

        await asyncio.gather(*(come(*arrival) for arrival in arrivals))
        assert scene.most <= most
        assert scene.flying == 0

    timeless(play)


async def let_in(scene: Scene, n: int) -> int:
    """How many of n get a turn if nobody leaves."""
    going = [asyncio.ensure_future(scene.gate.enter(1)) for _ in range(n)]
    await asyncio.sleep(1)
    for one in going:
        one.cancel()
    return sum(not one.cancelled() for one in await _settled(going))


async def _settled(tasks: list[asyncio.Task[float]]) -> list[asyncio.Task[float]]:
    await asyncio.wait(tasks)
    return tasks


@given(st.lists(st.floats(0, 0.2), min_size=2, max_size=64))
def test_a_round_of_refusals_halves_what_is_sent_at_once_and_only_once(late: list[float]) -> None:
    """All that were sent together and come back refused, one after another, say the same thing."""

    async def play() -> None:
        scene = Scene()
        await asyncio.gather(*(scene.send(took=1 + t, problem=busy()) for t in late))
        assert await let_in(scene, len(late)) == len(late) // 2

    timeless(play)


def test_refused_again_it_is_halved_again() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.round(32, problem=busy())
        await scene.round(16, problem=busy())
        assert await let_in(scene, 32) == 8

    timeless(play)


def test_one_is_always_sent_however_often_it_is_refused() -> None:
    async def play() -> None:
        scene = Scene()
        for _ in range(8):
            await asyncio.gather(scene.persist(problem=busy()), scene.persist(problem=busy()))
        await asyncio.sleep(60)
        assert await let_in(scene, 3) == 1

    timeless(play)


def test_every_answer_makes_room_for_more_up_to_what_is_allowed() -> None:
    async def play() -> None:
        scene = Scene(Limits(concurrency=6))
        for n in (6, 3, 1):
            await scene.round(n, problem=busy())
            await asyncio.sleep(1)
        steps = [await scene.most_at_once(12) for _ in range(6)]
        assert steps[0] < steps[-1] == 6
        assert steps == sorted(steps)

    timeless(play)


def test_an_endpoint_that_allows_so_many_at_once_is_found_out() -> None:
    """64 workers, 8 allowed: everybody gets through, few are refused, and what is allowed is used."""

    async def play() -> None:
        gate, allowed, at_once, refusals = Scene().gate, 8, 0, 0

        async def send() -> bool:
            nonlocal at_once
            sent_at = await gate.enter(1)
            at_once += 1
            fits = at_once <= allowed
            await asyncio.sleep(0.05)
            at_once -= 1
            gate.answered(0, None) if fits else gate.failed(busy(), sent_at)
            gate.leave()
            return fits

        async def work() -> None:
            nonlocal refusals
            for _ in range(20):
                while not await send():
                    refusals += 1

        await asyncio.gather(*(work() for _ in range(64)))
        calls, ideal = 64 * 20, 64 * 20 / allowed * 0.05
        assert refusals < calls / 4
        assert now() < 3 * ideal

    timeless(play)


# So much a minute


@given(st.floats(1, 6000), st.lists(st.floats(0, 10), min_size=1, max_size=60))
def test_a_pace_is_never_outrun(rate: float, pauses: list[float]) -> None:
    pace, clock, sent = Pace(rate), 0.0, []
    for pause in pauses:
        clock += pause
        clock += pace.wait(clock)
        assert pace.wait(clock) <= ODD
        pace.use(1, clock)
        sent.append((clock, 1.0))
    for length, sends, _ in spans(sent):
        assert sends <= rate / 60 * (length + BURST) + 1 + ODD


@given(st.integers(20, 600), st.lists(st.tuples(st.floats(0, 10), st.floats(0, 2)), max_size=30))
def test_never_more_sends_than_the_rate_and_a_burst(rate: int, arrivals: list[tuple[float, float]]) -> None:
    async def play() -> None:
        scene = Scene(Limits(requests=rate))

        async def come(when: float, took: float) -> None:
            await asyncio.sleep(when)
            await scene.persist(took=took)

        await asyncio.gather(*(come(*arrival) for arrival in arrivals))
        assert len(scene.sent) == len(arrivals)
        for length, sends, _ in spans(scene.sent):
            assert sends <= rate / 60 * (length + BURST) + 1 + ODD

    timeless(play)


@given(st.integers(600, 6000), st.lists(st.tuples(st.integers(0, 500), st.integers(0, 500)), max_size=30))
def test_tokens_are_counted_as_they_turn_out(rate: int, calls: list[tuple[int, int]]) -> None:
    """Expected so many, used so many: what counts in the end is what was used."""

    async def play() -> None:
        scene = Scene(Limits(tokens=rate))
        for expected, used in calls:
            await scene.persist(tokens=expected, used=used, took=0.01)
        for length, _, tokens in spans(scene.sent):
            assert tokens <= rate / 60 * (length + BURST) + ODD

    timeless(play)


def test_tokens_that_were_not_used_are_there_for_the_next() -> None:
    async def play() -> None:
        scene = Scene(Limits(tokens=600))
        for _ in range(50):
            await scene.send(tokens=1000, used=1, took=0.01)
        assert now() < 50 * 1000 / 600 * 60 / 10

    timeless(play)


def test_the_rate_is_used_and_not_only_kept() -> None:
    """120 a minute: 100 calls take about 49 s, with workers that are sent away and come back."""

    async def play() -> None:
        scene = Scene(Limits(requests=120))
        await asyncio.gather(*(scene.persist() for _ in range(100)))
        assert 48 <= now() < 55
        assert len(scene.parked) < 200  # hardly anybody is sent away twice

    timeless(play)


# Sent away, and when to come back


@given(st.sampled_from([Limits(requests=30), Limits(tokens=600), Limits(requests=60, tokens=1200)]))
def test_who_is_sent_away_gets_a_moment_of_its_own(limits: Limits) -> None:
    async def play() -> None:
        scene = Scene(limits)
        outcomes = await scene.round(30, tokens=20)
        away = sorted(gone.seconds for gone in outcomes if isinstance(gone, Parked))
        assert len(away) > 15
        assert away[0] > PATIENCE
        gaps = [later - sooner for sooner, later in pairwise(away)]
        every = max(60 / (limits.requests or 1e9), 20 * 60 / (limits.tokens or 1e9))
        assert min(gaps) >= every - ODD

    timeless(play)


def test_who_comes_back_when_told_is_not_sent_away_again() -> None:
    async def play() -> None:
        scene = Scene(Limits(requests=30))
        await asyncio.gather(*(scene.persist() for _ in range(30)))
        assert len(scene.parked) < 30

    timeless(play)


def test_who_waits_a_little_just_waits() -> None:
    async def play() -> None:
        scene = Scene(Limits(requests=60))
        outcomes = await scene.round(4)
        assert outcomes == [None] * 4
        assert now() >= 2

    timeless(play)


@pytest.mark.parametrize("asked", [0.5, 2.0, 30.0])
def test_nothing_is_sent_before_the_provider_wants_it(asked: float) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.round(3, problem=busy(retry_after=asked))
        closed = now()
        await asyncio.gather(*(scene.persist() for _ in range(5)))
        first = sorted(scene.sent)[3][0]
        assert asked - SLACK <= first - closed <= max(asked, 0.5) + 2 * SLACK
        assert bool(scene.parked) == (asked > PATIENCE)

    timeless(play)


def test_refused_without_a_word_it_waits_longer_each_time() -> None:
    async def play() -> None:
        scene = Scene()
        for _ in range(9):
            await scene.persist(took=0.0, problem=busy())
        waits = [later - sooner for (sooner, _), (later, _) in pairwise(scene.sent)]
        assert all(later > 1.5 * sooner for sooner, later in pairwise(waits[:6]))
        assert max(waits) < 31
        await scene.persist(took=0.0)
        await scene.persist(took=0.0, problem=busy())
        at = now()
        await scene.persist(took=0.0)
        assert now() - at < 0.5  # an answer, and it begins anew

    timeless(play)


def test_who_is_refused_again_and_again_is_told_once() -> None:
    async def play() -> None:
        scene = Scene()
        for _ in range(3 * STRIKES):
            await scene.persist(problem=busy())
        assert scene.said == ["m has too much to do, others go on: too many"]
        await scene.persist()
        assert scene.said[1:] == ["m answers again"]

    timeless(play)


def test_a_long_wait_sends_away_those_who_wait_already() -> None:
    async def play() -> None:
        scene = Scene(Limits(concurrency=1))
        outcomes = await scene.round(4, problem=busy(retry_after=20))
        assert [type(outcome) for outcome in outcomes] == [type(None), Parked, Parked, Parked]
        assert all(gone.seconds == pytest.approx(20) for gone in outcomes[1:])

    timeless(play)


def test_an_answer_may_ask_for_a_pause_too() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.send(wait=2.0)
        closed = now()
        await scene.send()
        assert scene.sent[1][0] >= closed + 2

    timeless(play)


# Down, tried, given up


@pytest.mark.parametrize("problem", [refused, lost])
def test_five_failures_in_a_row_pause_it_and_say_so_once(problem: Callable[[], CallFailed]) -> None:
    async def play() -> None:
        scene = Scene()
        await scene.round(STRIKES - 1, problem=problem())
        assert not scene.gate.down
        await scene.send(problem=problem())
        assert scene.gate.down
        assert len(scene.said) == 1
        assert "paused" in scene.said[0]
        assert str(problem()) in scene.said[0]
        paused = now()
        await scene.send()
        assert scene.sent[-1][0] > paused + 0.4

    timeless(play)


def test_an_answer_in_between_starts_the_count_again() -> None:
    async def play() -> None:
        scene = Scene()
        for _ in range(5):
            for _ in range(STRIKES - 1):
                await scene.send(problem=refused())
            await scene.send()
        assert not scene.gate.down
        assert scene.said == []

    timeless(play)


@pytest.mark.parametrize("problem", [busy, lambda: CallFailed("no such model", status=404)])
def test_what_says_nothing_about_the_endpoint_does_not_pause_it(problem: Callable[[], CallFailed]) -> None:
    async def play() -> None:
        scene = Scene()
        for _ in range(3 * STRIKES):
            await scene.persist(problem=problem())
        assert not scene.gate.down

    timeless(play)


def test_what_was_sent_before_the_pause_says_nothing_new() -> None:
    """64 in flight when it goes down: one pause, not a given-up model."""

    async def play() -> None:
        scene = Scene()
        await asyncio.gather(*(scene.send(took=1 + i / 100, problem=refused()) for i in range(64)))
        await asyncio.gather(*(scene.persist() for _ in range(20)))
        assert [said.split()[1] for said in scene.said] == ["is", "answers"]

    timeless(play)


def test_while_it_is_down_one_at_a_time_tries_it() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.round(STRIKES, problem=refused())
        scene.most = 0
        outcomes = await scene.round(20, took=0.2, problem=refused())
        assert scene.most == 1
        assert len(scene.sent) == STRIKES + 3  # after 0.5, 1 and 2 s; then the rest are sent away
        assert sum(isinstance(outcome, Parked) for outcome in outcomes) == 17

    timeless(play)


def test_it_recovers_with_the_first_answer_and_everybody_goes_on() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.round(STRIKES, problem=refused())
        await scene.send(problem=refused())
        assert await scene.most_at_once(10) == 9  # one tried it; with its answer all others went at once
        assert not scene.gate.down
        assert scene.said[-1] == "m answers again"
        for _ in range(STRIKES - 1):
            await scene.send(problem=refused())
        assert not scene.gate.down

    timeless(play)


def test_it_is_given_up_after_so_many_failed_tries() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.round(STRIKES, problem=refused())
        for _ in range(PROBES - 1):
            await scene.persist(problem=refused())
        assert len(scene.said) == 1
        last = [asyncio.ensure_future(scene.persist(problem=refused())) for _ in range(10)]
        outcomes = await asyncio.gather(*last, return_exceptions=True)
        assert sum(outcome is None for outcome in outcomes) == 1
        gone = [outcome for outcome in outcomes if outcome is not None]
        assert all(isinstance(one, CallFailed) and not one.free and not one.doubt for one in gone)
        assert len(scene.sent) == STRIKES + PROBES
        at = now()
        with pytest.raises(CallFailed, match="given up: connection refused"):
            await scene.send()
        assert now() == at
        assert [said.split(":")[0] for said in scene.said[1:]] == ["m is given up"]

    timeless(play)


# Those who stop waiting


def test_a_turn_that_nobody_waits_for_any_more_is_anothers() -> None:
    async def play() -> None:
        scene = Scene(Limits(concurrency=1))
        first = asyncio.ensure_future(scene.send(took=1))
        await asyncio.sleep(0)
        gone = asyncio.ensure_future(scene.send())
        last = asyncio.ensure_future(scene.send())
        await asyncio.sleep(0.5)
        gone.cancel()
        await asyncio.gather(first, last)
        assert gone.cancelled()
        assert len(scene.sent) == 2

    timeless(play)


def test_a_turn_that_came_at_the_same_moment_is_given_back() -> None:
    async def play() -> None:
        scene = Scene(Limits(concurrency=1))
        await scene.gate.enter(1)
        gone = asyncio.ensure_future(scene.send())
        await asyncio.sleep(0.1)
        scene.gate.leave()  # its turn has come,
        gone.cancel()  # and it does not know yet
        await asyncio.wait([gone])
        assert gone.cancelled()
        assert await scene.most_at_once(5) == 1

    timeless(play)


def test_who_was_sent_away_and_stopped_waiting_gives_nothing_back() -> None:
    async def play() -> None:
        scene = Scene(Limits(concurrency=1))
        sent_at = await scene.gate.enter(1)
        gone = asyncio.ensure_future(scene.send())
        await asyncio.sleep(0.1)
        scene.gate.failed(busy(retry_after=10), sent_at)  # it is sent away,
        gone.cancel()  # and does not know yet
        scene.gate.leave()
        await asyncio.wait([gone])
        await asyncio.sleep(10)
        assert await scene.most_at_once(5) == 1

    timeless(play)


@given(st.lists(st.tuples(st.floats(0, 3), st.floats(0, 3)), min_size=1, max_size=20), st.integers(1, 3))
def test_whoever_stops_waiting_whenever_nobody_else_waits_for_ever(
    patience: list[tuple[float, float]], most: int
) -> None:
    async def play() -> None:
        scene = Scene(Limits(concurrency=most))

        async def impatient(when: float, patience: float) -> None:
            await asyncio.sleep(when)
            try:
                await asyncio.wait_for(scene.send(took=1), patience)
            except TimeoutError:
                return

        await asyncio.gather(*(impatient(*one) for one in patience), *(scene.send() for _ in range(3)))
        assert scene.most <= most
        assert await scene.most_at_once(10) == most

    timeless(play)


def test_nobody_who_waits_gets_a_turn_once_it_is_over() -> None:
    async def play() -> None:
        scene = Scene(Limits(concurrency=1))
        first = asyncio.ensure_future(scene.send(took=1))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(scene.send()) for _ in range(3)]
        await asyncio.sleep(0.1)
        scene.gate.turn_away(lambda _: Parked(0, "over"))
        outcomes = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), Parked, Parked, Parked]

    timeless(play)
