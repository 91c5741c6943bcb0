"""A preview of a run, with the changes in its environment since the last run.

Package and Python versions are not part of a trial's identity, so trials made with other versions are reused;
the preview warns about it.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peira.core.code.fingerprint import fingerprint_of
from peira.core.contracts import RunQuery
from peira.core.ids import Json
from peira.core.log.events import Spent
from peira.core.text.grid import cell
from peira.core.text.result_value import ResultValue, TextGrid
from peira.plan.conditions import LevelLabels
from peira.plan.diff.history import Readable, StoredCounts, changes, last_manifest
from peira.plan.estimate.value import RunEstimate, over_budget
from peira.plan.expansion import Plan
from peira.plan.provenance import Provenance, installed, read_provenance

# Changes of the environment


def differences(plan: Plan, store: Readable | None) -> list[str]:
    """How packages and Python differ from the last run of the study, one warning per line."""
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
    """The installed packages that the agents' code depends on."""
    unseen = {what for agent in plan.agents.values() for what in fingerprint_of(agent).unseen}
    return sorted(what.removeprefix("package ") for what in unseen if what.startswith("package "))


def _differs(before: Provenance, package: str, now: str) -> bool:
    return package in before.packages and before.packages[package] != now


# The preview


MOST_SHOWN, MOST_LISTED = 20, 10_000  # conditions in the text, and in the value


@dataclass(frozen=True)
class Preview(ResultValue):
    """A plan compared with a store: conditions, trials, how many are reused, how many are new and why."""

    study: str
    conditions: tuple[Mapping[str, Json], ...]
    """The first admissible conditions, with level labels."""
    of: int
    """The number of all admissible conditions."""
    refusals: int
    """The number of inadmissible conditions."""
    design: str
    order: str
    anchors: int
    inadmissible: tuple[tuple[Mapping[str, Json], tuple[str, ...]], ...]
    """The first inadmissible conditions, each with its reasons."""
    warnings: tuple[str, ...]
    agents: tuple[str, ...]
    transform: str
    evaluators: tuple[str, ...]
    cases: int
    repeats: int
    seed: int
    generation: int
    total: int
    """Trials of the whole study."""
    trials: int
    """Trials that this plan runs."""
    new: int
    """Trials without a result."""
    reused: int
    """Trials with a result."""
    retried: int
    """Trials that failed before."""
    reasons: tuple[str, ...]
    """Why trials are new."""
    notes: tuple[str, ...]
    estimate: RunEstimate
    stop: str = ""
    """The stopping rule as text; "" if none."""
    spared: int = 0
    """Trials that the stopping rule does not need any more."""

    @property
    def title(self) -> str:
        """What is planned, how much of it is new, and why."""
        sizes = (self.of, "condition"), (self.cases, "case"), (self.repeats, "repeat")
        lines = [f"{self.study}: {' x '.join(counted(n, what) for n, what in sizes)}"]
        part = "" if self.trials == self.total else f" (a balanced part of {self.total})"
        trials, known = counted(self.trials, "trial"), f"{self.reused} reused, {self.retried} failed before"
        spared = f", {self.spared} not needed" if self.spared else ""
        lines.append(f"{trials}{part}: {self.new} new, {known}{spared}")
        lines += [f"stops {self.stop}"] * bool(self.stop)
        return "\n".join([*lines, *(f"  {reason}" for reason in self.reasons)])

    def plain_tables(self, width: int | None = None) -> str:
        """A line for each of the first conditions, and of those that are inadmissible."""
        lines = [f"  {_assigned(condition)}" for condition in self.conditions[:MOST_SHOWN] if condition]
        lines += [f"  {line}" for line in _more(self.of, "condition")]
        lines += [
            f"inadmissible: {_assigned(c)}: {'; '.join(reasons)}"
            for c, reasons in self.inadmissible[:MOST_SHOWN]
        ]
        return "\n".join([*lines, *(f"  {line}" for line in _more(self.refusals, "inadmissible condition"))])

    def grids(self) -> list[TextGrid]:
        """The first conditions, and the first inadmissible ones with their reasons."""
        admissible = [(condition, ()) for condition in self.conditions[:MOST_SHOWN] if condition]
        refused = self.inadmissible[:MOST_SHOWN]
        grids = [
            _condition_grid(admissible, "", _more(self.of, "condition")),
            _condition_grid(refused, "inadmissible because", _more(self.refusals, "inadmissible condition")),
        ]
        return [grid for grid in grids if grid.rows]

    @property
    def remarks(self) -> list[str]:
        """The estimate, warnings, design and evaluators, and what else is to be known."""
        lines = [f"estimated: {self._estimated}"]
        first = self.estimate.basis[: 1 + self.estimate.batch]
        lines += [f"  {line}" for line in first if self.estimate.asks]
        lines += [f"warning: {warning}" for warning in self.warnings]
        lines.append(f"design: {self.design}; order: {self._order}; generation {self.generation}")
        lines += [f"transform: {self.transform}"] if self.transform else []
        lines.append(f"evaluators: {', '.join(self.evaluators) or 'none'}")
        return [*lines, *self.notes]

    def document(self) -> dict[str, Any]:
        """Plain values with stable keys."""
        plain = {name: getattr(self, name) for name in self.__dataclass_fields__}
        plain["inadmissible"] = [{"condition": c, "reasons": list(r)} for c, r in self.inadmissible]
        plain["estimate"] = self.estimate.document()
        return plain

    @property
    def _estimated(self) -> str:
        """The estimate as text."""
        expected = self.estimate
        if expected.new and expected.calls is None and expected.seconds is None:
            return "calls, cost and time unknown: no model is named, and nothing was run yet"
        return expected.summary

    @property
    def _order(self) -> str:
        """The run order as text."""
        text = {
            "random": f"randomised by seed {self.seed}",
            "interleaved": f"in rounds of all conditions, randomised by seed {self.seed}",
            "cases": f"case by case under all conditions, randomised by seed {self.seed}",
            "given": "as given, NOT randomised: what drifts may look like an effect",
        }[self.order]
        return f"{text}, {counted(self.anchors, 'anchor')}" if self.anchors else text


def counted(n: int, what: str) -> str:
    """A count with its noun: 1 case, 2 cases."""
    return f"{n} {what}" if n == 1 else f"{n} {what}s"


def _assigned(condition: Mapping[str, Json]) -> str:
    """A condition as text."""
    return ", ".join(f"{name}={value}" for name, value in condition.items())


def _more(n: int, what: str) -> list[str]:
    """The line about those that are not listed, if there are any."""
    return [f"... and {n - MOST_SHOWN:,} more {what}s"] if n > MOST_SHOWN else []


def _condition_grid(
    conditions: Sequence[tuple[Mapping[str, Json], Sequence[str]]], why: str, more: Sequence[str]
) -> TextGrid:
    """A row for each condition, with its reasons if the last column says `why`, and a last row for `more`."""
    names = list(dict.fromkeys(name for condition, _ in conditions for name in condition))
    rows = [
        [
            *(cell(condition[name]) if name in condition else "-" for name in names),
            *(["; ".join(reasons)] if why else []),
        ]
        for condition, reasons in conditions
    ]
    header = [*map(cell, names), *([why] if why else [])]
    return TextGrid(header, [*rows, *([line, *[""] * (len(header) - 1)] for line in more)])


def _unseen(plan: Plan) -> list[str]:
    """Dependencies of the agents' code that fingerprints do not cover: changes there make no new trials."""
    lines = []
    for label, agent in plan.agents.items():
        unseen = [what for what in fingerprint_of(agent).unseen if not what.startswith("package ")]
        if unseen:
            lines.append(f"not seen in {label}: {', '.join(unseen)} (a change there makes no trial new)")
    return lines


def preview(
    plan: Plan,
    store: Readable | None,
    counts: StoredCounts,
    estimate: RunEstimate,
    spent: Iterable[Spent] = (),
) -> Preview:
    """The preview of a plan; `spent` is the budget used by earlier runs."""
    layout, labels = plan.layout, LevelLabels.of((*plan.study.factors, *plan.study.blocks))
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
