"""Models with prices, pieces of work that were done, and estimates of plans by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from peira.core.models import ModelLimits, NamedModel, Usage
from peira.models.providers.scripted import ScriptedModel
from peira.plan.diff.history import stored_counts
from peira.plan.estimate.estimator import KnownModels, estimate
from peira.plan.estimate.experience import PastUsage, PastWork, experience, key_of
from peira.plan.estimate.needs import Assumptions, assumptions
from peira.plan.estimate.value import Range, RunEstimate
from peira.plan.estimate.workload import workload
from peira.plan.expansion import Plan
from peira.spec.study import Study
from peira.stores.memory import MemoryStore

Make = Callable[..., Study]
NOTHING_SAID = Assumptions()
AMOUNTS = ("calls", "input", "output", "cost", "seconds")


@dataclass(frozen=True)
class PerToken:
    """A price of a dollar a token."""

    source: str = "a test"
    batch: float = 0.25

    def cost(self, usage: Usage) -> float | None:
        return float(usage.total)


A_DOLLAR = PerToken()


def model(name: str, price: PerToken | None = A_DOLLAR, **limits: Any) -> NamedModel:
    return NamedModel(f"scripted:{name}", ScriptedModel(name), ModelLimits(**limits), price)


def did(under: str = "", served: str = "scripted:x", **took: float | None) -> PastWork:
    usual: dict[str, Any] = {"calls": 1.0, "input": 10.0, "output": 5.0, "cost": 0.5, "seconds": 2.0}
    return PastWork("generate", under, served=frozenset({served} - {""}), **{**usual, **took})


def asked(plan: Plan, *models: NamedModel) -> KnownModels:
    return KnownModels({key_of(c): models for c in plan.layout.conditions}, {})


def estimated(
    plan: Plan,
    store: MemoryStore | None = None,
    known: PastUsage | None = None,
    models: Sequence[NamedModel] = (),
    parallel: int = 4,
    **said: Any,
) -> RunEstimate:
    known = experience(plan, store) if known is None else known
    work = workload(plan, store, stored_counts(plan, store))
    return estimate(plan, work, known, asked(plan, *models), parallel, assumptions(said))


values = st.floats(0, 1e6)


def ordered(amount: Range | None) -> bool:
    return amount is None or 0 <= amount.low <= amount.expected * (1 + 1e-9) <= amount.high * (1 + 1e-8)
