"""Tools: a reply goes back as it is, and what they were asked and gave can be seen."""

from __future__ import annotations

import html
import json
import re
from copy import deepcopy
from pathlib import Path
from typing import Any

import msgspec
import pytest

import peira
from peira import ask
from peira.cli import main
from peira.core.ids import normalise
from peira.core.models import Reply, ToolCall

from .conftest import Project, conducted, sound, studied

CALLED = {"id": "call_1", "name": "look_up", "arguments": {"word": "Paris"}}
ASKS_A_TOOL = {"text": "", "tool_calls": [CALLED], "finish": "tool_calls"}


def own(reply: Reply) -> list[Any]:
    return [reply.message, {"role": "tool", "id": reply.tool_calls[0].id, "content": "a city"}]


def whole(reply: Reply) -> list[Any]:
    return [reply, {"role": "tool", "tool_call_id": reply.tool_calls[0]["id"], "content": "a city"}]


def as_openai(reply: Reply) -> list[Any]:
    (call,) = reply.tool_calls
    function = {"name": call.name, "arguments": json.dumps(call.arguments)}
    said = {"id": call.id, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "", "tool_calls": [said]},
        {"role": "tool", "tool_call_id": call.id, "content": "a city"},
    ]


def agent(form: Any) -> Any:
    def tooled(case: Any) -> str:
        messages: list[Any] = [{"role": "user", "content": case.input}]
        reply = ask("fast", messages)
        peira.current_trial().log("called", calls=reply.tool_calls)
        return ask("fast", [*messages, *form(reply)]).text

    return tooled


@pytest.mark.parametrize("provider", ["openai", "anthropic"])
@pytest.mark.parametrize("form", [own, whole, as_openai])
def test_a_reply_with_tool_calls_is_given_back_as_it_is(
    endpoint: Any, project: Project, form: Any, provider: str
) -> None:
    base = f"{endpoint.base}/v1" if provider == "openai" else endpoint.base
    project(fast={"model": f"{provider}:{endpoint.model}", "base_url": base})
    endpoint.script(ASKS_A_TOOL, {"text": "It is a city."})
    outcome = conducted(studied(agent(form), cases=1))
    assert [trial.output for trial in outcome.results.trials] == ["It is a city."], outcome.results.failures
    conducted(studied(agent(own), cases=1))
    assert endpoint.bills() == 2, "every form is the same request"
    sound()


def test_the_transcript_has_tool_calls_with_arguments_and_results(
    fast: Any, folder: Path, capfd: Any
) -> None:
    fast.script(ASKS_A_TOOL, {"text": "It is a city."})
    results = conducted(studied(agent(own), cases=1)).results
    assert main(["show", results.run_id[:8], results.trials[0].id[:8], "--store", "s.db"]) == 0
    shown = capfd.readouterr().out
    assert 'calls look_up({"word":"Paris"}) -> a city' in shown
    assert "It is a city." in shown
    assert main(["show", results.run_id[:8], results.trials[0].id[:8], "--store", "s.db", "--json"]) == 0
    entries = json.loads(capfd.readouterr().out)["transcript"]
    assert [(one["kind"], one.get("role")) for one in entries] == [
        ("message", "user"),
        ("message", "assistant"),
        ("note", None),
        ("message", "assistant"),
    ]
    asked, first, _, second = entries
    assert asked["text"] == results.trials[0].input
    (used,) = first["tool_calls"]
    assert used == {**CALLED, "result": "a city", "error": False, "seconds": None}
    assert (second["text"], second["tool_calls"]) == ("It is a city.", [])
    results.export("trials.jsonl")
    (line,) = (folder / "trials.jsonl").read_text().splitlines()
    assert json.loads(line)["transcript"] == entries
    results.report("report.html")
    page = html.unescape((folder / "report.html").read_text())
    assert 'calls look_up({"word":"Paris"})' in page
    assert "tool (call_1): a city" in page
    assert '<li class="message assistant">' in page
    assert re.search(r"<h5>Arguments</h5>.*Paris.*<h5>Result</h5>.*a city", page, re.DOTALL)
    results.report("report.md")
    assert 'calls look_up({"word":"Paris"}) -> a city' in (folder / "report.md").read_text()


def test_tool_calls_are_json() -> None:
    reply = Reply("", tool_calls=(ToolCall("c", "f", {"a": [1]}),))
    (call,) = reply.tool_calls
    assert (call.id, call.name, call.arguments) == ("c", "f", {"a": [1]})
    plain = [{"id": "c", "name": "f", "arguments": {"a": [1]}}]
    assert json.loads(json.dumps(reply.tool_calls)) == normalise(reply.tool_calls) == plain
    again = msgspec.json.decode(msgspec.json.encode(reply), type=Reply)
    assert again == reply
    assert type(again.tool_calls[0]) is type(deepcopy(reply).tool_calls[0]) is ToolCall
    assert normalise(reply.message) == {"role": "assistant", "content": "", "tool_calls": plain}
    assert Reply("hi").message == {"role": "assistant", "content": "hi"}
