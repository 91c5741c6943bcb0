"""Shared runs: submitted, controlled from anywhere, and executed where the study's files are not."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import peira
from peira.app.control import cancel, pause_run, resume_run
from peira.app.run import RunOptions
from peira.app.session import Session
from peira.app.store.retention import delete
from peira.app.workers import WorkerOptions, submit_shared, work
from peira.core.log.events import Status
from peira.core.log.rows import Task
from peira.errors import Invalid
from peira.stores.postgres.store import PostgresStore

SLOW = """
import time
from peira import Case, exact, study


@study(cases=[Case(i, expected=i) for i in range({cases})], evaluators=[exact()], policy={policy})
def slow(case):
    time.sleep({seconds})
    if case.input in {failing}:
        raise ValueError("no")
    return case.input
"""
ASKING = """
from peira import ask, exact, study


@study(cases=[("a", "a")], evaluators=[exact()])
def asking(case):
    return ask("openai:gpt-5-mini", case.input).text
"""
WORKER = """
import sys
from peira.app.session import Session
from peira.app.store.retention import delete
from peira.app.workers import WorkerOptions, work

if __name__ == "__main__":
    work(Session.find(sys.argv[1]), WorkerOptions(parallel=4))
"""


@pytest.fixture
def study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def made(cases: int = 8, seconds: float = 0.0, policy: Any = None, failing: tuple[int, ...] = ()) -> Path:
        file = tmp_path / "slow.py"
        told = {"cases": cases, "seconds": seconds, "policy": policy or {}, "failing": failing}
        file.write_text(SLOW.format(**told))
        (tmp_path / "worker.py").write_text(WORKER)
        return file

    return made


def submit(study: Path, address: str, **options: Any) -> str:
    return submit_shared(str(study), RunOptions(workers=0, **options), Session.find(address))


def wait_for(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.05)


def test_a_submitted_run_waits_for_workers(study, postgres_url):
    run = submit(study(), postgres_url)
    assert peira.open(postgres_url).run(run).status is Status.planned
    ended = work(Session.find(postgres_url), WorkerOptions(parallel=2))
    assert ended is not None
    assert ended.status is Status.completed
    assert ended.counts == {"planned": 8, "evaluate.succeeded": 8, "generate.succeeded": 8}
    assert work(Session.find(postgres_url), WorkerOptions()) is None, "there is nothing left to do"


def test_what_was_done_before_is_reused(study, postgres_url):
    file = study(failing=(3,))
    submit(file, postgres_url)
    first = work(Session.find(postgres_url), WorkerOptions(parallel=2))
    assert first is not None
    assert first.status is Status.failures
    assert (first.counts["generate.succeeded"], first.counts["generate.failed"]) == (7, 1)
    submit(file, postgres_url, policy={"retry_failed": False})
    again = work(Session.find(postgres_url), WorkerOptions(parallel=2))
    assert again is not None
    assert again.counts == {
        "planned": 8, "evaluate.reused": 7, "generate.kept": 1, "generate.reused": 7,
    }  # fmt: skip


def test_the_files_of_the_study_need_not_be_there(study, postgres_url):
    file = study()
    run = submit(file, postgres_url)
    file.unlink()
    work(Session.find(postgres_url), WorkerOptions(parallel=2))
    assert peira.open(postgres_url).results(run).status == "completed"


def test_a_worker_waits_for_a_command_that_has_the_store_for_a_moment(study, postgres_url):
    submit(study(), postgres_url)
    alone = PostgresStore(postgres_url)
    threading.Timer(0.5, alone.close).start()
    ended = work(Session.find(postgres_url), WorkerOptions(parallel=2))
    assert ended is not None
    assert ended.status is Status.completed


def test_a_run_that_waits_for_workers_is_there_after_others_were_deleted(study, postgres_url):
    file = study()
    first = submit(file, postgres_url)
    work(Session.find(postgres_url), WorkerOptions(parallel=2))
    waiting = submit(file, postgres_url)
    assert delete([first], postgres_url).runs
    later = submit(file, postgres_url)
    work(Session.find(postgres_url), WorkerOptions(parallel=2))
    opened = peira.open(postgres_url)
    assert [opened.run(run).status for run in (waiting, later)] == [Status.completed] * 2


def test_other_packages_are_refused_unless_that_is_allowed(study, postgres_url, tmp_path, monkeypatch):
    submit(study(), postgres_url)
    (tmp_path / "lib" / "otherwise-1.2.dist-info").mkdir(parents=True)
    monkeypatch.syspath_prepend(str(tmp_path / "lib"))
    with pytest.raises(Invalid) as refused:
        work(Session.find(postgres_url), WorkerOptions())
    assert any("otherwise (not installed), here is 1.2" in line for line in refused.value.problems)
    ended = work(Session.find(postgres_url), WorkerOptions(allow_different=True))
    assert ended is not None
    assert ended.status is Status.completed


def test_a_worker_that_lacks_the_key_of_a_model_begins_nothing(study, postgres_url, monkeypatch):
    file = study(cases=3)
    file.write_text(ASKING)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-of-the-submitter")
    run = submit(file, postgres_url)
    monkeypatch.delenv("OPENAI_API_KEY")
    with pytest.raises(Invalid, match="OPENAI_API_KEY"):
        work(Session.find(postgres_url), WorkerOptions())
    with Session.find(postgres_url) as session, session.reading() as store:
        assert store.find("run", [run])[run].status is Status.planned
        assert not any(isinstance(row, Task) for row in store.rows())


def test_what_workers_cannot_do_is_said_before_anything_is_written(study, postgres_url, tmp_path):
    with pytest.raises(Invalid, match="batches"):
        submit(study(), postgres_url, batch=True)
    with pytest.raises(Invalid, match="one process at a time"):
        submit(study(), str(tmp_path / "store.db"))
    assert not Session.find(postgres_url).exists
    assert not (tmp_path / "store.db").exists()


def test_too_many_failures_of_all_together_stop_all(study, postgres_url, join):
    file = study(cases=200, seconds=0.1, policy={"max_failures": 5, "retries": 0}, failing=tuple(range(200)))
    run = submit(file, postgres_url)
    workers = [join(), join()]
    assert [worker.wait(timeout=50) for worker in workers] == [0, 0]
    ended = peira.open(postgres_url).run(run)
    assert ended.status is Status.stopped
    assert "more than the 5 allowed" in ended.reason
    assert ended.counts["generate.failed"] < 100


def test_pause_and_cancel_reach_every_worker(study, postgres_url, join):
    run = submit(study(cases=400, seconds=0.2), postgres_url)
    workers = [join(), join()]
    opened = peira.open(postgres_url)

    def running() -> int:
        with Session.find(postgres_url).reading() as store:
            return len(store.active())

    wait_for(lambda: running() > 2)
    assert pause_run(run, postgres_url)[1]
    wait_for(lambda: running() == 0)
    time.sleep(0.5)
    assert running() == 0, "nothing begins while it is paused"
    assert resume_run(run, postgres_url)[1]
    wait_for(lambda: running() > 2)
    assert cancel(run, postgres_url).done
    assert [worker.wait(timeout=50) for worker in workers] == [0, 0]
    ended = opened.run(run)
    assert ended.status is Status.cancelled
    assert ended.counts["generate.left"] > 300
    assert sum(n for key, n in ended.counts.items() if key.startswith("generate.")) == 400
