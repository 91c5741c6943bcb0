"""Much more is queued than is held ready: priorities act all the same, and shadows hold up no job."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from peira import serve, stream

pytestmark = pytest.mark.timeout(120)
PATIENCE = 60.0
MANY = 5000
"""More than the engine holds ready."""


def until(holds: Any) -> None:
    deadline = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < deadline, "it never came to that"
        time.sleep(0.01)


def test_a_job_of_higher_priority_overtakes_a_long_queue(tmp_path: Path) -> None:
    order, stopping, begun = list[Any](), threading.Event(), threading.Semaphore(20)

    def work(case: Any) -> None:
        if not stopping.is_set():
            begun.acquire(timeout=PATIENCE)
        order.append(case.input)

    with serve(stream(work, parallel=1), store=tmp_path / "live.db") as host:
        host.submit_many("work", [{"input": n} for n in range(MANY)])
        until(lambda: len(order) == 20)
        late = [host.submit("work", str(priority), priority=priority) for priority in (-1, 2, 9)]
        time.sleep(0.5)  # for the engine to take them
        begun.release(100)
        until(lambda: len(order) == 120)
        stopping.set()
        begun.release(MANY)
        assert late[0].wait(PATIENCE)
    assert order.index("9") < order.index("2") < 100, order[:120]
    assert order[-1] == "-1"
    assert [n for n in order if isinstance(n, int)] == list(range(MANY))


def test_shadows_that_wait_hold_up_no_job(tmp_path: Path) -> None:
    free = threading.Event()

    def work(case: Any, style: str) -> str:
        if style == "slow":
            free.wait(PATIENCE)
        return style

    made = stream(work, factors={"style": ["quick", "slow"]}, assign="all", shadows={"parallel": 1})
    with serve(made, store=tmp_path / "live.db") as host:
        host.submit_many("work", [{"input": n} for n in range(MANY)])
        until(lambda: host.stream("work").stats()["states"] == {"succeeded": MANY})
        assert host.submit("work", "late").result(PATIENCE) == "quick"
        assert not free.is_set(), "all of them while the first shadow was at work"
        free.set()
        host.stop(now=True)
