"""A study made from recorded outputs, with their cases, factors and repeats."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

from peira.agents.recorded_outputs import recorded
from peira.core.ids import Json, canonical, digest_bytes
from peira.core.text.words import counted
from peira.data.outputs import RecordedOutput
from peira.data.outputs.record import ABSENT
from peira.errors import Invalid
from peira.evaluators import imported
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


class OutputPlace(NamedTuple):
    """What finds the trial of an output: the id of its case (None: by its input), and its facts."""

    case: str | None
    facts: Mapping[str, Json]


@dataclass
class Survey:
    """What recorded outputs contain: their cases, conditions and repeats."""

    problems: Problems
    cases: dict[str, Case] = field(default_factory=dict)
    under: dict[bytes, OutputGroup] = field(default_factory=dict)
    outputs: int = 0
    repeats: int = 1
    scores: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """The names of the scores that came with the outputs, by case."""
    offers: dict[str, str] = field(default_factory=dict)
    """Evaluators that score as the tool did, by the name of its score."""
    _slices: dict[str, str | None] = field(default_factory=dict)
    _prefixed: bool = False
    _same_names: dict[tuple[str, ...], tuple[str, ...]] = field(default_factory=dict)
    _met: Counter[tuple[str, bytes]] = field(default_factory=Counter)

    def take(self, outputs: Iterable[RecordedOutput], *, cases: bool) -> None:
        """Count all outputs; with `cases`, each also defines its case."""
        for one in outputs:
            self.outputs += 1
            name = self._named(one) if cases else one.case or digest_bytes(canonical(one.input))
            key = canonical([one.agent, one.condition, one.facts])
            self.under.setdefault(key, OutputGroup(one.agent, one.condition, one.facts, one))
            if one.output is not ABSENT:
                names = tuple(dict.fromkeys((*self.scores.get(name, ()), *one.scores)))
                self.scores[name] = self._same_names.setdefault(names, names)
            self.offers |= one.offers
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

    def place(self, one: RecordedOutput) -> OutputPlace:
        """The id of an output's case in the study, and all its facts; one that it does not say is None."""
        case = f"{one.slice}/{one.case}" if self._prefixed and one.case is not None else one.case
        return OutputPlace(case, {**dict.fromkeys(self._fact_names), **one.facts})

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
        common, own = self._imported_evaluators(cases is None)
        given = list(cases) if cases is not None else self._own_cases(own)
        rows = self._rows(factors)
        self._check_sparse(factors, len(rows), len(given))
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
            evaluators=[*evaluators, *common],
            version=f"recorded outputs {name}",
            data=data,
            **agent_fields,
            **_design(factors, rows),
        )

    def _imported_evaluators(self, own_cases: bool) -> tuple[list[Any], dict[str, tuple[Any, ...]]]:
        """The evaluators of imported scores: those of all cases, and those that only some cases have."""
        every = {name: imported(name) for names in self._same_names for name in names}
        several = set(map(frozenset, self.scores.values()))
        if len(several) <= 1 or not own_cases:
            return list(every.values()), {}
        common = frozenset.intersection(*several)
        own = {
            case: tuple(every[name] for name in names if name not in common)
            for case, names in self.scores.items()
        }
        return [evaluator for name, evaluator in every.items() if name in common], own

    def _own_cases(self, own: Mapping[str, tuple[Any, ...]]) -> list[Case]:
        """The cases of the outputs, with ids prefixed by their slice if ids are ambiguous."""
        if not (self._prefixed or own):
            return list(self.cases.values())
        return [
            Case(
                case.input,
                case.expected,
                id=key if self._prefixed and case.id is not None else case.id,
                cluster=case.cluster,
                slice=case.slice,
                metadata=case.metadata,
                evaluators=own.get(key, ()),
            )
            for key, case in self.cases.items()
        ]

    @cached_property
    def _fact_names(self) -> tuple[str, ...]:
        """The facts that are factors: those that vary.

        A task is not one, because its cases are a part of the set. Its arguments are if they vary within one
        task; the model is if it varies at all.
        """
        varied: dict[str, dict[str | None, set[bytes]]] = {}
        for one in self.under.values():
            for name, value in one.facts.items():
                part = None if name == "model" else one.first.slice
                varied.setdefault(name, {}).setdefault(part, set()).add(canonical(value))
        groups = Counter(one.first.slice for one in self.under.values())
        said = Counter((name, one.first.slice) for one in self.under.values() for name in one.facts)
        return tuple(
            name
            for name, parts in varied.items()
            if name != "task"
            and (
                any(len(values) > 1 for values in parts.values())
                or any(0 < said[name, part] < groups[part] for part in groups)
            )
        )

    def _factors(self) -> dict[str, list[Json]]:
        """The levels that occur, in that order. A fact that never varies is not a factor."""
        levels: dict[str, dict[bytes, Json]] = {}
        for one in self.under.values():
            facts = {name: one.facts.get(name) for name in self._fact_names if name not in one.condition}
            for name, value in (*one.condition.items(), *facts.items()):
                levels.setdefault(name, {})[canonical(value)] = value
        for one in self.under.values():
            for name in levels.keys() - one.condition.keys() - set(self._fact_names):
                self.problems.add(one.first.file, one.first.number, f"there is no value for {name!r}")
        self.problems.refuse()
        return {name: list(met.values()) for name, met in levels.items()}

    def _check_sparse(self, factors: dict[str, list[Json]], conditions: int, cases: int) -> None:
        """Raise Invalid if so few combinations have outputs that columns cannot be factors."""
        if conditions > FEW_CONDITIONS and conditions * cases > SPARSE * self.outputs:
            widest = sorted(factors, key=lambda name: -len(factors[name]))[:3]
            raise Invalid(
                f"{counted(self.outputs, 'output')} of {counted(cases, 'case')} under {conditions:,} "
                f"conditions: are {', '.join(widest)} factors? Name those that are; the other columns then "
                "do not count"
            )

    def _rows(self, factors: dict[str, list[Json]]) -> list[dict[str, Json]]:
        """The combinations of levels that occur."""
        rows = (
            {name: {**one.facts, **one.condition}.get(name) for name in factors}
            for one in self.under.values()
        )
        return list({canonical(row): row for row in rows}.values())


def _design(factors: dict[str, list[Json]], rows: list[dict[str, Json]]) -> dict[str, Any]:
    """A full factorial if all combinations occur, otherwise a custom design of those that do."""
    if len(rows) == math.prod(map(len, factors.values())):
        return {}
    return {"design": {"name": "custom", "rows": rows}}


def _differs(one: Case, other: Case, name: str) -> bool:
    return bool(getattr(one, name) != getattr(other, name))
