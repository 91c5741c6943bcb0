"""What a run would do, before it does anything: for people."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from peira.core.ids import Json
from peira.plan.expand import Plan
from peira.plan.history import Readable, changes, found, last_manifest
from peira.plan.surroundings import differences

MOST_SHOWN = 20


@dataclass(frozen=True)
class Preview:
    """A plan against a store: conditions, trials, what is reused, what is new and why."""

    study: str
    conditions: tuple[Mapping[str, Json], ...]
    inadmissible: tuple[tuple[Mapping[str, Json], tuple[str, ...]], ...]
    warnings: tuple[str, ...]
    agents: tuple[str, ...]
    evaluators: tuple[str, ...]
    cases: int
    repeats: int
    seed: int
    generation: int
    total: int
    trials: int
    new: int
    reused: int
    retried: int
    reasons: tuple[str, ...]
    notes: tuple[str, ...]

    def to_json(self) -> dict[str, Any]:
        """Plain values with stable keys."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["inadmissible"] = [{"condition": c, "reasons": list(r)} for c, r in self.inadmissible]
        return plain

    @cached_property
    def _lines(self) -> list[str]:
        sizes = (len(self.conditions), "condition"), (self.cases, "case"), (self.repeats, "repeat")
        lines = [f"{self.study}: {' x '.join(counted(n, what) for n, what in sizes)}"]
        part = "" if self.trials == self.total else f" (a balanced part of {self.total})"
        trials, known = counted(self.trials, "trial"), f"{self.reused} reused, {self.retried} failed before"
        lines.append(f"{trials}{part}: {self.new} new, {known}")
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [f"  {_assigned(condition)}" for condition in self.conditions[:MOST_SHOWN] if condition]
        if len(self.conditions) > MOST_SHOWN:
            lines.append(f"  ... and {len(self.conditions) - MOST_SHOWN} more conditions")
        lines += [
            f"inadmissible: {_assigned(c)}: {'; '.join(reasons)}"
            for c, reasons in self.inadmissible[:MOST_SHOWN]
        ]
        lines += [f"warning: {warning}" for warning in self.warnings]
        lines.append(f"order: randomised by seed {self.seed}; generation {self.generation}")
        lines.append(f"evaluators: {', '.join(self.evaluators) or 'none'}")
        return [*lines, *self.notes]

    def __str__(self) -> str:
        return "\n".join(self._lines)


def counted(n: int, what: str) -> str:
    """1 case, 2 cases."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _assigned(condition: Mapping[str, Json]) -> str:
    return ", ".join(f"{name}={value}" for name, value in condition.items())


def _unseen(plan: Plan) -> list[str]:
    """What the agents' code depends on and peira cannot look into: changes there make no new trials."""
    lines = []
    for label, agent in plan.agents.items():
        seen = agent.fingerprint.unseen  # type: ignore[attr-defined]
        unseen = [what for what in seen if not what.startswith("package ")]
        if unseen:
            lines.append(f"not seen in {label}: {', '.join(unseen)} (a change there makes no trial new)")
    return lines


def preview(plan: Plan, store: Readable | None) -> Preview:
    layout, counts = plan.layout, found(plan, store)
    before = last_manifest(plan.study.name, store)
    return Preview(
        study=plan.study.name,
        conditions=tuple(c.shown for c in layout.conditions),
        inadmissible=tuple((c.shown, c.reasons) for c in plan.refused),
        warnings=(
            *(f"{_assigned(c.shown)}: {w}" for c in layout.conditions for w in c.warnings),
            *(differences(plan, store) if counts.reused else ()),
        ),
        agents=tuple(plan.agents),
        evaluators=tuple(e.name for e in plan.evaluators.values()),
        cases=sum(len(cases) for cases in layout.case_sets.values()),
        repeats=layout.repeats,
        seed=layout.seed,
        generation=layout.generation,
        total=layout.size,
        trials=len(layout),
        new=counts.new,
        reused=counts.reused,
        retried=counts.failed,
        reasons=tuple(changes(plan, before, store, counts.new)),
        notes=(*_unseen(plan), *plan.study.unexecuted()),
    )
