"""Streams of one host, and a study beside them, share the limits of models and the host's places."""

from __future__ import annotations

import threading
import time
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import peira
from peira import Case, ask, serve, stream, study
from peira.core.contracts import RunQuery
from peira.engine.calls.live_text import LiveText
from peira.errors import Invalid, StoreInUse
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

pytestmark = pytest.mark.timeout(120)


class Meter:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self._lock, self.inside, self.peak = threading.Lock(), 0, 0

    def __enter__(self) -> None:
        with self._lock:
            self.inside += 1
            self.peak = max(self.peak, self.inside)

    def __exit__(self, *_: object) -> None:
        with self._lock:
            self.inside -= 1


def asking(case: Any) -> Any:
    return ask("fast", str(case.input), max_tokens=10)


@pytest.fixture
def limited(endpoint: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A model that may have three calls at once; its endpoint counts them and takes its time."""
    described = {
        "model": f"openai:{endpoint.model}",
        "base_url": f"{endpoint.base}/v1",
        "limits": {"concurrency": 3},
    }
    (tmp_path / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": described}}))
    monkeypatch.chdir(tmp_path)
    endpoint.always({"text": "yes", "delay": 0.03})
    return endpoint


def test_two_streams_and_a_study_never_exceed_the_limit_of_their_model(limited: Any) -> None:
    one, two = stream(asking, name="one", parallel=8), stream(asking, name="two", parallel=8)
    plain = study(name="beside", agent=asking, cases=[Case(input=f"s{n}") for n in range(12)])
    with serve(one, two, store="live.db") as host:
        jobs = [host.submit(name, f"{name} {n}") for n in range(12) for name in ("one", "two")]
        results = peira.run(plain, store="live.db", parallel=8, progress=False)
        assert {job.result(60) for job in jobs} == {"yes"}
        assert results.counts["succeeded"] == 12
    assert (limited.bills(), limited.peak()) == (36, 3)
    store = SqliteStore(Path("live.db"), readonly=True)
    assert list(verify(store)) == []
    spent = {run.study: sum(one.sends for one in run.spent) for run in store.runs(RunQuery())}
    store.close()
    assert spent == {"one": 12, "two": 12, "beside": 12}


def test_one_study_at_a_time_beside_streams(tmp_path: Path) -> None:
    begun, free = threading.Event(), threading.Event()

    def held(case: Any) -> Any:
        begun.set()
        assert free.wait(30)
        return case.input

    slow = study(name="slow", agent=held, cases=[Case(input=1)])
    store = tmp_path / "live.db"
    with serve(stream(lambda case: case.input, name="echo"), store=store) as host:
        under_way = peira.submit(slow, store=store, progress=False)
        assert begun.wait(30)
        with pytest.raises(StoreInUse, match="another study"):
            peira.run(slow, store=store, progress=False)
        assert host.submit("echo", 5).result(30) == 5
        free.set()
        assert under_way.result(30).counts["succeeded"] == 1
        assert host.submit("echo", 6).result(30) == 6


def test_the_places_of_a_host_are_shared_and_no_stream_starves() -> None:
    meter, order = Meter(), list[str]()

    def busy(case: Any) -> Any:
        with meter:
            time.sleep(0.02)
            order.append(case.input)

    one, two = stream(busy, name="one", parallel=6), stream(busy, name="two", parallel=6)
    with serve(one, two, store=MemoryStore(), parallel=3) as host:
        jobs = [host.submit("one", "one") for _ in range(30)]
        jobs += [host.submit("two", "two") for _ in range(6)]
        for job in jobs:
            job.result(60)
    assert meter.peak == 3
    assert order.index("two") < 27, "the second stream had to wait until the first had nothing left"


@pytest.mark.parametrize("parallel", [0, -1, 10**9])
def test_a_host_needs_a_sensible_number_of_places(parallel: int) -> None:
    with pytest.raises(Invalid, match="parallel: must lie between 1 and"):
        serve(stream(lambda case: None, name="one"), store=MemoryStore(), parallel=parallel)


def test_streamed_answers_are_heard_while_they_come(limited: Any, tmp_path: Path) -> None:
    described = {
        "model": f"openai:{limited.model}",
        "base_url": f"{limited.base}/v1",
        "stream": True,
    }
    (tmp_path / "peira.toml").write_text(tomli_w.dumps({"models": {"fast": described}}))
    limited.always({"text": "one two three"})
    with serve(stream(asking, name="one"), store="live.db") as host:
        job = host.submit("one", "hello")
        assert job.result(60) == "one two three"
        pieces = host.live.read(task=job.id)
        assert "".join(piece.text for piece in pieces) == "one two three"
        assert len(pieces) > 1
        assert host.live.read(pieces[-1].n) == []


def test_what_is_not_read_in_time_is_dropped_and_marked() -> None:
    ring = LiveText(most=3)
    for n in range(5):
        ring.add("a" if n % 2 else "b", "call", str(n))
    assert [(piece.text, piece.gap) for piece in ring.read()] == [("2", True), ("3", False), ("4", False)]
    assert [piece.text for piece in ring.read(4)] == ["4"]
    assert [(piece.text, piece.gap) for piece in ring.read(task="a")] == [("2", True), ("3", False)]
