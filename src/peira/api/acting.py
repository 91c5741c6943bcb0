"""What the verbs do with a study, or with stored results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import peira.api as rooms
from peira.analysis.results import Results
from peira.api.running import Wishes, execute
from peira.api.studies import StudyLike
from peira.core.events import Status
from peira.engine.work import EVALUATE, GENERATE, TRANSFORM

OUTPUTS, ANSWERS, SCORES = (GENERATE,), (TRANSFORM,), (TRANSFORM, EVALUATE)
"""The stages of verbs that are less than `run`."""


def acted(study: StudyLike, wishes: Wishes) -> Results:
    """The results of the study, executed to its end."""
    outcome = execute(study, wishes)
    if outcome.finished.status is Status.interrupted:
        raise KeyboardInterrupt("the run was interrupted; run it again to go on where it stopped")
    return outcome.results


def again(
    study: StudyLike | Results, evaluators: Sequence[Any] | None, transform: Any, wishes: Wishes
) -> Results:
    """The results of what is there already, judged by its own or by these."""
    if isinstance(study, Results):
        wishes = replace(wishes, store=study.store if wishes.store is None else wishes.store)
        study = study.run_id
    if evaluators is None and transform is None:
        return acted(study, wishes)
    return acted(rooms.judged_by(study, evaluators, transform, wishes.store), wishes)
