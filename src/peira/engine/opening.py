"""Opening a run: its plan kept, its provenance noted, its first two events written."""

from __future__ import annotations

import uuid
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

from peira.core.codec import encode
from peira.core.contracts import Op, RunQuery, Store
from peira.core.events import RunPlanned, RunStarted, Status
from peira.core.failpoints import reach
from peira.core.ids import compose, digest_bytes
from peira.engine.progress import LEFT, REUSED
from peira.engine.trials import GENERATE
from peira.plan.expand import Plan
from peira.plan.history import Readable
from peira.plan.manifest import read
from peira.plan.provenance import provenance


def open_run(
    plan: Plan, manifest: str, store: Store, owner: str, incarnation: int, now: float, resumes: str = ""
) -> str:
    """Write the opening events, durably; returns the new run's id."""
    study = digest_bytes(encode(read(manifest, store.get).snapshot))
    origin = provenance(study, manifest, plan.layout.seed, plan.layout.generation, Path.cwd(), now)
    run = compose("run", manifest, uuid.uuid4().hex)
    planned = RunPlanned(
        manifest=manifest,
        study=plan.study.name,
        trials=len(plan),
        tags=tuple(plan.study.tags),
        provenance=store.put(encode(origin)),
        resumes=resumes,
    )
    store.commit([Op(run, (planned,)), Op(run, (RunStarted(owner, incarnation),))]).result()
    reach("engine.after_plan")
    return run


def recorded_before(manifest: str, study: str, store: Readable) -> dict[str, int]:
    """The counts of a run of this very plan that ended with nothing failed; empty if there was none.

    Equal plans have equal trials and scores, and what has succeeded stays so: there is nothing to ask."""
    for run in store.runs(RunQuery(study=study, status=Status.completed, limit=100)):
        if run.manifest == manifest and run.counts.get(f"{GENERATE}.{LEFT}", 0) == 0:
            return _all_reused(run.counts)
    return {}


def _all_reused(counts: Mapping[str, int]) -> dict[str, int]:
    reused: Counter[str] = Counter()
    for key, n in counts.items():
        kind, dot, _ = key.partition(".")
        if dot:
            reused[f"{kind}.{REUSED}"] += n
    return dict(reused)
