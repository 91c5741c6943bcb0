"""Which trial an output made elsewhere belongs to: by its case, what it was made under, and its repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from peira.core.ids import Json, canonical, digest, digest_bytes
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.plan.conditions import Condition, shown_names
from peira.plan.layout import Layout, Place, PlannedCase

NOWHERE = -1
"""The number of a place that was found by what it is, and not by where it stands."""


class Matching:
    """The trials of a layout, to be found by name. Invalid says why there is none, or more than one."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._names = shown_names(layout.conditions)
        self._met: dict[bytes, list[Condition]] = {}

    def conditions(
        self, agent: str, condition: Mapping[str, Json], facts: Mapping[str, Json], written: bool
    ) -> list[Condition]:
        """Those that are as is said: more than one, if not enough is said. `facts` that are no factors of the
        study do not count. What is `written` is a level's text."""
        key = canonical([agent, dict(condition), dict(facts), written])
        if key not in self._met:
            if unknown := [name for name in condition if name not in self._names]:
                raise Invalid(f"there is no factor {name!r}{nearest(name, self._names)}" for name in unknown)
            said = {**{name: v for name, v in facts.items() if name in self._names}, **condition}
            self._met[key] = list(self._meeting(agent, said, written))
        if not self._met[key]:
            under = {**({"agent": agent} if agent else {}), **condition}
            raise Invalid(f"the study has no condition {_told(under)}")
        return self._met[key]

    def _meeting(self, agent: str, said: Mapping[str, Json], written: bool) -> Iterable[Condition]:
        if not written and set(said) | {"agent"} >= set(self._names):
            return [c for c in self._exact.get(digest(dict(said)), ()) if agent in ("", c.agent)]
        return [
            condition
            for conditions in self._exact.values()
            for condition in conditions
            if agent in ("", condition.agent)
            and all(_same(condition.shown.get(name), value, written) for name, value in said.items())
        ]

    @cached_property
    def _exact(self) -> dict[str, list[Condition]]:
        """One condition of each agent and case set, by its factors; runs of it in other blocks are the
        same."""
        found: defaultdict[str, dict[str, Condition]] = defaultdict(dict)
        for condition in self._layout.conditions:
            found[condition.digest].setdefault(condition.agent_digest, condition)
        return {key: list(by_agent.values()) for key, by_agent in found.items()}

    @cached_property
    def _repeats(self) -> Mapping[tuple[str, str], int]:
        total: defaultdict[tuple[str, str], int] = defaultdict(int)
        for condition in self._layout.conditions:
            total[condition.agent_digest, condition.digest] += condition.replicates * self._layout.repeats
        return total

    def place(self, conditions: Iterable[Condition], id: str | None, input: Json, known: bool) -> Place:
        """The first repeat of the case under the one of these conditions that has it; `known` says that there
        is an `input` to know it by."""
        found = [(c, case) for c in conditions if (case := self._case(c.cases, id, input, known)) is not None]
        if not found:
            raise Invalid(
                f"the study has no case {id!r}" if id is not None else "the study has no such input"
            )
        if len(found) > 1:
            names = sorted({_told(condition.shown) for condition, _ in found})
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise Invalid(f"it may belong to several conditions: {'; '.join(names[:3])}{more}")
        return Place(NOWHERE, *found[0], 0)

    def repeated(self, place: Place, repeat: int) -> Place:
        """The same trial's further repeat."""
        most = self._repeats[place.condition.agent_digest, place.condition.digest]
        if repeat >= most:
            raise Invalid(f"repeat {repeat}: the study has {most} of them, counted from 0")
        return place._replace(repeat=repeat)

    def _case(self, cases: str, id: str | None, input: Json, known: bool) -> PlannedCase | None:
        by_id, by_input = self._cases[cases]
        case = by_id.get(id) if id is not None else None
        if not known:
            return case
        if case is not None:
            if canonical(case.input) != canonical(input):
                raise Invalid(f"its input is not that of case {id!r}")
            return case
        alike = by_input.get(digest_bytes(canonical(input)), [])
        if len(alike) > 1:
            raise Invalid(f"{len(alike)} cases have this input; say which by its id, in `case`")
        return alike[0] if alike else None

    @cached_property
    def _cases(self) -> dict[str, tuple[dict[str, PlannedCase], dict[str, list[PlannedCase]]]]:
        return {label: _indexed(cases) for label, cases in self._layout.case_sets.items()}


def _indexed(
    cases: Iterable[PlannedCase],
) -> tuple[dict[str, PlannedCase], dict[str, list[PlannedCase]]]:
    by_id: dict[str, PlannedCase] = {}
    by_input: defaultdict[str, list[PlannedCase]] = defaultdict(list)
    for case in cases:
        by_id[case.id] = case
        by_input[digest_bytes(canonical(case.input))].append(case)
    return by_id, by_input


def _same(level: Json, value: Json, written: bool) -> bool:
    if canonical(level) == canonical(value):
        return True
    return written and isinstance(value, str) and canonical(level).decode() == value


def _told(facts: Mapping[str, Json]) -> str:
    return ", ".join(f"{name}={value}" for name, value in facts.items()) or "without factors"
