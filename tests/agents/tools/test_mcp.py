"""MCP servers as tools: real ones, over standard streams and over HTTP."""

from __future__ import annotations

import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from peira import agent, mcp
from peira.errors import Invalid, ToolFailed
from peira.sandbox.confinement import process_namespace

from .conftest import Worked, calls, results

pytest.importorskip("mcp", reason="needs peira[mcp]")
SERVER = [sys.executable, str(Path(__file__).with_name("mcp_server.py"))]


def servers(mark: str = SERVER[1]) -> set[int]:
    """The processes of servers, by a word of their command lines."""
    found = set()
    for process in psutil.process_iter(["cmdline"]):
        if any(mark in word for word in process.info["cmdline"] or ()):
            found.add(process.pid)
    return found


def gone(mark: str = SERVER[1], before: set[int] = frozenset()) -> bool:  # type: ignore[assignment]
    """Whether all such processes end that were not there before."""
    for _ in range(200):
        if not servers(mark) - before:
            return True
        time.sleep(0.05)
    return False


def test_one_server_a_trial_with_its_results_and_errors(
    worked: Worked, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret-secret")
    monkeypatch.setenv("TOLD", "this")
    before = servers()
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
    assert gone(before=before)
    schema = channel.asked[0][1].tools[0]
    assert (schema["name"], schema["description"]) == ("add", "Add two numbers.")
    _, other = worked(bot, replies)
    assert results(other)[-1].split()[0] == "1", "another server, which has made one sum"


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
    for n in (1, 2):
        _, channel = worked(bot, [calls(("add", {"a": n, "b": 2})), calls(("told", {}))])
        told = results(channel)[-1]
        assert int(told.split()[0]) == n


STUBBORN = """
import signal, subprocess, sys
for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGPIPE):
    signal.signal(one, signal.SIG_IGN)
child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)", sys.argv[2]])
sys.argv = [sys.argv[1]]
exec(open(sys.argv[0]).read())
import time
time.sleep(600)
"""
STUDY = """
import os, sys, time
from peira import agent, mcp, run, study
from peira.core.models import Reply, ToolCall

def wait(seconds: float) -> str:
    "Wait."
    print("waiting", flush=True)
    time.sleep(seconds)
    return "over"

bot = agent("waiter", tools=[mcp([sys.executable, "stubborn.py", SERVER, MARK]), wait])
run(study(name="s", agent=bot, cases=["go"]), store="s.db")
"""
WAITER = """
[models.waiter]
model = "scripted:waiter"
answers = [
  {text = "", tool_calls = [{id = "1", name = "add", arguments = {a = 1, b = 2}}]},
  {text = "", tool_calls = [{id = "2", name = "wait", arguments = {seconds = 600}}]},
]
"""


@pytest.mark.skipif(process_namespace() is None, reason="nothing here keeps processes together")
def test_a_server_does_not_outlive_an_owner_that_was_killed(tmp_path: Path) -> None:
    """Not even one that ignores signals and the end of its input, nor what it has started itself."""
    mark = f"mark-{uuid.uuid4().hex}"
    (tmp_path / "stubborn.py").write_text(STUBBORN)
    (tmp_path / "peira.toml").write_text(WAITER)
    (tmp_path / "s.py").write_text(STUDY.replace("SERVER", repr(SERVER[1])).replace("MARK", repr(mark)))
    owner = subprocess.Popen([sys.executable, "s.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    try:
        assert owner.stdout is not None
        assert owner.stdout.readline() == "waiting\n"
        assert len(servers(mark)) >= 2
    finally:
        owner.kill()
        owner.communicate()
    assert gone(mark)


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
