"""The current trial: where it is, whose it is, and what an agent can say through it."""

from __future__ import annotations

import asyncio
import random
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pytest

from peira.core.context import SeenCase, Trial, current_trial, enter
from peira.core.ids import digest, seed_of
from peira.errors import Abandoned, NotInTrial
from peira.testing import MemoryChannel


def make(name: str = "t", **fields: Any) -> Trial:
    given = {"condition": {"style": "plain"}, "repeat": 0, "attempt": 1, "agent": "a", **fields}
    return Trial(
        id=digest(name), case=SeenCase({"q": [1]}, "c", metadata={"m": []}), channel=MemoryChannel(), **given
    )


@pytest.fixture
def trial() -> Iterator[Trial]:
    """A trial that this test is in."""
    trial = make()
    enter(trial)
    yield trial
    enter(None)
    trial.channel.close()  # type: ignore[attr-defined]


def test_outside_a_trial_there_is_none() -> None:
    with pytest.raises(NotInTrial, match="outside a trial"):
        current_trial()


def test_inside_it_is_the_current_one(trial: Trial) -> None:
    assert current_trial() is trial


def test_each_thread_is_in_its_own_trial(trial: Trial) -> None:
    seen: dict[str, str] = {}
    together = threading.Barrier(3)

    def work(name: str) -> None:
        enter(make(name))
        together.wait()
        seen[name] = current_trial().id

    threads = [threading.Thread(target=work, args=(name,)) for name in "xyz"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seen == {name: digest(name) for name in "xyz"}
    assert current_trial() is trial


def test_each_asyncio_task_and_its_threads_are_in_their_own_trial() -> None:
    async def work(name: str) -> list[str]:
        enter(make(name))
        await asyncio.sleep(0)
        inner = await asyncio.to_thread(lambda: current_trial().id)
        spawned = await asyncio.create_task(later())
        return [current_trial().id, inner, spawned]

    async def later() -> str:
        return current_trial().id

    async def all_of_them() -> list[list[str]]:
        return await asyncio.gather(*map(work, "xyz"))

    assert asyncio.run(all_of_them()) == [[digest(name)] * 3 for name in "xyz"]


def test_randomness_is_the_trials_own_and_the_same_each_time() -> None:
    one, again, other = make("x"), make("x", attempt=2), make("y")
    drawn = one.rng.random()
    assert one.seed == again.seed == seed_of(digest("x"))
    assert drawn == again.rng.random() == random.Random(one.seed).random() != other.rng.random()
    assert one.rng is one.rng
    assert list(one.numpy_rng.normal(size=3)) == list(numpy.random.default_rng(one.seed).normal(size=3))
    assert one.numpy_rng is one.numpy_rng


def test_what_is_reported_goes_through_the_channel(trial: Trial, tmp_path: Path) -> None:
    trial.log("looked", at=["a"])
    trial.report(tokens=3, sure=0.5)
    trial.describe(model="m", provider="p")
    (tmp_path / "f").write_bytes(b"file")
    digests = [trial.attach("b", b"bytes"), trial.attach("t", "täxt"), trial.attach("f", tmp_path / "f")]
    channel: Any = trial.channel
    assert channel.observed == [("looked", {"at": ["a"]})]
    assert channel.metrics == {"tokens": 3.0, "sure": 0.5}
    assert channel.about == {"model": "m", "provider": "p"}
    assert channel.attached == {"b": b"bytes", "t": "täxt".encode(), "f": b"file"}
    assert len(set(digests)) == 3
    (trial.workdir / "note").write_text("x")
    assert (trial.workdir / "note").exists()


def test_an_observation_may_have_any_field(trial: Trial) -> None:
    trial.log("tool", name="search", self="me")
    assert trial.channel.observed == [("tool", {"name": "search", "self": "me"})]  # type: ignore[attr-defined]


def test_describe_takes_what_it_knows(trial: Trial) -> None:
    with pytest.raises(TypeError, match=r"describe\(\) takes kind, .* not colour, mood"):
        trial.describe(mood="fine", colour="red", model="m")


def test_an_abandoned_attempt_can_do_nothing_more_and_cannot_shrug_it_off(trial: Trial) -> None:
    trial.channel.close()  # type: ignore[attr-defined]
    for act in (
        lambda: trial.log("x"),
        lambda: trial.report(x=1),
        lambda: trial.describe(model="m"),
        lambda: trial.attach("x", b""),
        lambda: trial.workdir,
    ):
        with pytest.raises(Abandoned):
            act()
    assert not issubclass(Abandoned, Exception)


def test_a_case_of_ones_own_is_a_copy() -> None:
    case = SeenCase({"q": [1]}, "c", metadata={"m": []})
    mine = case.own()
    mine.input["q"].append(2)
    mine.metadata["m"].append(2)
    assert case == SeenCase({"q": [1]}, "c", metadata={"m": []})


def test_a_trial_shows_itself_without_its_input() -> None:
    shown = repr(make())
    assert shown == f"Trial({digest('t')[:12]}, case='c', condition={{'style': 'plain'}}, repeat=0)"


def test_a_case_says_what_an_agent_does_not_see() -> None:
    seen = SeenCase("2 + 2?", "c")
    with pytest.raises(AttributeError, match="does not see what is expected"):
        _ = seen.expected
    with pytest.raises(AttributeError, match="a case has no 'prompt'; known: input, id"):
        _ = seen.prompt
    assert not hasattr(seen, "expected")
