"""Who reads through a host goes on reading when the host ends."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from peira import serve, stream
from peira.app.streams._host_session import PATIENCE as HELD_UP

pytestmark = pytest.mark.timeout(60)
PATIENCE = 30.0


def echo(case: Any) -> Any:
    return case.input


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "live.db"


def test_a_host_does_not_close_its_store_under_who_reads_it(store: Path) -> None:
    host = serve(stream(echo), store=store)
    job = host.submit("echo", 1)
    job.result(PATIENCE)
    view = host.stream("echo")
    reading, ending = threading.Event(), threading.Event()
    found = list[Any]()

    def read() -> None:
        with view.session.reading() as opened:
            reading.set()
            assert ending.wait(PATIENCE)
            while not host.ended:  # it has begun to close
                pass
            found.append(opened.find("task", [job.id])[job.id].state.value)

    reader = threading.Thread(target=read)
    reader.start()
    assert reading.wait(PATIENCE)
    stopping = threading.Thread(target=host.stop)
    stopping.start()
    ending.set()
    for thread in (reader, stopping):
        thread.join(PATIENCE)
        assert not thread.is_alive()
    assert found == ["succeeded"]
    assert (job.state, job.result(0)) == ("succeeded", 1), "read from the file now"


def test_looks_and_subscribers_meet_no_closed_store(store: Path) -> None:
    host = serve(stream(echo), store=store)
    job = host.submit("echo", 1)
    view, problems = host.stream("echo"), list[BaseException]()
    subscription = view.subscribe(lambda event: None, name="all")
    over = threading.Event()

    def look() -> None:
        try:
            while not over.is_set():
                assert job.wait(0) in (True, False)
        except BaseException as problem:
            problems.append(problem)

    lookers = [threading.Thread(target=look) for _ in range(4)]
    for one in lookers:
        one.start()
    job.result(PATIENCE)
    results = view.results()
    host.stop()
    over.set()
    for one in lookers:
        one.join(PATIENCE)
    subscription.stop()
    assert (problems, subscription.problem) == ([], None)
    assert [trial.output for trial in results.trials] == [1], "results are read after the host has ended"


def test_who_ends_a_host_while_reading_is_not_held_up(store: Path) -> None:
    host = serve(stream(echo), store=store)
    host.submit("echo", 1).result(PATIENCE)
    began = time.monotonic()
    with host.stream("echo").session.reading():
        host.stop()
    assert host.ended
    assert time.monotonic() - began < HELD_UP, "it waited for itself"
