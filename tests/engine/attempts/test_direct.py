"""Plain code that follows from an output: needs no claim in advance, is recorded like any other task."""

from __future__ import annotations

import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from peira import Case, ask, run, study
from peira.core.log.events import CallIntended, Record, TaskFinished, TasksClaimed
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify


def echo(case: Any) -> Any:
    return case.input


def scored(*evaluators: Any, n: int = 40, agent: Any = echo, **more: Any) -> Any:
    return study(
        agent=agent, cases=[Case(i, expected=i) for i in range(n)], evaluators=list(evaluators), **more
    )


def records(path: str = "s.db") -> list[Record]:
    store = SqliteStore(path, readonly=True)
    found = list(store.history())
    assert list(verify(store)) == []
    store.close()
    return found


def claims(seen: list[Record]) -> list[TasksClaimed]:
    return [r.event for r in seen if isinstance(r.event, TasksClaimed) and r.event.task_kind == "evaluate"]


@pytest.fixture(autouse=True)
def _in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_scores_are_claimed_together_in_the_commit_of_their_ends() -> None:
    commits: list[list[Record]] = []
    store = SqliteStore("s.db", on_commit=commits.append)
    results = run(scored("exact", "match", n=500), store=store, progress=False)
    store.close()
    assert results.counts["scores"] == 1000
    seen = records()
    assert sum(len(event.tasks) for event in claims(seen)) == 1000
    assert len(claims(seen)) < 500
    for commit in commits:
        together = {task for event in claims(commit) for task in event.tasks}
        ended = {r.event.task for r in commit if isinstance(r.event, TaskFinished)}
        assert together <= ended


def test_every_score_has_one_end_of_its_own_after_that_of_its_trial() -> None:
    run(scored("exact", n=200), store="s.db", progress=False)
    ends = Counter(r.event.task for r in records() if isinstance(r.event, TaskFinished))
    assert len(ends) == 400
    assert set(ends.values()) == {1}


def test_equal_scores_are_computed_once_however_many_trials_share_them() -> None:
    judged: list[Any] = []

    def counted(output: Any, expected: Any) -> bool:
        judged.append(output)
        return bool(output == expected)

    results = run(scored(counted, n=20, repeats=30), store="s.db", parallel=16, progress=False)
    assert len(results.trials) == 600
    assert sorted(judged) == list(range(20))


def test_an_evaluator_that_asks_a_model_is_claimed_before_it_asks() -> None:
    def asks(output: Any) -> bool:
        return ask("scripted:echo", str(output)).text == str(output)

    results = run(scored(asks, n=10), store="s.db", parallel=4, progress=False)
    assert results.ok
    assert results.counts["scores"] == 10
    claimed: set[str] = set()
    intended = 0
    for record in records():
        if isinstance(record.event, TasksClaimed):
            claimed.update(record.event.tasks)
        elif isinstance(record.event, CallIntended):
            assert record.event.task in claimed
            intended += 1
    assert intended == 10


def test_an_evaluator_that_hangs_does_not_keep_the_trial() -> None:
    def hangs(output: Any) -> bool:
        while output == 3:
            time.sleep(0.05)
        return True

    results = run(
        scored(hangs, n=8), store="s.db", parallel=2, progress=False, policy={"timeout": 0.5, "retries": 0}
    )
    assert results.counts["succeeded"] == 8
    problems = [row.score.failure for row in results.scores if row.score.failure]
    assert [problem.type for problem in problems] == ["TimedOut"]


def test_an_evaluator_that_fails_is_tried_again_and_its_attempts_are_counted() -> None:
    tried: Counter[int] = Counter()

    def fails_once(output: Any) -> bool:
        tried[output] += 1
        if tried[output] == 1:
            raise ValueError("not yet")
        return True

    results = run(
        scored(fails_once, n=5), store="s.db", progress=False, policy={"retries": 1, "backoff": 0.01}
    )
    assert results.ok
    assert set(tried.values()) == {2}
    store = SqliteStore("s.db", readonly=True)
    rows = [row for row in store.rows() if getattr(row, "kind", "") == "evaluate"]
    store.close()
    assert {(row.attempts, row.epoch) for row in rows} == {(2, 2)}  # type: ignore[union-attr]


KILLER = """
import os, sys
from pathlib import Path
from peira import run, study

def made(case):
    with Path("made").open("a") as file:
        file.write(f"{case.input}\\n")
    return case.input

def kills(output):
    if output == 5:
        os._exit(9)
    return True

if __name__ == "__main__":
    made = study(agent=made, cases=list(range(12)), evaluators=[kills])
    results = run(made, store="s.db", parallel=2, progress=False)
    print(len(results.trials), [row.trial.output for row in results.scores if row.score.failure])
"""


def test_an_evaluator_that_kills_the_process_costs_its_score_and_no_trial() -> None:
    Path("killer.py").write_text(KILLER)
    for _ in range(8):
        done = subprocess.run([sys.executable, "killer.py"], capture_output=True, text=True, timeout=50)
        if done.returncode != 9:
            break
    assert done.returncode == 0, done.stderr
    assert done.stdout == "12 [5]\n"
    executed = Counter(Path("made").read_text().split())
    assert set(executed) == {str(n) for n in range(12)}
    assert max(executed.values()) <= 2  # once more after the first death, then its end is durable before
    records()


def test_threads_that_wait_become_as_many_as_were_asked_for() -> None:
    together = threading.Barrier(24)

    def waits(case: Any) -> int:
        together.wait(timeout=40)
        return int(case.input)

    results = run(scored(n=24, agent=waits), store="s.db", parallel=24, progress=False)
    assert results.ok  # all 24 were under way at the same time
