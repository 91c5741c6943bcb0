"""What people say of jobs, and what becomes of them later: goals, labels, and experiments ended by hand."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from peira import ask, goal, open, person, serve, stream
from peira.app.inbox import answer_text, inbox
from peira.cli import main
from peira.core.log.events import RunDecided
from peira.errors import Invalid
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

pytestmark = pytest.mark.timeout(120)


def styled(case: Any, style: str = "plain") -> Any:
    return f"{style} {case.input}"


def until(holds: Any) -> None:
    deadline = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def made(**fields: Any) -> Any:
    return stream(styled, **{"factors": {"style": ["plain", "loud"]}, "assign": "random", **fields})


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "live.db"


# Goals


def test_a_goal_counts_outcomes_when_they_are_reported(store: Path) -> None:
    later = goal("mean(outcome.solved) >= 0.5 over 1h")
    with serve(stream(styled, name="styled", goals=[later]), store=store) as host:
        jobs = host.submit_many("styled", [{"input": n} for n in range(60)])
        assert all(job.wait(60) for job in jobs)
        [before] = host.stream("styled").goals()
        assert (before["verdict"], before["n"]) == ("undecided", 0), "nobody has reported anything yet"
    view = open(store).stream("styled")  # days later, without a host
    for job in jobs[::-1]:
        view.job(job.id).outcome("solved", True)
    [found] = view.goals()
    assert (found["verdict"], found["n"], found["mean"], found["lost"]) == ("met", 60, 1.0, 0)
    view.job(jobs[0].id).outcome("solved", False)
    assert view.goals()[0]["mean"] == 1.0, "a correction changes results, and no goal: looks stay valid"
    assert {trial.id: trial.scores["solved"].value for trial in view.results().trials}[jobs[0].id] is False


def test_a_host_sees_late_outcomes_and_pauses_a_stream_that_misses_its_goal(store: Path) -> None:
    later = goal("mean(outcome.solved) >= 0.9", on_missed="pause")
    with serve(stream(styled, name="styled", goals=[later]), store=store) as host:
        jobs = host.submit_many("styled", [{"input": n} for n in range(40)])
        for job in jobs:
            job.wait(60)
            job.outcome("solved", False)
        until(lambda: any(host.stream("styled").events(kinds="run.paused")))
        [looked] = host.stream("styled").events(kinds="goal.looked")
        assert looked["verdict"] == "missed"


def test_a_score_that_is_not_there_is_told_with_what_may_be_meant(store: Path) -> None:
    with pytest.raises(Invalid, match=r"no score 'solved'.*outcome\.NAME for what is reported later"):
        serve(stream(styled, name="styled", goals=["mean(solved) >= 1"]), store=store)


# Labels of people


def test_labels_of_people_decide_an_experiment(store: Path) -> None:
    right = person("Right?", options=[0, 1], label="right")
    experiment = {"score": "right", "least": 10}
    with serve(made(evaluators=[right], stop="when decided", experiment=experiment), store=store) as host:
        jobs = host.submit_many("styled", [{"input": n} for n in range(150)])
        assert all(job.wait(60) for job in jobs)
        labelled = 0

        def label() -> bool:
            nonlocal labelled
            for question in inbox(store)[:30]:
                good = "loud" in json.dumps(question.question.show)
                answer_text(question.key, "1" if good else "0", store, by="ann")
                labelled += 1
            return host.stream("styled").stats()["experiment"]["winner"] is not None

        until(label)
        assert host.stream("styled").stats()["experiment"]["winner"] == "loud"
        assert labelled >= 10
        late = host.submit("styled", "x")
        assert late.result(30) == "loud x"
        [decided] = host.stream("styled").events(kinds="run.decided")
        assert decided["look"]["answer"] == "loud is best"


# Ending by hand


def test_an_experiment_is_ended_by_hand_with_who_and_why(store: Path) -> None:
    with serve(made(assign="thompson", experiment={"score": "solved"}), store=store) as host:
        host.submit_many("styled", [{"input": n} for n in range(20)])
        view = host.stream("styled")
        view.decide("plain", why="it is cheaper")
        assert {host.submit("styled", n).result(30).split()[0] for n in range(10)} == {"plain"}
        view.decide("plain")
        [decided] = view.events(kinds="run.decided")
        assert decided["rule"] == "by hand"
        assert decided["look"]["answer"].endswith(": it is cheaper")
        assert "was chosen by" in view.stats()["experiment"]["why"]
        with pytest.raises(Invalid, match="there is no 'plian'"):
            view.decide("plian")
    with serve(made(assign="thompson", experiment={"score": "solved"}), store=store) as again:
        assert {again.submit("styled", n).result(30).split()[0] for n in range(10)} == {"plain"}
    opened = SqliteStore(store, readonly=True)
    assert list(verify(opened)) == []
    opened.close()


def test_who_sees_a_decision_draws_by_it(store: Path) -> None:
    """Also jobs that are submitted when it is recorded, and its own host has not heard so yet."""
    begun: list[Any] = []

    def told(records: Any) -> None:
        if any(isinstance(record.event, RunDecided) for record in records):
            begun.extend(pool.submit(host.submit, "styled", n) for n in range(8))
            time.sleep(0.2)

    with (
        closing(SqliteStore(store, on_commit=told)) as opened,
        ThreadPoolExecutor(8) as pool,
        serve(made(), store=opened) as host,
    ):
        host.stream("styled").decide("loud")
        assert {job.result(30).result(30).split()[0] for job in begun} == {"loud"}
        assert len(begun) == 8


def test_an_experiment_is_ended_while_no_host_is_there(store: Path, capsys: Any) -> None:
    with serve(made(), store=store):
        pass
    assert main(["stream", "decide", "styled", "loud", "--why", "enough", "--store", str(store)]) == 0
    assert capsys.readouterr().out == "styled: all jobs get loud from now on\n"
    assert open(store).stream("styled").stats()["experiment"]["winner"] == "loud"
    with serve(made(), store=store) as host:
        assert {host.submit("styled", n).result(30).split()[0] for n in range(6)} == {"loud"}
    assert main(["stream", "decide", "styled", "--store", str(store)]) == 2
    assert "which arm?" in capsys.readouterr().err
    with (
        serve(stream(styled, name="one"), store=store) as host,
        pytest.raises(Invalid, match="draws no arms"),
    ):
        host.stream("one").decide("plain")


# Live text


def test_models_are_heard_while_they_speak_and_others_once_they_have_answered(store: Path) -> None:
    def saying(case: Any) -> Any:
        return ask("scripted:echo", case.input, max_tokens=20)

    with serve(stream(saying), stream(styled, name="other"), store=store) as host:
        job = host.submit("saying", "one two three")
        assert job.result(30) == "one two three"
        pieces = host.live.read(stream="saying")
        assert [piece.text for piece in pieces] == ["one ", "two ", "three"]
        assert {piece.task for piece in pieces} == {job.id}
        assert host.live.read(stream="other") == []
        assert host.stream("saying").live is host.live
    assert host.live.closed
    assert open(store).stream("saying").live is None
