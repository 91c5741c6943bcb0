"""MCP servers as tools: real ones, over standard streams and over HTTP."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from peira import agent, mcp
from peira.errors import Invalid, ToolFailed

from .conftest import Worked, calls, results

pytest.importorskip("mcp", reason="needs peira[mcp]")
SERVER = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]


def started(told: str) -> int:
    """The process in what the server told."""
    return int(told.split()[1])


def gone(pid: int) -> bool:
    for _ in range(100):
        if not psutil.pid_exists(pid):
            return True
        time.sleep(0.05)
    return False


def test_one_server_a_trial_with_its_results_and_errors(
    worked: Worked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret")
    monkeypatch.setenv("TOLD", "this")
    bot = agent("m", tools=[mcp(SERVER, env=["TOLD"])])
    replies = [calls(("add", {"a": 1, "b": 2}), ("broken", {}), ("add", {"a": "x"})), calls(("told", {}))]
    _, channel = worked(bot, replies)
    first, second, third, told = results(channel)
    assert first == "3"
    assert "broken" in second
    assert "valid integer" in third
    assert told.split()[0] == "1"
    assert told.split()[2:] == ["this", "-"], "it gets the variables that it is given, and no keys"
    assert channel.metrics["tool_errors"] == 2
    assert gone(started(told))
    schema = channel.asked[0][1].tools[0]
    assert (schema["name"], schema["description"]) == ("add", "Add two numbers.")
    _, other = worked(bot, replies)
    assert started(results(other)[-1]) != started(told)


def test_a_replayed_trial_starts_no_server(worked: Worked, tmp_path: Path) -> None:
    mark = tmp_path / "starts"
    command = ["/bin/sh", "-c", f'echo >> {mark}; exec "$@"', "sh", *SERVER]
    bot = agent("m", tools=[mcp(command)])
    replies = [calls(("add", {"a": 1, "b": 2}))]
    _, first = worked(bot, replies)
    assert mark.read_text() == "\n"
    _, again = worked(bot, replies, first.steps)
    assert again.asked == first.asked
    assert mark.read_text() == "\n"


def test_only_the_tools_that_are_allowed(worked: Worked) -> None:
    _, channel = worked(agent("m", tools=[mcp(SERVER, only=["told"])]), [calls(("add", {"a": 1, "b": 2}))])
    assert [tool["name"] for tool in channel.asked[0][1].tools] == ["told"]
    assert "there is no tool 'add'" in results(channel)[0]
    with pytest.raises(Invalid, match=r"no tool .tol.*did you mean"):
        worked(agent("m", tools=[mcp(SERVER, only=["tol"])]), [])


def test_a_shared_server_serves_several_trials(worked: Worked) -> None:
    bot = agent("m", tools=[mcp(SERVER, share=True)])
    pids = set()
    for n in (1, 2):
        _, channel = worked(bot, [calls(("add", {"a": n, "b": 2})), calls(("told", {}))])
        told = results(channel)[-1]
        assert int(told.split()[0]) == n
        pids.add(started(told))
    assert len(pids) == 1


@pytest.fixture
def served() -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    process = subprocess.Popen([*SERVER, str(port)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        for _ in range(300):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.kill()
        process.wait()


def test_over_http(worked: Worked, served: str) -> None:
    bot = agent("m", tools=[mcp(url=served, headers={"X-Who": "$HOME"})])
    _, channel = worked(bot, [calls(("add", {"a": 1, "b": 2}), ("broken", {}))])
    assert results(channel)[0] == "3"
    assert channel.metrics["tool_errors"] == 1


def test_a_server_that_does_not_start_fails_the_trial_and_not_the_model(worked: Worked) -> None:
    with pytest.raises(ToolFailed, match="/nowhere cannot be used"):
        worked(agent("m", tools=[mcp(["/nowhere"])]), [])
    with pytest.raises(ToolFailed):
        worked(agent("m", tools=[mcp(["/bin/true"])]), [])


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({}, "give a command or a url"),
        ({"command": "a b"}, "words as a list"),
        ({"command": ["a"], "url": "http://x"}, "give a command or a url"),
        ({"command": ["a"], "only": "x"}, "must be a list"),
        ({"command": ["a"], "timeout": 0}, "more than 0"),
    ],
)
def test_what_is_wrong_is_said_when_it_is_declared(given: Any, why: str) -> None:
    with pytest.raises(Invalid, match=why):
        mcp(**given)


def test_a_table_names_it() -> None:
    one = mcp(["a", "b"], only=["c"], share=True)
    bot = agent("m", tools=[one])
    again = agent("m", tools=bot.written()["tools"])
    assert again.identity == bot.identity
    assert agent("m", tools=[{"mcp": ["a", "b"], "only": ["c"], "share": True}]).identity == bot.identity
