"""What a stored run was expected to take, and what it spent."""

from __future__ import annotations

from typing import NamedTuple

import peira.engine as engine
from peira.analysis.money import Bill, spent
from peira.api.finding import find_run
from peira.api.stores import StoreLike, reading
from peira.core.state import Run
from peira.plan.estimate import Estimate
from peira.plan.provenance import read_provenance
from peira.spec.project import Project


class Account(NamedTuple):
    """What a run was expected to take when it was opened, if that was kept, and what it spent so far."""

    estimate: Estimate | None
    spent: Bill


def account_of(store: StoreLike, run: str) -> Account:
    with reading(store, Project.find()) as opened:
        found: Run = find_run(opened, run)
        kept = read_provenance(opened.get(found.provenance)).estimate if found.provenance else None
        # A run that came to its end has said what it spent; of another, each call is asked.
        return Account(kept, spent(found.spent if found.counts else engine.call_by_call(opened, run)))
