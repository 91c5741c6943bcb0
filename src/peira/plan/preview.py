"""What a run would do, before it does anything: for people."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import msgspec

from peira.core.events import Spent
from peira.core.ids import Json
from peira.plan.bill import over_budget
from peira.plan.estimate import Estimate
from peira.plan.expand import Plan
from peira.plan.history import Found, Readable, changes, last_manifest
from peira.plan.labels import Labels
from peira.plan.surroundings import differences

MOST_SHOWN, MOST_LISTED = 20, 10_000


@dataclass(frozen=True)
class Preview:
    """A plan against a store: conditions, trials, what is reused, what is new and why."""

    study: str
    conditions: tuple[Mapping[str, Json], ...]
    of: int
    refusals: int
    design: str
    order: str
    anchors: int
    inadmissible: tuple[tuple[Mapping[str, Json], tuple[str, ...]], ...]
    warnings: tuple[str, ...]
    agents: tuple[str, ...]
    transform: str
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
    estimate: Estimate
    stop: str = ""
    spared: int = 0

    def to_json(self) -> dict[str, Any]:
        """Plain values with stable keys."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["inadmissible"] = [{"condition": c, "reasons": list(r)} for c, r in self.inadmissible]
        plain["estimate"] = msgspec.to_builtins(self.estimate)
        return plain

    @cached_property
    def _lines(self) -> list[str]:
        sizes = (self.of, "condition"), (self.cases, "case"), (self.repeats, "repeat")
        lines = [f"{self.study}: {' x '.join(counted(n, what) for n, what in sizes)}"]
        part = "" if self.trials == self.total else f" (a balanced part of {self.total})"
        trials, known = counted(self.trials, "trial"), f"{self.reused} reused, {self.retried} failed before"
        spared = f", {self.spared} not needed" if self.spared else ""
        lines.append(f"{trials}{part}: {self.new} new, {known}{spared}")
        lines += [f"stops {self.stop}"] * bool(self.stop)
        lines += [f"  {reason}" for reason in self.reasons]
        lines += [f"  {_assigned(condition)}" for condition in self.conditions[:MOST_SHOWN] if condition]
        if self.of > MOST_SHOWN:
            lines.append(f"  ... and {self.of - MOST_SHOWN:,} more conditions")
        lines += [
            f"inadmissible: {_assigned(c)}: {'; '.join(reasons)}"
            for c, reasons in self.inadmissible[:MOST_SHOWN]
        ]
        if self.refusals > MOST_SHOWN:
            lines.append(f"  ... and {self.refusals - MOST_SHOWN:,} more inadmissible conditions")
        lines.append(f"estimated: {self._estimated}")
        first = self.estimate.basis[: 1 + self.estimate.batch]
        lines += [f"  {line}" for line in first if self.estimate.asks]
        lines += [f"warning: {warning}" for warning in self.warnings]
        lines.append(f"design: {self.design}; order: {self._order}; generation {self.generation}")
        lines += [f"transform: {self.transform}"] if self.transform else []
        lines.append(f"evaluators: {', '.join(self.evaluators) or 'none'}")
        return [*lines, *self.notes]

    @property
    def _estimated(self) -> str:
        expected = self.estimate
        if expected.new and expected.calls is None and expected.seconds is None:
            return "calls, cost and time unknown: no model is named, and nothing was run yet"
        return expected.summary

    @property
    def _order(self) -> str:
        said = {
            "random": f"randomised by seed {self.seed}",
            "interleaved": f"in rounds of all conditions, randomised by seed {self.seed}",
            "cases": f"case by case under all conditions, randomised by seed {self.seed}",
            "given": "as given, NOT randomised: what drifts may look like an effect",
        }[self.order]
        return f"{said}, {counted(self.anchors, 'anchor')}" if self.anchors else said

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


def preview(
    plan: Plan, store: Readable | None, counts: Found, estimate: Estimate, spent: Iterable[Spent] = ()
) -> Preview:
    """`spent` is what earlier runs used of the budget."""
    layout, labels = plan.layout, Labels.of((*plan.study.factors, *plan.study.blocks))
    before = last_manifest(plan.study.name, store)
    return Preview(
        study=plan.study.name,
        conditions=tuple(labels.shown(c.shown) for c in layout.conditions[:MOST_LISTED]),
        of=len(layout.conditions),
        inadmissible=tuple((labels.shown(c.shown), c.reasons) for c in plan.refused),
        refusals=plan.refusals,
        warnings=(
            *(
                f"{_assigned(labels.shown(c.shown))}: {w}"
                for c in layout.conditions[:MOST_LISTED]
                for w in c.warnings
            ),
            *(differences(plan, store) if counts.reused else ()),
            *over_budget(estimate, plan.study.budget, spent),
        ),
        design=plan.study.design.name,
        order=layout.order,
        anchors=layout.anchors,
        agents=tuple(plan.agents),
        transform=str(plan.transform or ""),
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
        notes=(*(f"design: {line}" for line in plan.reasons), *_unseen(plan), *plan.notes),
        estimate=estimate,
    )
