"""The calls of commands are those of any trial: counted, limited, held in doubt, sent as they were said."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import peira
from peira.core.log.events import CallIntended
from peira.sandbox.confinement import confinement

pytestmark = pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")
TOOL = """
import anthropic, openai, sys
text, way = sys.stdin.read(), sys.argv[1]
asked = [{"role": "user", "content": text}]
if way == "chat":
    client = openai.OpenAI(max_retries=3)
    said = client.chat.completions.create(model="m", messages=asked, user="me", extra_body={"own": 1})
    print(said.choices[0].message.content)
elif way == "responses":
    with openai.OpenAI().responses.stream(model="m", input=text) as events:
        print(events.get_final_response().output_text)
else:
    more = {"model": "m", "max_tokens": 9, "messages": asked, "extra_body": {"own": 1}}
    with anthropic.Anthropic().messages.stream(**more) as events:
        print("".join(events.text_stream))
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "tool.py").write_text(TOOL)
    return tmp_path


def asks(model: str, *, ways: tuple[str, ...] = ("chat",), **fields: Any) -> Any:
    words = [sys.executable, "tool.py", "{way}"]
    agent = peira.command(words, stdin="{input}", files=["tool.py"], models={"*": model})
    return peira.study(name="asks", agent=agent, factors={"way": list(ways)}, cases=["one", "two"], **fields)


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
def test_the_vendors_own_clients_in_the_sandbox(folder: Path, endpoint: Any, provider: str) -> None:
    made = asks(f"{provider}:{endpoint.model}", ways=("chat", "responses", "messages"))
    results = peira.run(made, store="s.db", progress=False)
    assert [trial.failure for trial in results.trials] == [None] * 6
    assert sorted(trial.output for trial in results.trials) == ["one"] * 3 + ["two"] * 3
    assert endpoint.bills() == 6
    bodies = [seen.get("body", seen) for seen in endpoint.seen()]
    native = [body for body in bodies if "own" in body]
    assert len(native) == 2  # said in the provider's own words, and sent so
    assert all(("user" in body) == (provider == "openai") for body in native)


def test_a_budget_ends_the_command_and_the_run_goes_on_when_it_is_raised(folder: Path, endpoint: Any) -> None:
    model = f"openai:{endpoint.model}"
    results = peira.run(asks(model, budget={"calls": 1}), store="s.db", parallel=1, progress=False)
    assert results.status == "stopped by a limit"
    assert endpoint.bills() == 1
    more = peira.run(asks(model, budget={"calls": 2}), store="s.db", progress=False)
    assert (more.status, endpoint.bills()) == ("completed", 2)


def test_a_call_in_doubt_that_is_held_ends_the_command(folder: Path, endpoint: Any) -> None:
    endpoint.script({"do": "reset"})
    made = asks(f"openai:{endpoint.model}", policy={"in_doubt": "hold"})
    results = peira.run(made, store="s.db", parallel=1, progress=False)
    assert sorted(trial.state.value for trial in results.trials) == ["in_doubt", "succeeded"]
    assert endpoint.sends() == 2  # the client would have sent it again, three times


def test_a_failure_of_the_provider_is_resent_by_the_ledger_alone(folder: Path, endpoint: Any) -> None:
    endpoint.script({"fail": "free"}, {"fail": "doubt"})
    results = peira.run(asks(f"openai:{endpoint.model}"), store="s.db", parallel=1, progress=False)
    assert results.status == "completed"
    intents = [r for r in peira.open("s.db").events(results.run_id) if isinstance(r.event, CallIntended)]
    assert len(intents) == endpoint.sends() == 4


def test_prices_and_tokens_are_counted(folder: Path, endpoint: Any) -> None:
    model = {"model": f"openai:{endpoint.model}", "price": {"input": 1.0, "output": 2.0}}
    (folder / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": model}}))
    results = peira.run(asks("fast"), store="s.db", progress=False)
    for trial in results.trials:
        assert trial.metrics["cost"] > 0
        assert trial.metrics["calls"] == 1
        assert trial.about["served"] == "fast"
