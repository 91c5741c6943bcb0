"""The gate of a model: how many at once, and those who stop waiting for their turn."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hypothesis import given
from hypothesis import strategies as st

from peira.core.models import ModelLimits
from peira.errors import CallFailed, Parked

from .timeless import Scene, busy, lost, now, refused, timeless

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
        scene = Scene(ModelLimits(concurrency=most))

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
        scene = Scene(ModelLimits(concurrency=6))
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


# Those who stop waiting


def test_a_turn_that_nobody_waits_for_any_more_is_anothers() -> None:
    async def play() -> None:
        scene = Scene(ModelLimits(concurrency=1))
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
        scene = Scene(ModelLimits(concurrency=1))
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
        scene = Scene(ModelLimits(concurrency=1))
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
        scene = Scene(ModelLimits(concurrency=most))

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
        scene = Scene(ModelLimits(concurrency=1))
        first = asyncio.ensure_future(scene.send(took=1))
        await asyncio.sleep(0)
        others = [asyncio.ensure_future(scene.send()) for _ in range(3)]
        await asyncio.sleep(0.1)
        scene.gate.turn_away(lambda _: Parked(0, "over"))
        outcomes = await asyncio.gather(first, *others, return_exceptions=True)
        assert [type(outcome) for outcome in outcomes] == [type(None), Parked, Parked, Parked]

    timeless(play)
