"""An answer with status 200 that is odd: it is recorded, and costs at most its attempt."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import peira
from peira import ask, ask_async, study
from peira.cli import main
from peira.core.log.events import CallAnswered, CallIntended, CallRead
from peira.core.models import Answer, Reply, Usage, token_count
from peira.core.registry import registry

from .conftest import CENT, Project, at, conducted, events, notices, problems, sound, studied

HUGE = 2**63


def chat(**usage: Any) -> dict[str, Any]:
    message = {"role": "assistant", "content": "Paris"}
    return {"model": "m", "choices": [{"message": message, "finish_reason": "stop"}], "usage": usage}


def raw(body: dict[str, Any]) -> dict[str, Any]:
    return {"raw": json.dumps(body)}


async def again(case: Any) -> Any:
    """Another agent than `asks`, with the same calls."""
    return (await ask_async("fast", case.input, max_tokens=10)).text


READABLE: dict[str, tuple[dict[str, Any], tuple[int | None, int | None]]] = {
    "whole float": (chat(prompt_tokens=12.0, completion_tokens=3), (12, 3)),
    "fraction": (chat(prompt_tokens=12.5, completion_tokens=3), (None, 3)),
    "true": (chat(prompt_tokens=True, completion_tokens=3), (None, 3)),
    "text": (chat(prompt_tokens="12", completion_tokens=3), (None, 3)),
    "2^63": (chat(prompt_tokens=HUGE, completion_tokens=3), (None, 3)),
    "10^40": (chat(prompt_tokens=12, completion_tokens=10**40), (12, None)),
    "negative": (chat(prompt_tokens=-12, completion_tokens=3), (None, 3)),
    "list": (chat(prompt_tokens=[12], completion_tokens={}), (None, None)),
    "details": (chat(prompt_tokens=1, completion_tokens=2, prompt_tokens_details=7), (1, 2)),
    "no usage": ({**chat(), "usage": "free"}, (None, None)),
    "model": ({**chat(prompt_tokens=1, completion_tokens=2), "model": 7}, (1, 2)),
    "model table": ({**chat(prompt_tokens=1, completion_tokens=2), "model": {"name": "m"}}, (1, 2)),
}


@pytest.mark.parametrize("name", READABLE)
def test_an_answer_that_is_odd_beside_its_text_is_used(fast: Any, capsys: Any, name: str) -> None:
    body, tokens = READABLE[name]
    fast.always(raw(body))
    outcome = conducted(studied(cases=3))
    assert [trial.output for trial in outcome.results.trials] == ["Paris"] * 3
    conducted(studied(cases=3, agent=again))
    assert fast.bills() == 3
    assert {(call.input, call.output) for call in peira.open("s.db").calls()} == {tokens}
    sound()
    assert main(["calls", "--store", "s.db"]) == 0
    assert main(["show", "--store", "s.db"]) == 0


DEEP = "[" * 5000 + "]" * 5000
UNREADABLE = {
    "deep": DEEP,
    "deep inside": json.dumps(chat(prompt_tokens=1)).replace('"Paris"', DEEP),
    "number as text": json.dumps(chat()).replace('"Paris"', "7"),
    "long number": json.dumps(chat()).replace('"Paris"', "7" * 5000),
    "half a surrogate": json.dumps(chat()).replace("Paris", "\\ud800"),
    "choices": json.dumps({**chat(), "choices": {"0": None}}),
}


@pytest.mark.parametrize("name", UNREADABLE)
def test_an_answer_that_cannot_be_read_costs_its_attempt(fast: Any, capsys: Any, name: str) -> None:
    fast.script({"raw": UNREADABLE[name]})
    outcome = conducted(studied(cases=3), parallel=1)
    assert (outcome.results.counts["succeeded"], outcome.results.counts["failed"]) == (2, 1)
    [line] = problems(outcome)
    assert "\n" not in line
    assert line.startswith("/chat/completions: an answer ")
    assert "(sent once; the answer is recorded, see `peira calls " in line
    [unread] = [call for call in peira.open("s.db").calls() if call.input is None]
    again = conducted(studied(cases=3))
    assert again.results.ok
    assert fast.bills() == 4
    assert peira.open("s.db").call(unread.key).call.sends == 2
    assert notices() == ["1 recorded answer could not be read: asked again, each send counted (peira calls)"]
    sound()
    assert main(["calls", unread.key[:12], "--store", "s.db"]) == 0
    assert "Traceback" not in "".join(capsys.readouterr())


def test_a_broken_answer_is_asked_again_by_retries_each_send_counted(endpoint: Any, project: Project) -> None:
    """`retries = 2`: three sends, each billed, and the last one is understood."""
    project(fast=at(endpoint, price=CENT))
    broken = {"raw": '{"choices": [{"mess'}
    endpoint.script(broken, broken, {"text": "Paris", "usage": {"input": 7, "output": 10}})
    policy = {"retries": 2, "backoff": 0.01}
    outcome = conducted(studied(cases=1, policy=policy, budget={"calls": 3}))
    assert [trial.output for trial in outcome.results.trials] == ["Paris"]
    assert (endpoint.bills(), outcome.results.trials[0].attempts) == (3, 3)
    assert [event.send for event in events(CallIntended)] == [1, 2, 3]
    (spent,) = outcome.results.spent_by_model
    assert (spent.sends, spent.answers, spent.unpriced) == (3, 3, 2)
    sound()


def test_retries_that_are_used_up_say_what_to_do(fast: Any) -> None:
    fast.always({"raw": '{"choices": [{"mess'})
    outcome = conducted(studied(cases=1, policy={"retries": 2, "backoff": 0.01}))
    [line] = problems(outcome)
    assert "an answer that is no JSON" in line
    assert "(sent 3 times; the answer is recorded" in line
    assert "each of policy.retries and each later run asks again" in line
    fast.always({"text": "Paris"})
    assert conducted(studied(cases=1)).results.ok
    assert fast.bills() == 4
    sound()


def test_a_trial_that_made_do_without_an_answer_keeps_its_result(fast: Any) -> None:
    """Another agent asks the call again; the trial that caught its failure is left as it is."""
    fast.script({"raw": "{"})

    def careful(case: Any) -> str:
        try:
            return ask("fast", case.input, max_tokens=10).text
        except peira.errors.CallFailed:
            return "nothing"

    first = conducted(studied(careful, cases=1))
    assert [trial.output for trial in first.results.trials] == ["nothing"]
    assert conducted(studied(cases=1)).results.ok
    assert [t.output for t in peira.open("s.db").results(first.results.run_id).trials] == ["nothing"]
    assert fast.bills() == 2
    sound()


@pytest.mark.parametrize(
    "headers",
    [
        {"date": "Mon, 01 Jan 99999 00:00:00 GMT", "retry-after": "Fri, 31 Dec 9999 23:59:59 GMT"},
        {"date": "Mon, 01 Jan 0001 00:00:00 +1400", "x-ratelimit-remaining": "0", "x-ratelimit-reset": "1s"},
        {"date": "0001-01-01T00:00:00+14:00", "retry-after": "0"},
        {"x-request-id": "\udcff"},
    ],
)
def test_absurd_headers_are_no_failure(fast: Any, headers: dict[str, str]) -> None:
    fast.script({"text": "Paris", "headers": headers})
    assert conducted(studied(cases=1)).results.ok
    sound()


class Odd:
    """A model whose answers are read by odd code: `read` does what the name says."""

    def __init__(self, model: str) -> None:
        self.name, self.identity, self._model = f"plugged:{model}", {"odd": model}, model

    def check(self) -> None:
        return None

    async def send(self, request: Any) -> Answer:
        return Answer(200, b"Paris", 0.0)

    def read(self, answer: Answer) -> Any:
        if self._model == "raises":
            raise ZeroDivisionError("by a\nlot")
        if self._model == "types":
            return Reply("Paris", model=7, usage=Usage(True, -1))  # type: ignore[arg-type]
        return Reply(b"Paris") if self._model == "bytes" else None  # type: ignore[arg-type]

    async def close(self) -> None:
        return None


def asked_of(model: str) -> peira.Study:
    return study(agent=lambda case: ask(model, case.input).text, name="s", cases=["q"], policy={"retries": 0})


def test_whatever_a_plug_in_does_when_it_reads(folder: Path) -> None:
    registry.add("model", "plugged", Odd)
    lines = {}
    for name in ("raises", "bytes", "nothing"):
        outcome = conducted(asked_of(f"plugged:{name}"), f"{name}.db")
        [lines[name]] = problems(outcome)
        assert len(events(CallAnswered, f"{name}.db")) == 1
        [line] = problems(conducted(asked_of(f"plugged:{name}"), f"{name}.db"))
        assert "(sent 2 times; " in line
        assert sorted(event.send for event in events(CallIntended, f"{name}.db")) == [1, 2]
        sound(f"{name}.db")
    assert "cannot be read: ZeroDivisionError: by a lot (sent once" in lines["raises"]
    assert all("its answer is recorded, and cannot be read" in line for line in lines.values())
    assert conducted(asked_of("plugged:types"), "types.db").results.ok
    assert events(CallRead, "types.db") == []
    sound("types.db")


KILLED = """
import os, sys
from peira import ask, run, study
from peira.core.models import Answer, Reply, Usage
from peira.core.registry import registry

class Deadly:
    name, identity = "deadly:m", {"deadly": 1}
    def __init__(self, model): pass
    def check(self): pass
    async def send(self, request):
        with open("bills", "a") as bills:
            bills.write("1")
        return Answer(200, b"Paris", 0.0)
    def read(self, answer):
        if sys.argv[1] == "dies":
            os._exit(9)
        return Reply("Paris", model="m", usage=Usage(3, 1))
    async def close(self): pass

registry.add("model", "deadly", Deadly)
asked = study(agent=lambda case: ask("deadly:m", case.input).text, name="s", cases=["q"], version="1")
print(run(asked, store="s.db", progress=False).trials[0].output)
"""


def test_an_answer_is_durable_before_it_is_read(folder: Path) -> None:
    (folder / "s.py").write_text(KILLED)
    assert subprocess.run([sys.executable, "s.py", "dies"], cwd=folder).returncode == 9
    assert [len(events(kind)) for kind in (CallAnswered, CallRead)] == [1, 0]
    done = subprocess.run([sys.executable, "s.py", "lives"], cwd=folder, capture_output=True, text=True)
    assert done.stdout.strip() == "Paris"
    assert (folder / "bills").read_text() == "1"
    [read] = events(CallRead)
    assert (read.input, read.output, read.served) == (3, 1, "m")
    sound()


@pytest.mark.parametrize(
    ("said", "count"),
    [(0, 0), (12, 12), (12.0, 12), (2**53 - 1, 2**53 - 1), (2**53, None), (1e300, None), (0.5, None)]
    + [(said, None) for said in (True, False, "12", None, -1, [], {}, float("nan"), float("inf"))],
)
def test_what_is_a_number_of_tokens(said: Any, count: int | None) -> None:
    assert token_count(said) == count
    assert type(token_count(said)) in (int, type(None))
