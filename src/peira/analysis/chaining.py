"""Chained studies: what one study gave out is what the next one is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from peira.analysis.trials import TrialResult
from peira.core.events import State
from peira.core.ids import Json, digest
from peira.spec.case import Case

ID_DIGITS = 8


def cases_from(
    results: Iterable[TrialResult],
    *,
    input: Callable[[TrialResult], Any] | None = None,
    where: Callable[[TrialResult], bool] | None = None,
) -> list[Case]:
    """A case for each trial that has an output: the output is its input, or what `input` makes of the trial.

    Trials that failed give none, and neither do those that `where` refuses. What was expected stays expected.
    Outputs of one case are one cluster: they are not independent. `metadata["from"]` says where a case comes
    from: case, condition and repeat, which stay the same when the first study is run again, so that equal
    outputs make no new trials.
    """
    kept = (trial for trial in results if trial.state is State.succeeded and (where is None or where(trial)))
    return [_case(trial, trial.output if input is None else input(trial)) for trial in kept]


def _case(trial: TrialResult, given: Any) -> Case:
    condition: Json = dict(trial.condition)
    origin = {"case": trial.case_id, "condition": condition, "repeat": trial.repeat}
    return Case(
        given,
        expected=trial.expected,
        id=f"{trial.case_id}-{digest([condition, trial.repeat])[:ID_DIGITS]}",
        cluster=trial.cluster if trial.cluster is not None else trial.case_id,
        slice=trial.slice,
        metadata={**trial.metadata, "from": origin},
    )
