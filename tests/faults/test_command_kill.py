"""kill -9 of the owner with commands under way, each making calls: nothing is paid twice that was recorded,
every bill was announced before, and not one process is left."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any
from uuid import uuid4

import psutil
import pytest
import tomli_w

import peira
from peira.core.log.events import CallIntended
from peira.sandbox.confinement import confinement
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

pytestmark = pytest.mark.skipif(isinstance(confinement(), str), reason=f"no sandbox here: {confinement()}")
TOOL = """
import json, os, subprocess, sys, urllib.request
MARKER = sys.argv[1]
subprocess.Popen(["sh", "-c", f"sleep 600; : {MARKER}"], start_new_session=True)
subprocess.Popen(["env", "-i", "sh", "-c", f"sleep 600; : {MARKER}"], start_new_session=True)
text = sys.stdin.read()
for n in range(4):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": f"{text} {n}"}]}).encode()
    request = urllib.request.Request(os.environ["OPENAI_BASE_URL"] + "/chat/completions", body)
    text = json.load(urllib.request.urlopen(request))["choices"][0]["message"]["content"]
print(text)
"""
SCRIPT = """
import os, sys
from peira import command, run, study
words = [sys.executable, "tool.py", os.environ["MARKER"]]
confine = os.environ["CONFINE"] == "1"
agent = command(words, stdin="{input}", files=["tool.py"], models={"*": "fast"}, confine=confine)
asks = study(name="asks", agent=agent, cases=[f"case {n}" for n in range(6)], policy={"interruptions": 1000})
if __name__ == "__main__":
    run(asks, store="asks.db", parallel=3, runner=sys.argv[1], progress=False)
"""


def living(marker: str) -> list[psutil.Process]:
    found = []
    for process in psutil.process_iter():
        try:
            if process.status() != psutil.STATUS_ZOMBIE and any(marker in word for word in process.cmdline()):
                found.append(process)
        except psutil.Error:
            continue
    return found


def none_left(marker: str) -> bool:
    deadline = time.monotonic() + 10
    while living(marker) and time.monotonic() < deadline:
        time.sleep(0.02)
    return not living(marker)


def struck(folder: Path, endpoint: Any, runner: str, confine: bool, kills: int, seed: int = 0) -> None:
    marker, chance = uuid4().hex, random.Random(f"command {seed} {runner} {confine}")
    os.environ["MARKER"], os.environ["CONFINE"] = marker, str(int(confine))
    model = {"model": f"openai:{endpoint.model}", "base_url": f"{endpoint.base}/v1"}
    (folder / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": model}}))
    (folder / "tool.py").write_text(TOOL)
    (folder / "asks.py").write_text(SCRIPT)
    endpoint.always({"delay": 0.05})
    under_way = 0
    for _ in range(kills):
        aim = endpoint.bills() + chance.randint(2, 5)
        process = subprocess.Popen([sys.executable, "asks.py", runner], cwd=folder, stderr=subprocess.DEVNULL)
        while process.poll() is None and endpoint.bills() < aim:
            time.sleep(0.005)
        assert process.poll() is None, "it was over before it could be killed"
        under_way += bool(living(marker))  # it may be just between two of them
        time.sleep(chance.uniform(0, 0.05))
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
        if confine:  # the kernel has ended them; nobody had to come and look
            assert none_left(marker)
    assert under_way
    results = peira.run("asks.py:asks", store="asks.db", parallel=3, runner=runner, progress=False)
    assert none_left(marker)
    assert [trial.state.value for trial in results.trials] == ["succeeded"] * 6, results.failures
    store = SqliteStore(folder / "asks.db", readonly=True)
    assert list(verify(store)) == []
    intents = Counter(r.event.key for r in store.history() if isinstance(r.event, CallIntended))
    store.close()
    assert len(intents) == 24
    assert 24 <= endpoint.bills() <= sum(intents.values())
    before = endpoint.bills()
    again = peira.run("asks.py:asks", store="asks.db", progress=False)
    assert (again.counts["reused"], endpoint.bills()) == (6, before)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    for name in ("MARKER", "CONFINE"):
        monkeypatch.setenv(name, "")
    return tmp_path


@pytest.mark.parametrize(("runner", "confine"), [("local", True), ("local", False), ("process", True)])
def test_killed_with_three_commands_under_way(
    folder: Path, endpoint: Any, runner: str, confine: bool
) -> None:
    struck(folder, endpoint, runner, confine, kills=2)


@pytest.mark.torture
@pytest.mark.parametrize("seed", range(1, 6))
@pytest.mark.parametrize("confine", [True, False])
def test_killed_many_times(folder: Path, endpoint: Any, confine: bool, seed: int) -> None:
    struck(folder, endpoint, "process" if seed % 2 else "local", confine, kills=3, seed=seed)
