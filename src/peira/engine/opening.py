"""Opening a run: its plan kept, its provenance noted, its first two events written."""

from __future__ import annotations

import uuid
from pathlib import Path

from peira.core.codec import encode
from peira.core.contracts import Op, Store
from peira.core.events import RunPlanned, RunStarted
from peira.core.failpoints import reach
from peira.core.ids import compose, digest_bytes
from peira.plan.expand import Plan
from peira.plan.manifest import keep, read
from peira.plan.provenance import provenance


def open_run(plan: Plan, store: Store, owner: str, incarnation: int, now: float, resumes: str = "") -> str:
    """Write the plan and the opening events, durably; returns the new run's id."""
    manifest = keep(plan, store.put)
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
