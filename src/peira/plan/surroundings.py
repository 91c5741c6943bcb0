"""What peira cannot see in the code it runs, and can only record: is it still as it was?

Package and Python versions are no part of a trial's identity, so trials made with other versions are
reused; the plan says so.
"""

from __future__ import annotations

import platform

from peira.core.contracts import RunQuery
from peira.plan.expand import Plan
from peira.plan.history import Readable
from peira.plan.provenance import Provenance, installed, read_provenance


def differences(plan: Plan, store: Readable | None) -> list[str]:
    """How what the agents depend on differs from what it was when the study last ran."""
    runs = store.runs(RunQuery(study=plan.study.name, limit=1)) if store else []
    if not runs or store is None or not runs[0].provenance:
        return []
    before = read_provenance(store.get(runs[0].provenance))
    here, packages = installed(), _packages(plan)
    now = {name: here.get(name, "not installed") for name in packages}
    changed = [
        f"{name} {before.packages[name]}, now {v}" for name, v in now.items() if _differs(before, name, v)
    ]
    if before.python != platform.python_version():
        changed.append(f"Python {before.python}, now {platform.python_version()}")
    return [f"reused trials were made with {what}" for what in changed]


def _packages(plan: Plan) -> list[str]:
    """The installed packages that the agents' code reaches."""
    unseen = {what for agent in plan.agents.values() for what in agent.fingerprint.unseen}  # type: ignore[attr-defined]
    return sorted(what.removeprefix("package ") for what in unseen if what.startswith("package "))


def _differs(before: Provenance, package: str, now: str) -> bool:
    return package in before.packages and before.packages[package] != now
