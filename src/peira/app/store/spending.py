"""What a stored run was expected to cost, and what it spent."""

from __future__ import annotations

from typing import NamedTuple

import peira.engine as engine
from peira.analysis.cost import Bill, spent
from peira.app.session import Session, SessionLike
from peira.app.store.runs import find_run
from peira.core.log.state import Run
from peira.plan.estimate.value import RunEstimate
from peira.plan.provenance import read_provenance


class RunAccount(NamedTuple):
    """The estimate that was recorded when the run was opened (None if none), and what it spent."""

    estimate: RunEstimate | None
    spent: Bill


def account_of(store: SessionLike, run: str) -> RunAccount:
    """The estimate and the spending of a run."""
    with Session.find(store).reading() as opened:
        found: Run = find_run(opened, run)
        kept = read_provenance(opened.get(found.provenance)).estimate if found.provenance else None
        # A run that ended has recorded what it spent; for others the calls are added up.
        return RunAccount(kept, spent(found.spent if found.counts else engine.spent_by_calls(opened, run)))
