"""Recorded steps, in trials that a run really makes: computed once, replayed, and never stale."""

from __future__ import annotations

import asyncio
import gc
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from peira import Case, current_trial, run, step, study
from peira.core.context import SeenCase, Trial, enter
from peira.core.log.events import StepRecorded
from peira.errors import Abandoned, NotInTrial, NotJson
from peira.spec.modules import load_file
from peira.stores.memory import MemoryStore
from peira.testing import MemoryChannel

TWICE = {"retries": 1, "backoff": 0}


def recorded(store: MemoryStore) -> list[StepRecorded]:
    return [record.event for record in store.history() if isinstance(record.event, StepRecorded)]


@pytest.fixture
def calls() -> list[Any]:
    """What a step's function was really called with."""
    return []


def test_a_retry_replays_what_was_recorded(calls: list[Any]) -> None:
    def look_up(word: str, *, times: int = 1) -> dict[str, Any]:
        calls.append(word)
        return {"word": word, "half": 0.5, "times": times, "pair": (1, 2.0)}

    @study(cases=[Case("a"), Case("b")], policy=TWICE)
    def agent(case: Any) -> Any:
        found = step("look up", look_up, case.input, times=2)
        if current_trial().attempt == 1:
            raise OSError("after the step")
        return found

    store = MemoryStore()
    results = run(agent, store=store, progress=False)
    assert sorted(calls) == ["a", "b"]
    assert [t.output for t in results.trials] == [
        {"word": word, "half": 0.5, "times": 2, "pair": [1, 2]} for word in "ab"
    ]
    assert [event.name for event in recorded(store)] == ["look up"] * 2


def test_a_step_gives_the_same_value_when_computed_and_when_replayed() -> None:
    """Also in its types: 2.0 is recorded as 2, a tuple as a list, and so they are given at once."""

    def value() -> Any:
        return [2.0, (1,), 1e20, 0.1]

    @study(cases=[Case("a")], policy=TWICE)
    def agent(case: Any) -> Any:
        seen = repr(step("value", value))
        if current_trial().attempt == 1:
            raise ValueError(seen)
        return seen

    store = MemoryStore()
    [trial] = run(agent, store=store, progress=False).trials
    [retried] = [r.event for r in store.history() if type(r.event).__name__ == "TaskRetried"]
    assert retried.result.failure.message == trial.output == "[2, [1], 1e+20, 0.1]"


def test_equal_steps_are_told_apart_by_their_order(calls: list[Any]) -> None:
    def draw() -> int:
        calls.append(None)
        return len(calls)

    @study(cases=[Case("a")], policy=TWICE)
    def agent(case: Any) -> Any:
        drawn = [step("draw", draw) for _ in range(3)]
        if current_trial().attempt == 1:
            raise OSError("after three")
        return [*drawn, step("draw", draw)]

    [trial] = run(agent, store=MemoryStore(), progress=False).trials
    assert trial.output == [1, 2, 3, 4]


def test_async_steps_replay_however_they_interleave(calls: list[Any]) -> None:
    async def fetch(n: int) -> int:
        calls.append(n)
        await asyncio.sleep(0.01 * (3 - n))
        return n * n

    @study(cases=[Case("a")], policy=TWICE)
    async def agent(case: Any) -> Any:
        found = await asyncio.gather(*[step("fetch", fetch, n) for n in range(3)])
        if current_trial().attempt == 1:
            raise OSError("after all")
        return found

    [trial] = run(agent, store=MemoryStore(), progress=False).trials
    assert trial.output == [0, 1, 4]
    assert sorted(calls) == [0, 1, 2]


def trial(channel: MemoryChannel, id: str = "t") -> Trial:
    return Trial(
        id=id, case=SeenCase("x", "x"), condition={}, repeat=0, attempt=2, agent="a", channel=channel
    )


def told(steps: MemoryChannel, id: str, *arguments: Any, **named: Any) -> tuple[Any, str]:
    """What a step gives in a fresh attempt of a trial, and its key."""
    before = set(steps.steps)
    enter(trial(steps, id))
    try:
        value = step(*arguments, **named)
    finally:
        enter(None)
    return value, "".join(set(steps.steps) - before)


def version_one(n: int) -> int:
    return n + 1


def version_two(n: int) -> int:
    return n + 2


def test_a_step_is_new_with_its_function_its_name_its_arguments_or_its_trial() -> None:
    steps = MemoryChannel()
    first, key = told(steps, "t", "work", version_one, 1)
    assert (first, bool(key)) == (2, True)
    assert told(steps, "t", "work", version_one, 1) == (2, "")
    assert told(steps, "t", "work", version_one, 1.0) == (2, "")  # the same argument
    for other in (
        ("t", "work", version_two, 1),
        ("t", "work", version_one, 2),
        ("t", "play", version_one, 1),
        ("u", "work", version_one, 1),
    ):
        _, another = told(steps, *other)
        assert another
    assert told(steps, "t", "work", version_two, 1) == (3, "")


def test_an_edited_function_is_a_new_step(tmp_path: Path) -> None:
    steps, file = MemoryChannel(), tmp_path / "f.py"
    values = []
    for source in (
        "def work(n): return n + 1",
        "def work(n):\n    # a comment\n    return n + 1",
        "def work(n): return n + 10",
    ):
        file.write_text(source)
        values.append(told(steps, "t", "work", load_file(file).work, 1))
    assert [value for value, _ in values] == [2, 2, 11]
    assert [bool(key) for _, key in values] == [True, False, True]


def test_a_function_may_have_any_argument_name() -> None:
    def greet(name: str, fn: str) -> str:
        return name + fn

    assert told(MemoryChannel(), "t", "greet", greet, name="a", fn="b")[0] == "ab"


def test_arguments_and_values_must_be_json() -> None:
    steps = MemoryChannel()
    with pytest.raises(NotJson, match=r"arguments of step 'work'\[0\]\[0\]: a set is not JSON"):
        told(steps, "t", "work", version_one, {1})
    with pytest.raises(NotJson, match=r"step 'make'\[0\]: a set is not JSON"):
        told(steps, "t", "make", lambda: [{1}])
    assert steps.steps == {}


def test_a_step_that_raises_is_not_recorded() -> None:
    steps = MemoryChannel()

    def fail() -> None:
        raise KeyError("x")

    with pytest.raises(KeyError):
        told(steps, "t", "fail", fail)
    assert steps.steps == {}


def test_a_step_outside_a_trial_is_refused() -> None:
    with pytest.raises(NotInTrial):
        step("work", version_one, 1)


def test_an_abandoned_attempt_takes_no_step() -> None:
    channel = MemoryChannel()
    channel.close()
    ran = []
    with pytest.raises(Abandoned):
        told(channel, "t", "work", lambda: ran.append(1))
    assert ran == []


def test_an_abandoned_async_step_leaves_nothing_behind() -> None:
    channel = MemoryChannel()
    channel.close()

    async def work() -> int:
        return 1

    async def attempt() -> None:
        enter(trial(channel))
        await step("work", work)

    with warnings.catch_warnings(record=True) as heard:
        warnings.simplefilter("always")
        with suppress(Abandoned):
            asyncio.run(attempt())
        gc.collect()
    assert [str(warning.message) for warning in heard] == []
