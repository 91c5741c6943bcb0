"""kill -9 in the middle of scoring: no score is lost, and no judge is asked again what it has answered."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import tomli_w

import peira
from peira.core.log.events import CallAnswered, CallIntended, Record, TaskFinished
from peira.stores.sqlite import SqliteStore
from peira.stores.verify import verify

SCRIPT = """
from pathlib import Path
from peira import judge, pairwise, panel, run, study


def answer(case):
    with Path("asked").open("a") as file:
        file.write("x")
    return f"answer {case.input}"


asked = study(
    agent=answer,
    name="asked",
    cases=[(f"question {i}", f"reference {i}") for i in range(30)],
    policy={"interruptions": 1000},
    evaluators=[judge("grader", "Right?"), panel([judge("grader", "Kind?"), judge("grader", "Short?")])],
)

if __name__ == "__main__":
    run(asked, store="asked.db", parallel=8, progress=False)
"""
SCORES, CALLS, PARALLEL = 60, 90, 8


def records() -> list[Record]:
    store = SqliteStore("asked.db", readonly=True)
    found = list(store.history())
    assert list(verify(store)) == []
    store.close()
    return found


def texts(seen: list[Record]) -> dict[str, str]:
    """What was asked, by the key of the call."""
    store = SqliteStore("asked.db", readonly=True)
    intents = {r.event.key: r.event.request for r in seen if isinstance(r.event, CallIntended)}
    found = {key: json.loads(store.get(body))["messages"][-1]["content"] for key, body in intents.items()}
    store.close()
    return found


@pytest.mark.parametrize(
    "place", ["ledger.after_answer:25", "ledger.before_answer:40", "ledger.after_intent:60"]
)
def test_killed_in_the_middle_of_scoring(
    place: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, endpoint: Any, warm: Any
) -> None:
    monkeypatch.chdir(tmp_path)
    grader = {"model": f"openai:{endpoint.model}", "base_url": f"{endpoint.base}/v1"}
    Path("peira.toml").write_text(tomli_w.dumps({"models": {"grader": grader}}))
    Path("asked.py").write_text(SCRIPT)
    endpoint.always({"text": json.dumps({"reason": "so", "grade": 4}), "delay": 0.02})
    environment = {**os.environ, "PEIRA_FAILPOINT": place}
    killed = warm.start([sys.executable, "asked.py"], env=environment, stderr=subprocess.PIPE)
    _, said = killed.communicate(timeout=50)
    assert killed.returncode == -9, said.decode()

    before = records()
    asked = texts(before)
    known = {asked[r.event.key] for r in before if isinstance(r.event, CallAnswered)}
    scored = {r.event.task for r in before if isinstance(r.event, TaskFinished)}
    billed = Counter(endpoint.billed())
    results = peira.run("asked.py:asked", store="asked.db", parallel=PARALLEL, progress=False)
    after = Counter(endpoint.billed())
    assert known, "it was killed before anything was answered"
    assert len(known) < CALLS
    assert {text: after[text] for text in known} == {text: billed[text] for text in known}
    assert after.total() <= CALLS + PARALLEL * 2  # what was on its way when it was killed is asked again
    again = [r.event.task for r in records()[len(before) :] if isinstance(r.event, TaskFinished)]
    assert not scored & set(again)
    assert results.ok
    assert len(results.scores) == SCORES
    assert {row.score.value["value"] for row in results.scores} == {0.75}
