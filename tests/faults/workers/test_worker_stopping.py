"""Runs of workers that may stop early: an arbiter looks, as one process would, also if it is killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.app.run import RunOptions
from peira.app.session import Session
from peira.app.workers import WorkerOptions, submit_shared, work
from peira.core.contracts import Op
from peira.core.log.events import RunDecided, RunFinished, RunLooked
from peira.core.looks import Look
from peira.errors import Fenced
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify
from peira.testing.stores.actions import accept, plan_run

STUDY = """
import os
import time
from peira import Case, current_trial, exact, study


@study(cases=[Case(i, expected=1) for i in range(120)], factors={"m": ["a", "b", "c"]}, evaluators=[exact()],
       hypotheses=[{"id": "H1", "factor": "m", "levels": ["a", "b"], "direction": "greater"}],
       stop=RULE, seed=5)
def coins(case, m):
    trial = current_trial()
    time.sleep(float(os.environ["SECONDS"]) * trial.rng.random())
    return int(trial.rng.random() < {"a": 0.85, "b": 0.35, "c": 0.2}[m])
"""
WORKER = """
import sys
from peira.app.session import Session
from peira.app.workers import WorkerOptions, work

if __name__ == "__main__":
    work(Session.find(sys.argv[1]), WorkerOptions(parallel=4, lease=10.0))
"""
RULES = {"decided": '"when decided"', "racing": '{"rule": "racing", "by": "m"}'}


@pytest.fixture
def write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    (tmp_path / "worker.py").write_text(WORKER)

    def written(rule: str, seconds: float) -> str:
        file = tmp_path / "coins.py"
        file.write_text(STUDY.replace("RULE", RULES[rule]))
        monkeypatch.setenv("SECONDS", str(seconds))
        return str(file)

    return written


def submit(study: str, address: str, **options: Any) -> str:
    return submit_shared(study, RunOptions(workers=0, **options), Session.find(address))


def looks_of(address: str, run: str) -> list[Any]:
    """The recorded looks of a run, in order; its end comes after all of them."""
    with Session.find(address).reading() as store:
        events = [record.event for record in store.events(run, 0, 100_000)]
    places = [n for n, event in enumerate(events) if isinstance(event, (RunLooked, RunDecided))]
    assert all(isinstance(event, RunFinished) for event in events[-1:])
    return [events[n].look for n in places]  # type: ignore[union-attr]


def one_process(study: str, folder: Path) -> tuple[list[Any], Any]:
    """The looks that one process takes, and its results."""
    store = str(folder / "alone.db")
    results = peira.run(study, store=store, parallel=4, progress=False)
    return looks_of(store, results.run_id), results


@pytest.mark.parametrize("rule", RULES)
def test_workers_take_the_looks_that_one_process_takes(write, postgres_url, tmp_path, join, rule):
    expected, alone = one_process(write(rule, 0.0), tmp_path)
    assert expected[-1].answer
    run = submit(write(rule, 0.2), postgres_url)
    assert [worker.wait(timeout=60) for worker in [join(), join()]] == [0, 0]
    results = peira.open(postgres_url).results(run)
    assert results.status == "completed"
    assert looks_of(postgres_url, run) == expected
    assert results.look == alone.look
    ended = peira.open(postgres_url).run(run)
    assert ended.counts["generate.spared"] > 0
    assert sum(n for key, n in ended.counts.items() if key.startswith("generate.")) == 360


@pytest.mark.parametrize("place", ["shared.before_look:2", "shared.after_look:1"])
def test_another_takes_over_when_the_arbiter_is_killed(write, postgres_url, tmp_path, join, place):
    expected, _ = one_process(write("racing", 0.0), tmp_path)
    run = submit(write("racing", 0.1), postgres_url)
    arbiter = join(failpoint=place)
    while arbiter.poll() is None and peira.open(postgres_url).run(run).look is None:
        time.sleep(0.01)
    other = join()
    assert arbiter.wait(timeout=60) == -9, "it was the arbiter, and is killed as such"
    assert other.wait(timeout=60) == 0
    assert looks_of(postgres_url, run) == expected
    with Session.find(postgres_url).reading() as store:
        assert verify(store) == []


def test_an_answer_that_is_recorded_stays(write, postgres_url):
    study = write("decided", 0.0)
    first = submit(study, postgres_url)
    work(Session.find(postgres_url), WorkerOptions(parallel=4))
    looks = looks_of(postgres_url, first)
    assert looks[-1].answer
    again = submit(study, postgres_url)
    ended = work(Session.find(postgres_url), WorkerOptions(parallel=4))
    assert ended is not None
    assert looks_of(postgres_url, again) == looks
    assert not ended.counts.get("generate.succeeded")
    assert ended.counts["generate.spared"] > 0
    whole = submit(study, postgres_url, whole=True)
    ended = work(Session.find(postgres_url), WorkerOptions(parallel=4))
    assert ended is not None
    done = [ended.counts.get(f"generate.{how}", 0) for how in ("succeeded", "reused")]
    assert sum(done) == 360, "the first run may have done all of it before the answer"
    assert not looks_of(postgres_url, whole)


def test_a_look_that_follows_another_than_the_last_is_refused():
    store = MemoryStore()
    run = plan_run(store)
    first, second, late = (RunLooked(Look(n, 10 * n), 10 * (n - 1)) for n in (1, 2, 2))
    accept(store, run, first)
    accept(store, run, second)
    [refusal] = store.commit([Op(run, (late,))]).result()
    assert isinstance(refusal, Fenced), "an arbiter that was held up records no look twice"
