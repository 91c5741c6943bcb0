"""Chained studies: the outputs of one study as the cases of the next."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from peira.core.ids import Json, digest
from peira.core.log.events import State
from peira.results.trials import TrialResult
from peira.spec.case import Case

ID_DIGITS = 8
"""The number of digest digits in the id of a derived case."""


def cases_from(
    results: Iterable[TrialResult],
    *,
    input: Callable[[TrialResult], Any] | None = None,
    where: Callable[[TrialResult], bool] | None = None,
) -> list[Case]:
    """One case for each succeeded trial, with its output (or `input(trial)`) as input.

    Failed trials, and those for which `where` is false, are left out. `expected` is kept. Outputs of the same
    case form one cluster, since they are not independent. `metadata["from"]` records case, condition and
    repeat of origin; the case id is derived from these, so that equal outputs of a repeated first study cause
    no new trials.
    """
    kept = (trial for trial in results if trial.state is State.succeeded and (where is None or where(trial)))
    return [_case(trial, trial.output if input is None else input(trial)) for trial in kept]


def _case(trial: TrialResult, given: Any) -> Case:
    """The case derived from a trial."""
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
