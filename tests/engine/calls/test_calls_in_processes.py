"""Calls of one attempt in another process: made at the same time, and left to whoever comes after it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.core.log.events import CallAnswered, Observed, Reported, StepRecorded
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

Conducted = Callable[..., peira.Results]
ASKED = [f"q{i}" for i in range(8)]
AGENTS = """
import asyncio, os, signal, threading, time
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from pathlib import Path
from peira import ask, ask_async, current_trial, step, study
from peira.core.models import Request
from peira.errors import Abandoned

MODEL = os.environ["PEIRA_TEST_MODEL"]
ASKED = [f"q{i}" for i in range(8)]

@study(cases=["x"])
async def gathered(case):
    replies = await asyncio.gather(*(ask_async(MODEL, one) for one in ASKED))
    return [reply.text for reply in replies]

@study(cases=["x"])
def threaded(case):
    with ThreadPoolExecutor(len(ASKED)) as threads:
        asked = [threads.submit(copy_context().run, ask, MODEL, one) for one in ASKED]
        return [one.result().text for one in asked]

@study(cases=["x"])
async def ticking(case):
    trial, asked = current_trial(), asyncio.ensure_future(ask_async(MODEL, "slow"))
    await asyncio.sleep(0)
    for i in range(3):
        trial.log("tick", n=i)
        trial.report(ticks=i + 1.0)
        await step("tick", asyncio.sleep, 0.0, i)
    early = not asked.done()
    return [early, (await asked).text]

@study(cases=["x"], policy={"retries": 1, "backoff": 0.01})
async def dying(case):
    asked = [asyncio.ensure_future(ask_async(MODEL, one)) for one in ASKED]
    await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
    if current_trial().attempt == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    return [(await one).text for one in asked]

@study(cases=["x", "y"], order="given")
def leaving(case):
    def waits(asked):
        try:
            asked.result()
        except Abandoned as signal:
            Path("told x").write_text(str(signal))
    if case.input == "x":
        request = Request(messages=({"role": "user", "content": "x"},))
        asked = current_trial().channel.call(MODEL, request, "")
        threading.Thread(target=waits, args=(asked,), daemon=True).start()
        return 0
    while not Path("told x").exists():
        time.sleep(0.01)
    return ask(MODEL, "y").text

@study(cases=["deaf", "other"], order="given", policy={"timeout": 8})
def deaf(case):
    if case.input == "deaf":
        current_trial().channel.call(MODEL, Request(messages=({"role": "user", "content": "much"},)), "")
        Path("deaf").symlink_to(f"/proc/{os.getpid()}")
        os.kill(os.getpid(), signal.SIGSTOP)
    while not Path("deaf").exists():
        time.sleep(0.01)
    time.sleep(0.5)
    return [ask(MODEL, "little").text, Path("deaf/exe").exists()]

@study(cases=["x"])
async def impatient(case):
    try:
        return (await asyncio.wait_for(ask_async(MODEL, "slow"), 0.2)).text
    except TimeoutError:
        return (await ask_async(MODEL, "quick")).text
"""


@pytest.fixture
def conducted(endpoint: Any, written: Any, monkeypatch: pytest.MonkeyPatch) -> Conducted:
    monkeypatch.setenv("PEIRA_TEST_MODEL", f"openai:{endpoint.model}")
    written(AGENTS)

    def conduct(name: str, runner: str = "process", parallel: int = 1) -> peira.Results:
        results = peira.run(f"s.py:{name}", store="s.db", runner=runner, parallel=parallel, progress=False)
        opened = SqliteStore("s.db", readonly=True)
        assert list(verify(opened)) == []
        opened.close()
        return results

    return conduct


def output(results: peira.Results) -> Any:
    assert results.ok, results.failures
    [trial] = results.trials
    return trial.output


@pytest.mark.parametrize("runner", ["local", "process"])
@pytest.mark.parametrize("agent", ["gathered", "threaded"])
def test_calls_of_one_attempt_are_at_the_endpoint_at_the_same_time(
    endpoint: Any, conducted: Conducted, agent: str, runner: str
) -> None:
    endpoint.always({"delay": 1.5})
    results = conducted(agent, runner)
    assert output(results) == ASKED
    assert (endpoint.peak(), endpoint.bills()) == (len(ASKED), len(ASKED))
    assert results.trials[0].metrics["calls"] == len(ASKED)


def test_a_loop_in_another_process_goes_on_while_a_model_is_waited_for(
    endpoint: Any, conducted: Conducted
) -> None:
    """And what it records meanwhile is in the log in the order in which it was said, before the answer."""
    endpoint.always({"delay": 3.0})
    results = conducted("ticking")
    assert output(results) == [True, "slow"]
    assert results.trials[0].metrics["ticks"] == 3
    kinds = (Observed, Reported, StepRecorded, CallAnswered)
    said = [r.event for r in peira.open("s.db").events(limit=1000) if isinstance(r.event, kinds)]
    assert [type(event) for event in said] == [Observed, Reported, StepRecorded] * 3 + [CallAnswered]


def test_answers_to_a_process_that_died_are_not_bought_again(endpoint: Any, conducted: Conducted) -> None:
    endpoint.script({"text": "first"}, *({"text": "later", "delay": 0.7} for _ in ASKED[1:]))
    assert sorted(output(conducted("dying"))) == ["first", *["later"] * (len(ASKED) - 1)]
    assert sorted(endpoint.billed()) == ASKED


def test_an_attempt_ends_without_the_thread_that_still_waits(
    endpoint: Any, conducted: Conducted, folder: Path
) -> None:
    endpoint.always({"delay": 1.0})
    results = conducted("leaving")
    assert [trial.output for trial in results.trials] == [0, "y"]
    told = (folder / "told x").read_text()  # by whom it hears of it first: its own process, or the run
    assert "has ended" in told or "this attempt was abandoned" in told


@pytest.mark.skipif(not Path("/proc/self/exe").exists(), reason="looks for a process in /proc")
def test_a_process_that_does_not_read_its_answers_keeps_nobody_from_theirs(
    endpoint: Any, conducted: Conducted
) -> None:
    endpoint.script({"text": "x" * 3_000_000})
    deaf, other = conducted("deaf", parallel=2).trials
    assert (deaf.state.value, other.output) == ("failed", ["little", True])  # answered while it was there


def test_who_stops_waiting_asks_the_next(endpoint: Any, conducted: Conducted) -> None:
    endpoint.script({"text": "too late", "delay": 2.0})
    assert output(conducted("impatient")) == "quick"
