"""The log of a run: every event as a line, in order, none twice, none before it is durable."""

from __future__ import annotations

import json
import logging
import os
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from peira import Case, current_trial, evaluate, exact, run, study, submit
from peira.core.contracts import Op
from peira.core.log.events import RunNoted, RunPlanned, RunStarted
from peira.engine.run_log import CHUNK, RunLog, event_values, problems_of
from peira.errors import Invalid
from peira.stores.memory import MemoryStore
from peira.stores.sqlite import SqliteStore


@study(cases=[Case(i, expected=i) for i in range(300)], evaluators=[exact()])
def counting(case):
    current_trial().log("seen", number=case.input)
    return case.input


def lines(file: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in file.read_text().splitlines()]


def as_lines(store: Any, run: str) -> list[dict[str, Any]]:
    return [{"run": run, **event_values(record)} for record in store.events(run, 0, 10**6)]


@pytest.mark.parametrize("make", [lambda folder: MemoryStore(), lambda folder: SqliteStore(folder / "s.db")])
def test_the_log_of_a_run_is_its_events(tmp_path, make) -> None:
    store = make(tmp_path)
    results = run(counting, store=store, parallel=4, progress=False, log=tmp_path / "events.jsonl")
    found = lines(tmp_path / "events.jsonl")
    assert found == as_lines(store, results.run_id)
    assert [line["seq"] for line in found] == list(range(1, len(found) + 1))
    assert len(found) > CHUNK
    assert (found[0]["kind"], found[-1]["kind"]) == ("run.planned", "run.finished")
    store.close()


def test_runs_and_scorings_are_appended_to_one_log(tmp_path) -> None:
    store, file = MemoryStore(), str(tmp_path / "events.jsonl")
    first = run(counting, store=store, progress=False, log=file)
    again = evaluate(first, [exact()], progress=False, log=file)
    handle = submit(counting, store=store, progress=False, log=file, fresh=True)
    third = handle.result()
    ids = [first.run_id, again.run_id, third.run_id]
    assert lines(Path(file)) == [line for run_id in ids for line in as_lines(store, run_id)]


class Store(MemoryStore):
    """Tells who reads, and hides its last events until it is told that they are durable."""

    def __init__(self) -> None:
        super().__init__()
        self.durable = 0
        self.read = threading.Event()

    def events(self, run: str, after: int = 0, limit: int = 1000) -> list[Any]:
        self.read.set()
        return [record for record in super().events(run, after, limit) if record.seq <= self.durable]

    def add(self, n: int) -> None:
        self.commit([Op("r", (RunNoted(f"{i}"),)) for i in range(n)])


def opened() -> Store:
    store = Store()
    store.commit([Op("r", (RunPlanned("m", "s", 1),)), Op("r", (RunStarted("1", 1),))])
    return store


@settings(max_examples=15)
@given(st.lists(st.tuples(st.integers(0, 2 * CHUNK), st.integers(0, 2 * CHUNK), st.booleans()), max_size=4))
def test_however_events_come_in_each_is_written_once_and_in_order(tmp_path_factory, rounds) -> None:
    store, file = opened(), tmp_path_factory.mktemp("log") / "l"
    with RunLog(file) as log:
        log.follow(store, "r")
        for added, durable, awaited in rounds:
            store.add(added)
            store.durable += durable
            store.read.clear()
            assert not awaited or store.read.wait(20)
            assert len(file.read_bytes().splitlines()) <= store.durable
    seqs = [line["seq"] for line in lines(file)]
    there = 2 + sum(added for added, _, _ in rounds)
    assert seqs == list(range(1, min(there, store.durable) + 1))


def test_lines_come_while_the_run_goes_on(tmp_path) -> None:
    seen = threading.Event()

    @study(cases=["first", "second"], policy={"timeout": 30})
    def waiting(case):
        if case.input == "first":
            return seen.wait(20)
        return True

    file = tmp_path / "l"
    handle = submit(waiting, store=MemoryStore(), progress=False, log=file)
    while not (file.exists() and "task.finished" in file.read_text()):  # of the second, the first waits
        assert not handle.wait(0.01)
    seen.set()
    assert [trial.output for trial in handle.result().trials] == [True, True]
    assert lines(file)[-1]["kind"] == "run.finished"


def test_half_a_line_that_a_killed_process_left_spoils_no_other(tmp_path) -> None:
    file = tmp_path / "l"
    file.write_text('{"seq": 1}\n{"seq": 2, "ki')
    results = run(counting, store=MemoryStore(), progress=False, log=file, limit=1)
    text = file.read_text().splitlines()
    assert text[:2] == ['{"seq": 1}', '{"seq": 2, "ki']
    assert {json.loads(line)["run"] for line in text[2:]} == {results.run_id}


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (lambda folder: "", "log: '' is not the path of a file"),
        (lambda folder: "a\0b", "log: 'a\\x00b' is not the path of a file"),
        (lambda folder: folder, "is a folder; give the path of a file"),
        (lambda folder: folder / "no" / "l", "log: there is no folder"),
        (lambda folder: folder / "study.py", "study.py is there and is no log; give another file"),
        (lambda folder: folder / "study.py" / "l", "log: there is no folder"),
        (lambda folder: folder / ("x" * 300), "cannot be written: File name too long"),
    ],
)
def test_what_cannot_be_a_log_is_refused_before_anything_runs(tmp_path, make, problem) -> None:
    (tmp_path / "study.py").write_text("from peira import study\n")
    before = sorted(tmp_path.iterdir())
    store = MemoryStore()
    with pytest.raises(Invalid, match="log: ") as caught:
        run(counting, store=store, progress=False, log=make(tmp_path))
    assert problem in str(caught.value)
    assert list(store.history()) == []
    assert sorted(tmp_path.iterdir()) == before


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everything")
def test_a_file_without_leave_to_write_is_refused(tmp_path) -> None:
    (tmp_path / "l").touch(0o400)
    tmp_path.chmod(0o500)
    assert problems_of(tmp_path / "l") == [f"log: {tmp_path / 'l'} cannot be written"]
    assert problems_of(tmp_path / "m") == [f"log: the folder {tmp_path} cannot be written"]


def test_a_refused_plan_leaves_no_log(tmp_path) -> None:
    with pytest.raises(Invalid):
        run(counting, store=MemoryStore(), progress=False, log=tmp_path / "l", where="nonsense == 1")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_disk_that_is_full_ends_the_log_and_not_the_run(caplog) -> None:
    with caplog.at_level(logging.WARNING, logger="peira"):
        results = run(counting, store=MemoryStore(), progress=False, log="/dev/full")
    assert results.counts["succeeded"] == 300
    assert [record.getMessage() for record in caplog.records] == [
        "the log /dev/full ends at event 0: [Errno 28] No space left on device"
    ]


def test_without_a_log_nobody_follows() -> None:
    store = Store()
    store.durable = 10**6
    run(counting, store=store, progress=False, limit=2)
    assert not store.read.is_set()
