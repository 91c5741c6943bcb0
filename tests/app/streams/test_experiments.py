"""Live experiments: arms are drawn with recorded probabilities, compared at every look, and decided."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any, cast

import pytest

from peira import open, serve, stream
from peira.app.streams.host import Host
from peira.app.streams.view import StreamView
from peira.cli import main
from peira.core.ids import seed_of
from peira.engine.streams.experiment import PATIENCE, LiveExperiment, experiment_plan
from peira.engine.streams.jobs import Job, drawn_arm, job_id
from peira.errors import Invalid, Unknown
from peira.plan.expansion import expand
from peira.spec.streams.files import read_streams
from peira.spec.streams.stream import Stream

pytestmark = pytest.mark.timeout(120)


def styled(case: Any, style: str) -> Any:
    if case.input == "fail":
        raise ValueError("not this one")
    return f"{style} {case.input}"


def made(agent: Any = styled, **fields: Any) -> Stream:
    factors = {"style": ["plain", "loud"]}
    found: Stream = stream(
        agent, **{"factors": factors, "evaluators": ["exact"], "assign": "random", **fields}
    )
    return found


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "live.db"


def submitted(host: Host, n: int, begin: int = 0, expected: str = "loud x") -> None:
    jobs = [host.submit("styled", "x", key=f"k{i}", expected=expected) for i in range(begin, begin + n)]
    for job in jobs:
        assert job.wait(60)


def until(true: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def events(view: StreamView, kind: str) -> list[dict[str, Any]]:
    return [event for event in view.events() if event["kind"] == kind]


def test_the_probability_of_every_arm_is_recorded_with_the_job(store: Path) -> None:
    with serve(made(), store=store) as host:
        submitted(host, 20)
    trials = open(store).stream("styled").results().trials
    assert {trial.draw.shares for trial in trials if trial.draw} == {(0.5, 0.5)}
    assert {trial.draw.experiment for trial in trials if trial.draw} != {""}
    for trial in trials:
        assert trial.draw is not None
        assert (
            trial.draw.arm
            == drawn_arm(trial.id, (0.5, 0.5))
            == ["plain", "loud"].index(trial.condition["style"])
        )
        assert trial.submitted is not None


def test_an_agents_own_random_numbers_say_nothing_of_its_arm() -> None:
    import random

    jobs = [job_id("s", str(n)) for n in range(400)]
    own = [random.Random(seed_of(job)).random() >= 0.5 for job in jobs]
    same = sum(drawn_arm(job, (0.5, 0.5)) == mine for job, mine in zip(jobs, own, strict=True))
    assert 150 < same < 250


def test_levels_are_compared_at_every_look(store: Path) -> None:
    with serve(made(), store=store) as host:
        submitted(host, 120)
        host.drain()
    results = open(store).stream("styled").results(since="7d")
    found = results.compare("style")
    [contrast] = found.contrasts
    assert (contrast.first, contrast.second, contrast.unit) == ("loud", "plain", "job")
    assert contrast.clear(0.05)
    assert contrast.difference is not None
    assert contrast.difference.low is not None
    assert contrast.difference.low > 0.4
    assert "valid at every look" in str(found)
    assert "one look" not in str(found)
    assert "one look" in str(results.table())
    with pytest.raises(Invalid, match="test: streams are compared by confidence sequences"):
        results.compare("style", test="welch")
    with pytest.raises(Unknown):
        results.compare("color")


def test_results_and_outcomes_on_the_command_line(store: Path, capfd: pytest.CaptureFixture[str]) -> None:
    with serve(made(), store=store) as host:
        submitted(host, 60)
        host.drain()

    def said(*words: str, code: int = 0) -> str:
        assert main(["stream", *words, "--store", str(store)]) == code
        shown = capfd.readouterr()
        return shown.out + shown.err

    assert "bought = true" in said("outcome", "styled", "k1", "bought", "true")
    assert "give a name and a value" in said("outcome", "styled", "k1", code=2)
    assert "'exact' is a score of this stream" in said("outcome", "styled", "k1", "exact", "1", code=2)
    page = store.with_name("report.md")
    shown = said("results", "styled", "--since", "7d", "--by", "style", "--score", "exact", "-o", str(page))
    assert "valid at every look, for all jobs since 2" in shown
    report = page.read_text()
    assert "confidence sequences of the mean effect on the jobs so far" in report
    assert "Exploratory" not in report
    document = json.loads(said("results", "styled", "--by", "style", "--score", "exact", "--json"))
    assert document["comparison"]["contrasts"][0]["clear"] is True
    stats = json.loads(said("stats", "styled", "--json"))
    assert stats["experiment"]["shares"] == {"plain": 0.5, "loud": 0.5}
    assert "no job has ended" in said("results", "styled", "--since", "0s", "--by", "style")


def test_shadows_are_compared_job_by_job(store: Path) -> None:
    with serve(made(assign="all"), store=store) as host:
        submitted(host, 60)
        host.drain()
    [contrast] = open(store).stream("styled").results().compare("style").contrasts
    assert (contrast.paired, contrast.n, contrast.model) == (True, 60, "pairs")
    assert contrast.clear(0.05)


def heavy(case: Any, style: str) -> Any:
    if style == "loud":
        if case.input["began"]:
            Path(case.input["began"]).touch()
        until(lambda: Path(case.input["go"]).exists())
        raise ValueError("a shadow failed")
    return f"{style} x"


def test_shadows_never_delay_fail_or_answer_a_job(store: Path, tmp_path: Path) -> None:
    """With one worker, and shadows that hang and then fail."""
    go, began = tmp_path / "go", tmp_path / "began"
    with serve(made(heavy, assign="all", parallel=1), store=store, parallel=1) as host:
        jobs = [
            host.submit("heavy", {"go": str(go), "began": str(began)}, key=f"k{n}", expected="plain x")
            for n in range(5)
        ]
        assert [job.result(30) for job in jobs] == ["plain x"] * 5
        until(began.exists)
        assert not go.exists()
        go.touch()
        host.drain()
    assert {one["state"] for one in open(store).stream("heavy").jobs()} == {"succeeded"}
    states = [
        (one.condition["style"], one.state.value) for one in open(store).stream("heavy").results().trials
    ]
    assert states.count(("loud", "failed")) == states.count(("plain", "succeeded")) == 5


def test_a_job_that_has_no_value_for_long_is_counted_as_lost() -> None:
    """Others are not kept waiting by one that asks a person; what comes of it later changes nothing."""
    plan = experiment_plan(made(stop="when decided"), expand(made().study))
    assert plan is not None
    experiment = LiveExperiment(plan, plan.begun(None), None)  # type: ignore[arg-type]
    job = Job("styled", experiment=plan.id, arm=0, shares=(0.5, 0.5))
    experiment.expect("waiting", job)
    for _ in range(PATIENCE - 1):
        experiment.count(job, 1.0, False)
    experiment.news()
    assert experiment.n == 0
    experiment.count(job, 1.0, False)
    experiment.news()
    assert experiment.n == PATIENCE + 1
    [contrast] = experiment.contrasts.values()
    assert contrast.low.sum < contrast.high.sum


def test_a_decision_ends_the_experiment_and_the_stream_goes_on_with_the_winner(store: Path) -> None:
    served = made(stop="when decided", experiment={"least": 20})
    with serve(served, store=store) as host:
        view = host.stream("styled")
        submitted(host, 150)
        until(lambda: events(view, "run.decided"))
        [decided] = events(view, "run.decided")
        assert decided["rule"] == "when decided"
        assert decided["look"]["answer"] == "loud is best"
        [standing] = decided["look"]["standings"]
        assert standing["low"] > 0
        last = events(view, "stream.split")[-1]
        assert (last["by"], last["traffic"]["winner"], last["traffic"]["shares"]) == (
            "when decided",
            1,
            [0.0, 1.0],
        )
        jobs = [host.submit("styled", "x", key=f"later {n}") for n in range(12)]
        assert {job.result(30) for job in jobs} == {"loud x"}
    # Another opening goes on with the winner, and so does a submission while nobody serves the stream.
    view = open(store).stream("styled")
    alone = [view.submit("x", key=f"alone {n}") for n in range(6)]
    with serve(served, store=store) as host:
        assert {host.stream("styled").job(job.id).result(30) for job in alone} == {"loud x"}
        assert {host.submit("styled", "x").result(30) for _ in range(6)} == {"loud x"}
        assert len(events(host.stream("styled"), "run.decided")) == 1
    found = open(store).stream("styled").results().compare("style")
    assert found.contrasts[0].n <= 150
    assert "given to its winner" in str(found)
    # Other arms are another experiment.
    with serve(made(factors={"style": ["plain", "calm"]}, stop="when decided"), store=store) as host:
        assert {host.submit("styled", "x", key=f"new {n}").result(30) for n in range(20)} == {
            "plain x",
            "calm x",
        }


def test_traffic_follows_the_evidence_above_a_floor_and_survives_the_host(store: Path) -> None:
    served = made(assign="thompson", experiment={"floor": 0.05})
    with serve(served, store=store) as host:
        submitted(host, 60)
        until(lambda: len(events(host.stream("styled"), "stream.split")) > 1)
        shares = host._served["styled"].experiment.traffic.shares  # type: ignore[union-attr]
        assert shares[1] > 0.9
        assert min(shares) >= 0.05
    with serve(served, store=store) as host:
        experiment = host._served["styled"].experiment
        assert experiment is not None
        assert experiment.traffic.shares == shares
        submitted(host, 60, begin=60)
        until(lambda: experiment.n == 120)
    trials = open(store).stream("styled").results().trials
    late = [trial for trial in trials if trial.draw and trial.draw.shares[0] < 0.2]
    assert len(late) >= 60
    assert sum(trial.condition["style"] == "loud" for trial in late) > len(late) / 2
    found = open(store).stream("styled").results().compare("style")
    assert found.contrasts[0].clear(0.05)
    assert "weighted by the share of its arm at that moment" in str(found)


def test_successive_rejects_leaves_the_best_arm(store: Path) -> None:
    served = made(
        factors={"style": ["plain", "loud", "calm"]},
        assign="successive rejects",
        experiment={"jobs": 60, "floor": 0.1},
    )
    with serve(served, store=store) as host:
        experiment = host._served["styled"].experiment
        assert experiment is not None
        for begin in range(0, 300, 30):
            submitted(host, 30, begin)
            until(lambda begin=begin: experiment.n == begin + 30)
            if experiment.traffic.shares[1] > 0.7:
                break
        assert experiment.traffic.shares == pytest.approx((0.1, 0.8, 0.1), abs=0.001)
        assert "successive rejects after" in experiment.traffic.why


def test_failures_help_no_arm(store: Path) -> None:
    """Lost jobs count as the worst for the arm that lost them, and as the best for the other."""
    with serve(made(stop="when decided"), store=store) as host:
        jobs = [
            host.submit("styled", "fail" if n % 2 else "x", key=f"k{n}", expected="loud x") for n in range(80)
        ]
        assert all(job.wait(60) for job in jobs)
        experiment = host._served["styled"].experiment
        assert experiment is not None
        until(lambda: experiment.n == 80)
        assert experiment.traffic.winner == -1
    [contrast] = open(store).stream("styled").results().compare("style").contrasts
    assert contrast.bounds is not None
    assert contrast.overturnable


def test_outcomes_are_reported_later_by_anybody_and_joined(store: Path) -> None:
    with serve(made(evaluators=()), store=store) as host:
        jobs = [host.submit("styled", "fail" if n == 9 else "x", key=f"k{n}") for n in range(60)]
        assert all(job.wait(60) for job in jobs)
        for job in jobs[1:55]:
            job.outcome("bought", "loud" in str(host.stream("styled").document(job.id)["factors"]))
        jobs[0].outcome("bought", False)
        jobs[0].outcome("bought", True)
        with pytest.raises(Invalid) as caught:
            jobs[0].outcome("not a word", cast(Any, [1]))
        assert [line.partition(":")[0] for line in caught.value.problems] == ["name", "value"]
    view = open(store).stream("styled")  # nobody serves it now
    for n in range(55, 60):
        job = view.job(f"k{n}")
        job.outcome("bought", "loud" in str(view.document(job.id)["factors"]))
    said = [event["value"] for event in view.events(view.find("k0")) if event["kind"] == "job.outcome"]
    assert said == [False, True]
    results = view.results()
    table = {row["style"]: row for row in results.table("style", score="bought").rows}
    assert table["loud"]["mean"] == 1.0
    assert results.compare("style", score="bought").contrasts[0].clear(0.05)
    [failed] = [trial for trial in results.trials if trial.metadata["key"] == "k9"]
    assert failed.scores["bought"].value in (True, False)
    with pytest.raises(Unknown):
        view.outcome("f" * 64, "bought", True)


def test_the_traffic_may_follow_an_outcome_that_comes_later(store: Path) -> None:
    served = made(evaluators=(), assign="thompson", stop="when decided", experiment={"score": "bought"})
    with serve(served, store=store) as host:
        jobs = [host.submit("styled", "x", key=f"k{n}") for n in range(80)]
        for job in jobs:
            job.outcome("bought", job.result(30) == "loud x")
        experiment = host._served["styled"].experiment
        assert experiment is not None
        until(lambda: experiment.traffic.winner == 1)


HOSTED = """
import time
from pathlib import Path
from peira import stream

def good(output, expected):
    if expected == "slow" and not Path("once").exists():
        Path("once").touch()
        time.sleep(600)
    return output == expected

@stream(
    factors={"style": ["plain", "loud"]}, assign="thompson", stop="when decided", evaluators=[good]
)
def styled(case, style):
    return f"{style} {case.input}"
"""


def test_experiments_and_scores_survive_kills(tmp_path: Path, warm: Any) -> None:
    """Killed between jobs and their scores, again and again: nothing is lost, or decided twice."""
    (tmp_path / "live.py").write_text(HOSTED)

    def start() -> Any:
        command = ["peira", "serve", "live.py", "--store", "live.db"]
        process = warm.start(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True)
        assert "peira serves styled" in process.stdout.readline()
        return process

    def end(process: Any, how: signal.Signals) -> None:
        process.send_signal(how)
        process.wait(60)
        process.stdout.close()

    process = start()
    try:
        view = open(tmp_path / "live.db").stream("styled")
        view.submit("x", key="slow", expected="slow")
        until(lambda: (tmp_path / "once").exists() and view.jobs("succeeded"))
        for turn in range(2):
            for n in range(40):
                view.submit("x", key=f"{turn} {n}", expected="loud x")
            until(lambda turn=turn: len(view.jobs("succeeded")) >= 40 * turn + 25)
            end(process, signal.SIGKILL)
            process = start()
        until(lambda: all(one["state"] == "succeeded" for one in view.jobs()))
        until(lambda: events(view, "run.decided"))
    finally:
        end(process, signal.SIGTERM)
    trials = view.results().trials
    assert len(trials) == 81
    assert {trial.scores["good"].state.value for trial in trials} == {"succeeded"}
    assert len(events(view, "run.decided")) == 1
    splits = events(view, "stream.split")
    openings = [n for n, one in enumerate(splits) if one["by"] == "opening"]
    assert len(openings) == 3
    for n in openings[1:]:
        assert splits[n]["traffic"] == splits[n - 1]["traffic"]


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"assign": "one", "stop": "when decided"}, "stop: "),
        ({"assign": "one", "experiment": {"floor": 0.1}}, "experiment: "),
        ({"experiment": {"floor": 0.1}}, "experiment.floor: "),
        ({"assign": "thompson", "experiment": {"floor": 0.6}}, "experiment.floor: "),
        ({"assign": "thompson", "evaluators": ["exact", "includes"]}, "experiment.score: "),
        ({"assign": "thompson", "experiment": {"jobs": 10}}, "experiment.jobs: "),
        ({"assign": "thompson", "experiment": {"margin": 0.1}}, "experiment.margin: "),
        ({"assign": "sometimes"}, "assign: "),
        ({"stop": "at noon"}, "stop: "),
    ],
)
def test_experiments_that_do_not_fit_are_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(Invalid) as caught:
        made(**fields)
    assert [line for line in caught.value.problems if line.startswith(problem)]


def test_experiments_are_written_in_files(tmp_path: Path) -> None:
    (tmp_path / "agents.py").write_text("def styled(case, style):\n    return style\n")
    file = tmp_path / "streams.toml"
    file.write_text(
        """
        [streams.styled]
        agent = "agents.py:styled"
        assign = "successive rejects"
        stop = "when decided"
        evaluators = ["exact"]
        factors = {style = ["plain", "loud"]}
        [streams.styled.experiment]
        floor = 0.2
        jobs = 100
        margin = 0.02
        """
    )
    [found] = read_streams(file)
    assert (found.stop, found.experiment.floor, found.experiment.jobs) == ("when decided", 0.2, 100)
