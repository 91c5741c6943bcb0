"""Goals of streams: looked at by anybody and by the host, which records verdicts and may pause."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from peira import goal, open, serve, stream
from peira.errors import Invalid
from peira.spec.streams.files import read_streams

pytestmark = pytest.mark.timeout(120)


def echo(case: Any) -> Any:
    return case.input


def until(holds: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_a_goal_that_is_missed_pauses_its_stream_and_is_an_event(tmp_path: Path) -> None:
    store = tmp_path / "live.db"
    made = stream(
        echo, evaluators=["exact"], goals=[goal("mean(exact) >= 0.9 over 1h", on_missed="pause")], parallel=2
    )
    with serve(made, store=store) as host:
        assert host.stream("echo").goals()[0]["verdict"] == "undecided"
        jobs = host.submit_many("echo", [{"input": n, "expected": -1} for n in range(60)])
        for job in jobs:
            job.wait(60)
        until(lambda: any(host.stream("echo").events(kinds="run.paused")))
        [looked] = host.stream("echo").events(kinds="goal.looked")
        assert (looked["verdict"], looked["goal"]) == ("missed", "mean(exact) >= 0.9 over 1h")
        assert looked["high"] < 0.9
        held = host.submit("echo", 1)
        assert held.wait(0.3) is False
        host.stream("echo").resume()
        assert held.result(30) == 1
        until(lambda: host.stream("echo").goals()[0]["n"] == 61)
    [status] = open(store).stream("echo").goals()
    assert (status["verdict"], status["n"], status["mean"]) == ("missed", 61, 0.0)


def test_several_streams_work_towards_one_goal(tmp_path: Path) -> None:
    both = goal("mean(exact) >= 0.5", streams=["one", "two"])
    one = stream(echo, name="one", evaluators=["exact"], goals=[both])
    two = stream(echo, name="two", evaluators=["exact"])
    with serve(one, two, store=tmp_path / "live.db") as host:
        host.submit_many("one", [{"input": n, "expected": n} for n in range(40)])
        host.submit_many("two", [{"input": n, "expected": n} for n in range(40)])
        until(lambda: host.stream("one").goals()[0]["n"] == 80)
        assert host.stream("one").goals()[0]["verdict"] == "met"
        assert host.stream("two").goals() == []


def test_jobs_without_a_score_count_as_the_worst_for_a_goal(tmp_path: Path) -> None:
    def failing(case: Any) -> Any:
        raise ValueError("no")

    goals = ["mean(exact) >= 0.1", "mean(failed) <= 0.2"]
    with serve(stream(failing, evaluators=["exact"], goals=goals), store=tmp_path / "live.db") as host:
        for job in host.submit_many("failing", [{"input": n} for n in range(40)]):
            job.wait(60)
        first, second = host.stream("failing").goals()
        assert (first["verdict"], first["lost"], first["low"]) == ("undecided", 40, 0.0)
        assert second["verdict"] == "missed"


def test_what_is_wrong_with_goals_is_told_before_anything_is_opened(tmp_path: Path) -> None:
    wrong = ["mean exact > 1", "mean(exact) >= 0.5 over 1s", {"goal": "mean(exact) >= 0.5", "on_missed": "x"}]
    with pytest.raises(Invalid) as caught:
        stream(echo, evaluators=["exact"], goals=wrong)
    assert [line.partition(":")[0] for line in caught.value.problems] == [
        "goals[0].goal",
        "goals[1].goal",
        "goals[2].on_missed",
    ]
    with pytest.raises(Invalid, match="there is no score 'exakt'; there are exact, failed, took, cost"):
        serve(stream(echo, evaluators=["exact"], goals=["mean(exakt) >= 1"]), store=tmp_path / "a.db")
    with pytest.raises(Invalid, match="there is no stream 'other'"):
        serve(stream(echo, goals=[goal("mean(failed) <= 1", streams=["other"])]), store=tmp_path / "b.db")


def test_goals_and_webhooks_can_be_written_in_a_file(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text("def echo(case):\n    return case.input\n")
    (tmp_path / "streams.toml").write_text(
        '[streams.echo]\nagent = "agents.py:echo"\ngoals = ["mean(failed) <= 0.1 over 7d"]\n'
        '[[streams.echo.triggers]]\nsecret = "HOOK_SECRET"\nname = "orders"\n'
    )
    [made] = read_streams(tmp_path / "streams.toml")
    assert made.goals == (goal("mean(failed) <= 0.1 over 7d"),)
    assert (made.goals[0].over, made.goals[0].limit) == (7 * 86400, 0.1)
    assert made.triggers[0].label == "orders"
