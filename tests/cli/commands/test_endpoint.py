"""`peira endpoint` as a user has it: a real process, real HTTP, stopped and started again."""

from __future__ import annotations

import json
import signal
import subprocess
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

import peira

CHAT = {"model": "anything", "messages": [{"role": "user", "content": "Say hello"}]}


class Served:
    """An endpoint in a process of its own."""

    def __init__(self, warm: Any, folder: Path, *options: str) -> None:
        words = ["peira", "endpoint", "--store", "calls.db", "--json", *options]
        pipes: Any = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        self.process = warm.start(words, cwd=folder, **pipes)
        lines = []
        while not (lines and lines[-1].startswith("}")):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            lines.append(line)
        self.said = json.loads("".join(lines))

    def ask(self, body: Any = CHAT, path: str = "/v1/chat/completions") -> tuple[int, Any]:
        request = urllib.request.Request(self.said["url"] + path, json.dumps(body).encode())
        try:
            with urllib.request.urlopen(request, timeout=30) as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as error:
            with error:
                return error.code, json.load(error)

    def stop(self) -> tuple[int, str]:
        self.process.send_signal(signal.SIGINT)
        _, said = self.process.communicate(timeout=30)
        return self.process.returncode, said

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


@pytest.fixture
def serve(warm: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Served]]:
    monkeypatch.chdir(tmp_path)
    with ExitStack() as started:

        def begin(*options: str) -> Served:
            served = Served(warm, tmp_path, *options)
            started.callback(served.end)
            return served

        yield begin


def test_calls_are_recorded_and_replayed_by_the_next_session(serve: Any, endpoint: Any) -> None:
    model = f"openai:{endpoint.model}"
    first = serve("--model", model)
    assert set(first.said["env"]) == {
        "OPENAI_BASE_URL",
        "OPENAI_API_KEY",
        "ANTHROPIC_BASE_URL",
        "ANTHROPIC_API_KEY",
    }
    status, answer = first.ask()
    assert (status, answer["choices"][0]["message"]["content"]) == (200, "Say hello")
    asked = {"model": "x", "max_tokens": 9, "messages": CHAT["messages"]}
    status, message = first.ask(asked, "/v1/messages")
    assert (status, message["content"][0]["text"]) == (200, "Say hello")
    code, said = first.stop()
    assert (code, endpoint.bills()) == (0, 2), said
    assert "2 calls" in said
    second = serve("--model", model)
    assert second.ask()[1] == answer
    assert second.ask(asked, "/v1/messages")[1] == message
    assert endpoint.bills() == 2
    assert second.ask()[0] == 200
    assert endpoint.bills() == 3
    second.end()  # kill -9
    third = serve("--model", model)
    assert [third.ask()[0] for _ in range(2)] == [200, 200]
    assert endpoint.bills() == 3
    assert third.stop()[0] == 0
    assert len(peira.open("calls.db").calls()) == 3


def test_a_limit_refuses_what_is_new_and_replays_the_rest(serve: Any, endpoint: Any) -> None:
    served = serve("--model", f"openai:{endpoint.model}", "--calls", "1", "--token", "mine")
    assert served.said["url"].endswith("/mine")
    assert served.ask()[0] == 200
    status, said = served.ask({**CHAT, "temperature": 1})
    assert (status, "a limit is reached" in said["error"]["message"]) == (429, True)
    assert endpoint.bills() == 1
    served.stop()


def test_several_models_have_names_and_others_are_refused(serve: Any) -> None:
    served = serve("--model", "a=scripted:x", "--model", "scripted:y")
    assert served.ask({**CHAT, "model": "a"})[0] == 200
    assert served.ask({**CHAT, "model": "scripted:y"})[0] == 200
    status, said = served.ask({**CHAT, "model": "z"})
    assert (status, "allowed: a, scripted:y" in said["error"]["message"]) == (404, True)
    served.stop()


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ((), "--model: say which model is served"),
        (("--model", "=x"), "'=x' is neither a model nor NAME=MODEL"),
        (("--model", "opnai:x"), "did you mean"),
    ],
)
def test_what_is_wrong_is_said_in_a_line(
    warm: Any, tmp_path: Path, options: tuple[str, ...], problem: str
) -> None:
    done = warm.run(["peira", "endpoint", "--store", "x.db", *options], cwd=tmp_path)
    assert done.returncode == 2
    assert problem in done.stderr
    assert not (tmp_path / "x.db").exists()
