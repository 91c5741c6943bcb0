"""The gate of a model that is down: it is paused, tried, and given up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import pytest

from peira.engine.calls.rate_limit import PROBES, STRIKES
from peira.errors import CallFailed, Parked

from .timeless import Scene, busy, lost, now, refused, timeless


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


@pytest.mark.parametrize("problem", [busy, lambda: CallFailed("too long a prompt", status=400)])
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
