"""kill -9 in the middle of tool loops and graphs: no recorded step is repeated, no call is paid twice."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import peira
from peira.core.log.events import CallAnswered, CallIntended, StepRecorded
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

SCRIPT = '''
import os
from peira import agent, graph, run, study


def note(line):
    file = os.open("executed", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.write(file, f"{line}\\n".encode())
    os.fsync(file)
    os.close(file)


def work(case: str, n: int) -> str:
    """Work."""
    note(f"{case} {n}")
    return f"{case}.{n}"


bot = agent("fast", tools=[work])


def begin(input, visit):
    note(f"{input} begin {visit}")
    return input


def again(output, visit):
    note(f"{output.split('.')[0]} again {visit}")
    return {"more": visit < 2, "text": output}


def last(output):
    return output["text"]


loop = study(name="loop", agent=bot, cases=[f"loop{i}" for i in range(4)], policy={"interruptions": 1000})
nodes = {"begin": begin, "bot": bot, "again": again, "last": last}
edges = [("begin", "bot"), ("bot", "again"), ("again", "begin", "output.more and false"), ("again", "last")]
walk = study(name="walk", agent=graph(nodes, edges, start="begin", ends="last"),
             cases=[f"walk{i}" for i in range(4)], policy={"interruptions": 1000})

if __name__ == "__main__":
    import sys
    run({"loop": loop, "walk": walk}[sys.argv[1]], store="s.db", parallel=4, progress=False)
'''


@dataclass
class Scene:
    folder: Path
    port: int

    def start(self, study: str, failpoint: str = "") -> subprocess.Popen[bytes]:
        env = {**os.environ, "PEIRA_FAILPOINT": failpoint, "OPENAI_API_KEY": "k"}
        return subprocess.Popen([sys.executable, "agents.py", study], cwd=self.folder, env=env)

    def billed(self) -> Counter[str]:
        return Counter((self.folder / "bills").read_text().split())

    def executed(self) -> Counter[str]:
        return Counter((self.folder / "executed").read_text().splitlines())

    def events(self) -> list[Any]:
        store = SqliteStore(self.folder / "s.db", readonly=True)
        assert verify(store) == []
        runs = sorted(peira.open(self.folder / "s.db").runs(limit=1000), key=lambda run: run.planned)
        found = [record.event for run in runs for record in store.events(run.id, limit=10**9)]
        store.close()
        return found


@pytest.fixture
def scene(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Scene]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    (tmp_path / "agents.py").write_text(SCRIPT)
    (tmp_path / "bills").touch()
    (tmp_path / "executed").touch()
    server = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("agent_server.py")), str(tmp_path / "bills")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    try:
        assert server.stdout
        port = int(server.stdout.readline())
        fast = {"model": "openai:fast", "base_url": f"http://127.0.0.1:{port}/v1"}
        (tmp_path / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": fast}}))
        yield Scene(tmp_path, port)
    finally:
        server.kill()
        server.communicate()


def check(scene: Scene, study: str, kills: int) -> None:
    """Run to the end; then every recorded step was executed once, every recorded call was bought once."""
    results = peira.run(f"agents.py:{study}", store="s.db", parallel=4, progress=False)
    assert results.status == "completed", results.failures
    expected = {f"{study}{i}": " ".join(f"{study}{i}.{n}" for n in range(6)) for i in range(4)}
    assert {trial.input: trial.output for trial in results.trials} == expected
    events = scene.events()
    recorded = Counter((e.task, e.key) for e in events if isinstance(e, StepRecorded))
    assert set(recorded.values()) == {1}, "a recorded step is not recorded again"
    # What a trial was at when its process died was not recorded: at most the two calls of one reply.
    extra = sum(n - 1 for n in scene.executed().values())
    assert extra <= 2 * 4 * kills
    answered: set[str] = set()
    for event in events:
        if isinstance(event, CallIntended):
            assert event.key not in answered, "a recorded answer was bought again"
        elif isinstance(event, CallAnswered):
            answered.add(event.key)
    sends = sum(isinstance(event, CallIntended) for event in events)
    assert scene.billed().total() <= sends
    assert scene.billed().total() <= len(answered) + 4 * kills
    again = peira.run(f"agents.py:{study}", store="s.db", parallel=4, progress=False)
    assert all(trial.reused for trial in again.trials)


@pytest.mark.parametrize("place", ["tool.before_record:2", "tool.after_record:1", "tool.after_record:9"])
def test_killed_at_a_tool_call(scene: Scene, place: str) -> None:
    assert scene.start("loop", place).wait(50) == -9
    before = scene.executed()
    recorded = [e for e in scene.events() if isinstance(e, StepRecorded)]
    check(scene, "loop", kills=1)
    if "after" in place:
        assert len(recorded) >= int(place[-1])
    assert scene.executed().total() <= before.total() + 24 - len(recorded)


@pytest.mark.parametrize("place", ["step.before_record:2", "step.after_record:3", "tool.after_record:7"])
def test_killed_in_a_graph_it_goes_on_at_the_node_reached(scene: Scene, place: str) -> None:
    assert scene.start("walk", place).wait(50) == -9
    reached = {e.name for e in scene.events() if isinstance(e, StepRecorded)}
    check(scene, "walk", kills=1)
    begun = {line: n for line, n in scene.executed().items() if "begin" in line}
    if place.startswith("tool") and "node begin 1" in reached:
        assert set(begun.values()) == {1}, "nodes that were recorded are not visited again"


def test_killed_at_random_moments(scene: Scene) -> None:
    chosen, kills = random.Random(7), 0
    for study in ("loop", "walk", "loop"):
        process = scene.start(study)
        time.sleep(chosen.uniform(0.8, 2.5))
        process.kill()
        process.wait()
        kills += 1
    check(scene, "loop", kills)
    check(scene, "walk", kills)
