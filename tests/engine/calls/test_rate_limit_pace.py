"""The gate of a model: how many a minute, and when to come back."""

from __future__ import annotations

import asyncio
import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from peira.core.models import ModelLimits
from peira.engine.calls.rate_limit import BURST, LONGEST_ASKED, PATIENCE, STRIKES, MinuteRate
from peira.errors import Parked

from .timeless import ODD, SLACK, Scene, busy, now, spans, timeless

# So much a minute


@given(st.floats(1, 6000), st.lists(st.floats(0, 10), min_size=1, max_size=60))
def test_a_pace_is_never_outrun(rate: float, pauses: list[float]) -> None:
    pace, clock, sent = MinuteRate(rate), 0.0, []
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
        scene = Scene(ModelLimits(requests=rate))

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
        scene = Scene(ModelLimits(tokens=rate))
        for expected, used in calls:
            await scene.persist(tokens=expected, used=used, took=0.01)
        for length, _, tokens in spans(scene.sent):
            assert tokens <= rate / 60 * (length + BURST) + ODD

    timeless(play)


def test_tokens_that_were_not_used_are_there_for_the_next() -> None:
    async def play() -> None:
        scene = Scene(ModelLimits(tokens=600))
        for _ in range(50):
            await scene.send(tokens=1000, used=1, took=0.01)
        assert now() < 50 * 1000 / 600 * 60 / 10

    timeless(play)


def test_the_rate_is_used_and_not_only_kept() -> None:
    """120 a minute: 100 calls take about 49 s, with workers that are sent away and come back."""

    async def play() -> None:
        scene = Scene(ModelLimits(requests=120))
        await asyncio.gather(*(scene.persist() for _ in range(100)))
        assert 48 <= now() < 55
        assert len(scene.parked) < 200  # hardly anybody is sent away twice

    timeless(play)


# Sent away, and when to come back


@given(
    st.sampled_from(
        [ModelLimits(requests=30), ModelLimits(tokens=600), ModelLimits(requests=60, tokens=1200)]
    )
)
def test_who_is_sent_away_gets_a_moment_of_its_own(limits: ModelLimits) -> None:
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
        scene = Scene(ModelLimits(requests=30))
        await asyncio.gather(*(scene.persist() for _ in range(30)))
        assert len(scene.parked) < 30

    timeless(play)


def test_who_waits_a_little_just_waits() -> None:
    async def play() -> None:
        scene = Scene(ModelLimits(requests=60))
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
        scene = Scene(ModelLimits(concurrency=1))
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


@pytest.mark.parametrize("asked", [90.0, 7200.0, 1e9, math.inf])
@pytest.mark.parametrize("busily", [True, False])
def test_a_long_wait_is_told_and_an_absurd_one_is_bounded(asked: float, busily: bool) -> None:
    async def play() -> None:
        scene = Scene()
        how = {"problem": busy(retry_after=asked)} if busily else {"wait": asked}
        await scene.round(3, **how)
        closed = now()
        await scene.persist()
        assert scene.sent[-1][0] - closed == pytest.approx(min(asked, LONGEST_ASKED), abs=1)
        [said] = scene.said
        assert said.startswith("m asks to wait ")
        assert said.endswith("too long: it is asked again in 60 min") == (asked > LONGEST_ASKED)

    timeless(play)


def test_a_short_wait_is_not_told() -> None:
    async def play() -> None:
        scene = Scene()
        await scene.round(3, problem=busy(retry_after=30))
        assert scene.said == []

    timeless(play)
