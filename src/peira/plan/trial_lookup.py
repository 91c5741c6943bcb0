"""Finds the trial that an imported output belongs to, by case, condition and repeat."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from functools import cached_property

from peira.core.ids import Json, canonical, digest, digest_bytes
from peira.core.registry import nearest
from peira.errors import Invalid
from peira.plan.conditions import Condition, shown_names
from peira.plan.trials import Layout, Place, PlannedCase

NOWHERE = -1
"""The number of a place that was found by its content rather than by its index."""


class TrialLookup:
    """Lookup of the trials of a layout; raises `Invalid` if there is none, or more than one."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._names = shown_names(layout.conditions)
        self._matches: dict[bytes, list[Condition]] = {}

    def conditions(
        self, agent: str, condition: Mapping[str, Json], facts: Mapping[str, Json], written: bool
    ) -> list[Condition]:
        """The conditions that match; more than one if the description is ambiguous.

        `facts` that are not factors of the study are ignored. With `written`, values are the text of levels.
        Raises `Invalid` for unknown factors and if no condition matches.
        """
        key = canonical([agent, dict(condition), dict(facts), written])
        if key not in self._matches:
            if unknown := [name for name in condition if name not in self._names]:
                raise Invalid(f"there is no factor {name!r}{nearest(name, self._names)}" for name in unknown)
            wanted = {**{name: v for name, v in facts.items() if name in self._names}, **condition}
            self._matches[key] = list(self._matching(agent, wanted, written))
        if not self._matches[key]:
            under = {**({"agent": agent} if agent else {}), **condition}
            raise Invalid(f"the study has no condition {_text(under)}")
        return self._matches[key]

    def _matching(self, agent: str, wanted: Mapping[str, Json], written: bool) -> Iterable[Condition]:
        """The conditions that have all the wanted levels; exact ones by digest."""
        if not written and set(wanted) | {"agent"} >= set(self._names):
            return [c for c in self._exact.get(digest(dict(wanted)), ()) if agent in ("", c.agent)]
        return [
            condition
            for conditions in self._exact.values()
            for condition in conditions
            if agent in ("", condition.agent)
            and all(_same(condition.shown.get(name), value, written) for name, value in wanted.items())
        ]

    @cached_property
    def _exact(self) -> dict[str, list[Condition]]:
        """The conditions by digest of their factors, one per agent and case set, whatever the block."""
        found: defaultdict[str, dict[str, Condition]] = defaultdict(dict)
        for condition in self._layout.conditions:
            found[condition.digest].setdefault(condition.agent_digest, condition)
        return {key: list(by_agent.values()) for key, by_agent in found.items()}

    @cached_property
    def _repeats(self) -> Mapping[tuple[str, str], int]:
        """The number of repeats of each condition, replicates included."""
        total: defaultdict[tuple[str, str], int] = defaultdict(int)
        for condition in self._layout.conditions:
            total[condition.agent_digest, condition.digest] += condition.replicates * self._layout.repeats
        return total

    def place(self, conditions: Iterable[Condition], id: str | None, input: Json, known: bool) -> Place:
        """The first repeat of the case, under the one condition that contains it.

        The case is identified by `id`, or by `input` if `known`. Raises `Invalid` if none or several match.
        """
        found = [(c, case) for c in conditions if (case := self._case(c.cases, id, input, known)) is not None]
        if not found:
            raise Invalid(
                f"the study has no case {id!r}" if id is not None else "the study has no such input"
            )
        if len(found) > 1:
            names = sorted({_text(condition.shown) for condition, _ in found})
            more = f" and {len(names) - 3} more" if len(names) > 3 else ""
            raise Invalid(f"it may belong to several conditions: {'; '.join(names[:3])}{more}")
        return Place(NOWHERE, *found[0], 0)

    def repeated(self, place: Place, repeat: int) -> Place:
        """The place of another repeat of the same trial; raises `Invalid` beyond the last one."""
        most = self._repeats[place.condition.agent_digest, place.condition.digest]
        if repeat >= most:
            raise Invalid(f"repeat {repeat}: the study has {most} of them, counted from 0")
        return place._replace(repeat=repeat)

    def _case(self, cases: str, id: str | None, input: Json, known: bool) -> PlannedCase | None:
        """The case with this id or input; raises `Invalid` if they disagree or are ambiguous."""
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
    """The cases by id and by digest of the input."""
    by_id: dict[str, PlannedCase] = {}
    by_input: defaultdict[str, list[PlannedCase]] = defaultdict(list)
    for case in cases:
        by_id[case.id] = case
        by_input[digest_bytes(canonical(case.input))].append(case)
    return by_id, by_input


def _same(level: Json, value: Json, written: bool) -> bool:
    """Whether a value equals a level, or with `written` is its text."""
    if canonical(level) == canonical(value):
        return True
    return written and isinstance(value, str) and canonical(level).decode() == value


def _text(facts: Mapping[str, Json]) -> str:
    return ", ".join(f"{name}={value}" for name, value in facts.items()) or "without factors"
