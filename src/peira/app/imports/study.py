"""A study made from recorded outputs, with their cases, factors and repeats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from peira.agents.recorded import recorded
from peira.core.ids import Json, canonical, digest_bytes
from peira.core.text.words import counted
from peira.data.outputs import RecordedOutput
from peira.data.outputs.record import ABSENT
from peira.errors import Invalid
from peira.spec.case import Case
from peira.spec.data_files import Problems
from peira.spec.study import Study

FEW_CONDITIONS, SPARSE = 20, 20
"""More than FEW_CONDITIONS conditions with outputs for less than 1 in SPARSE trials are not factors."""


@dataclass(frozen=True)
class OutputGroup:
    """The condition of a group of outputs, and the first of them."""

    agent: str
    condition: dict[str, Json]
    facts: dict[str, Json]
    first: RecordedOutput


@dataclass
class Survey:
    """What recorded outputs contain: their cases, conditions and repeats."""

    problems: Problems
    cases: dict[str, Case] = field(default_factory=dict)
    under: dict[bytes, OutputGroup] = field(default_factory=dict)
    outputs: int = 0
    repeats: int = 1
    _slices: dict[str, str | None] = field(default_factory=dict)
    _prefixed: bool = False
    _met: Counter[tuple[str, bytes]] = field(default_factory=Counter)

    def take(self, outputs: Iterable[RecordedOutput], *, cases: bool) -> None:
        """Count all outputs; with `cases`, each also defines its case."""
        for one in outputs:
            self.outputs += 1
            name = self._named(one) if cases else one.case or digest_bytes(canonical(one.input))
            key = canonical([one.agent, one.condition, one.facts])
            self.under.setdefault(key, OutputGroup(one.agent, one.condition, one.facts, one))
            if one.repeat is None:
                self._met[name, key] += 1
                self.repeats = max(self.repeats, self._met[name, key])
            else:
                self.repeats = max(self.repeats, one.repeat + 1)

    def _named(self, one: RecordedOutput) -> str:
        """Register the case of an output; returns a key that is unique across tasks."""
        input = one.case if one.input is ABSENT else one.input
        name = one.case if one.case is not None else digest_bytes(canonical(input))
        if one.case is not None and self._slices.setdefault(name, one.slice) != one.slice:
            self._prefixed = True
        key = f"{one.slice}/{name}" if one.slice else name
        case = Case(
            input,
            one.expected,
            id=one.case,
            cluster=one.cluster,
            slice=one.slice,
            metadata=one.metadata,
        )
        if self.cases.setdefault(key, case) != case:
            what = [
                f for f in ("input", "expected", "cluster", "metadata") if _differs(self.cases[key], case, f)
            ]
            self.problems.add(one.file, one.number, f"case {name!r} has another {what[0]} before")
        return key

    def case_name(self, one: RecordedOutput) -> str | None:
        """The id of an output's case in the study."""
        return f"{one.slice}/{one.case}" if self._prefixed and one.case is not None else one.case

    @property
    def task(self) -> str:
        """The task that all outputs belong to, as a log names it; "" if there is none, or several."""
        tasks = {one.facts.get("task", "") for one in self.under.values()}
        return str(tasks.pop()) if len(tasks) == 1 else ""

    def study(
        self, name: str, cases: Sequence[Case] | None, transform: Any, evaluators: Sequence[Any], data: Json
    ) -> Study:
        """The study with these outputs; Invalid, with all problems, if it is impossible."""
        self.problems.refuse()
        if not self.outputs:
            raise Invalid("there are no outputs")
        factors = self._factors()
        given = list(cases) if cases is not None else self._own_cases()
        self._check_sparse(factors, len(given))
        agents = list(dict.fromkeys(one.agent for one in self.under.values()))
        agent_fields: dict[str, Any] = (
            {"agent": recorded} if agents == [""] else {"agents": dict.fromkeys(agents, recorded)}
        )
        if "" in agents and len(agents) > 1:
            raise Invalid("some outputs say their agent, and others do not")
        return Study(
            name=name,
            cases=given,
            factors=factors,
            repeats=self.repeats,
            transform=transform,
            evaluators=list(evaluators),
            version=f"recorded outputs {name}",
            data=data,
            **agent_fields,
            **self._design(factors),
        )

    def _own_cases(self) -> list[Case]:
        """The cases of the outputs, with ids prefixed by their slice if ids are ambiguous."""
        if not self._prefixed:
            return list(self.cases.values())
        return [
            case
            if case.id is None
            else Case(
                case.input,
                case.expected,
                id=key,
                cluster=case.cluster,
                slice=case.slice,
                metadata=case.metadata,
            )
            for key, case in self.cases.items()
        ]

    def _factors(self) -> dict[str, list[Json]]:
        """The levels that occur, in that order. A fact that never varies is not a factor."""
        levels: dict[str, dict[bytes, Json]] = {}
        facts: dict[str, dict[bytes, Json]] = {}
        for one in self.under.values():
            for values, into in ((one.condition, levels), (one.facts, facts)):
                for name, value in values.items():
                    into.setdefault(name, {})[canonical(value)] = value
        levels |= {name: met for name, met in facts.items() if len(met) > 1 and name not in levels}
        for one in self.under.values():
            for name in levels.keys() - one.condition.keys() - one.facts.keys():
                self.problems.add(one.first.file, one.first.number, f"there is no value for {name!r}")
        self.problems.refuse()
        return {name: list(met.values()) for name, met in levels.items()}

    def _check_sparse(self, factors: dict[str, list[Json]], cases: int) -> None:
        """Raise Invalid if so few combinations have outputs that columns cannot be factors."""
        trials = len(self.under) * cases
        if len(self.under) > FEW_CONDITIONS and trials > SPARSE * self.outputs:
            widest = sorted(factors, key=lambda name: -len(factors[name]))[:3]
            raise Invalid(
                f"{counted(self.outputs, 'output')} of {counted(cases, 'case')} under {len(self.under):,} "
                f"conditions: are {', '.join(widest)} factors? Name those that are; the other columns then "
                "do not count"
            )

    def _design(self, factors: dict[str, list[Json]]) -> dict[str, Any]:
        """A full factorial if all combinations occur, otherwise a custom design of those that do."""
        rows = [
            {name: {**one.facts, **one.condition}[name] for name in factors} for one in self.under.values()
        ]
        distinct = list({canonical(row): row for row in rows}.values())
        if len(distinct) == math.prod(map(len, factors.values())):
            return {}
        return {"design": {"name": "custom", "rows": distinct}}


def _differs(one: Case, other: Case, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))
