"""Results made of plain numbers, and those of a published study where its data are at hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest

from peira.analysis.results import Results
from peira.core.log.events import Failure, State
from peira.results.trials import Score, TrialResult


def one(case: object, value: object, repeat: int = 0, agent: str = "answer", **more: Any) -> TrialResult:
    """A trial with one score `match`; None has failed. Names that are no field of a trial are factors."""
    fields = {name: more.pop(name) for name in list(more) if name in TrialResult.__struct_fields__}
    failed = value is None
    where = ",".join(map(str, (case, repeat, agent, *more.values())))
    base: dict[str, Any] = {
        "id": f"t {where}",
        "agent": agent,
        "case_id": str(case),
        "condition": more,
        "repeat": repeat,
        "state": State.failed if failed else State.succeeded,
        "failure": Failure("OSError", "no") if failed else None,
        "scores": {} if failed else {"match": Score("match", State.succeeded, value)},
    }
    return TrialResult(**base | fields)


def gathered(trials: Iterable[TrialResult], run: str = "f" * 64) -> Results:
    kept = list(trials)
    return Results(lambda: iter(kept), run_id=run, study="s", status="completed", counts={})


@pytest.fixture
def trial() -> Callable[..., TrialResult]:
    return one


@pytest.fixture
def results() -> Callable[..., Results]:
    return gathered


@pytest.fixture(scope="session")
def gsm8k(gsm8k_solutions: list[dict[str, Any]]) -> Results:
    """Two sizes of model by two methods on 1,319 problems, as published with the data set."""
    trials = []
    for number, row in enumerate(gsm8k_solutions):
        for size in ("6b", "175b"):
            for method in ("finetuning", "verification"):
                right = row[f"{size}_{method}"]["is_correct"]
                trials.append(one(f"{number:04}", right, size=size, method=method))
    return gathered(trials)
