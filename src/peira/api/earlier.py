"""An earlier run, to choose trials by."""

from __future__ import annotations

from typing import Any

from peira.analysis.collect import Collector
from peira.analysis.results import Results
from peira.analysis.trials import TrialResult, numbers
from peira.core.events import TERMINAL, State
from peira.core.state import Run
from peira.plan.earlier import Earlier, Past
from peira.plan.manifest import read


def earlier_of(run: Results | Run, store: Any) -> Earlier:
    """What a run found: by its results, or as it stands in the store."""
    if isinstance(run, Results):
        return Earlier(run.run_id, map(_past, run))
    return Earlier(run.id, map(_past, Collector(read(run.manifest, store.get), store, run.id)))


def _past(trial: TrialResult) -> Past:
    scores = {name: value for score in trial.scores.values() for name, value in numbers(score).items()}
    failed = trial.state in TERMINAL and trial.state is not State.succeeded
    return Past(trial.condition, trial.case_id, failed, scores)
