"""Models with prices, pieces of work that were done, and estimates of plans by them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from hypothesis import strategies as st

from peira.core.models import Limits, Named, Usage
from peira.models.scripted import ScriptedModel
from peira.plan.amounts import Range
from peira.plan.assumptions import Assumptions, assumptions
from peira.plan.estimate import Estimate
from peira.plan.estimating import estimate
from peira.plan.expand import Plan
from peira.plan.experience import Did, Experience, experience, key_of
from peira.plan.history import found
from peira.plan.loads import Asked
from peira.plan.workload import workload
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


def model(name: str, price: PerToken | None = A_DOLLAR, **limits: Any) -> Named:
    return Named(f"scripted:{name}", ScriptedModel(name), Limits(**limits), price)


def did(under: str = "", served: str = "scripted:x", **took: float | None) -> Did:
    usual: dict[str, Any] = {"calls": 1.0, "input": 10.0, "output": 5.0, "cost": 0.5, "seconds": 2.0}
    return Did("generate", under, served=frozenset({served} - {""}), **{**usual, **took})


def asked(plan: Plan, *models: Named) -> Asked:
    return Asked({key_of(c): models for c in plan.layout.conditions}, {})


def estimated(
    plan: Plan,
    store: MemoryStore | None = None,
    known: Experience | None = None,
    models: Sequence[Named] = (),
    parallel: int = 4,
    **said: Any,
) -> Estimate:
    known = experience(plan, store) if known is None else known
    work = workload(plan, store, found(plan, store))
    return estimate(plan, work, known, asked(plan, *models), parallel, assumptions(said))


values = st.floats(0, 1e6)


def ordered(amount: Range | None) -> bool:
    return amount is None or 0 <= amount.low <= amount.expected * (1 + 1e-9) <= amount.high * (1 + 1e-8)
