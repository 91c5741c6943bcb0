"""One terminal event for each task in a run, whatever several trials share."""

from __future__ import annotations

import time
from itertools import count
from typing import Any

import pytest

from peira import Case, current_trial, run, study
from peira.core.contracts import RunQuery
from peira.core.log.events import State
from peira.core.log.state import Task
from peira.stores.memory import MemoryStore
from peira.stores.verify import verify


@pytest.mark.parametrize("parallel", [1, 4])
def test_a_score_that_several_trials_share_fails_once(parallel: int) -> None:
    """Equal outputs have one score; its failure is not tried again for each of them within the run."""
    judged: list[Any] = []
    store = MemoryStore()

    def a_score_has_failed() -> bool:
        return any(isinstance(row, Task) and row.state is State.failed for row in store.rows())

    def judge(output: Any) -> bool:
        judged.append(output)
        raise ValueError("cannot say")

    @study(cases=[Case(i) for i in range(6)], evaluators=[judge])
    def agent(case: Any) -> str:
        given, deadline = current_trial().resources, time.monotonic() + 10
        first = next(given["order"]) == 0
        while not (first or given["failed"]() or time.monotonic() > deadline):
            time.sleep(0.001)  # the first trial's score is over before the others end
        return "the same"

    resources = {"order": count(), "failed": a_score_has_failed}
    for expected in (1, 2):  # a failure is tried again by the next run
        results = run(agent, store=store, parallel=parallel, progress=False, resources=resources)
        assert judged == ["the same"] * expected
        assert len(results.failures) == 6
        counts = store.runs(RunQuery(limit=1))[0].counts
        assert (counts["evaluate.failed"], counts["evaluate.kept"]) == (1, 5)
        assert verify(store) == []
