"""Reading work plans: from a file, a table, or units in Python; every problem at once."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from peira.core.registry import nearest
from peira.errors import Invalid, RefusedPlan
from peira.spec.documents import read_document
from peira.spec.values import join
from peira.spec.work.plan import WorkPlan, WorkUnit
from peira.spec.work.problems import plan_problems

PlanLike = WorkPlan | str | Path | Mapping[str, Any] | Sequence[WorkUnit]
"""A plan, its file, its table, or its units."""


PLACES = ("folder", "source")
"""Fields of a plan that say where it comes from."""


def read_plan(given: PlanLike, **changes: Any) -> WorkPlan:
    """The plan of a file, a table or units, with these fields changed; Invalid holds every problem."""
    if isinstance(given, (str, Path)):
        path = Path(given)
        document = read_document(path)
        if not isinstance(document, dict):
            raise Invalid(f"{path}: it is no table")
        places = [f"{key}: is not a part of a work plan" for key in PLACES if key in document]
        if places:
            raise Invalid(places)
        raw = {"name": path.stem, **document, "folder": str(path.parent), "source": str(path)}
        return _assembled(raw, changes)
    if isinstance(given, WorkPlan):
        fields = {name: getattr(given, name) for name in given.model_fields_set if name != "units"}
        return _assembled({**fields, "units": given.units}, changes)
    return _assembled(dict(given) if isinstance(given, Mapping) else {"units": given}, changes)


def _assembled(raw: dict[str, Any], changes: Mapping[str, Any]) -> WorkPlan:
    """The plan of these fields; RefusedPlan with everything that is wrong."""
    problems: list[str] = []
    units = read_units(raw.get("units", ()), problems)
    known = [name for name in WorkPlan.model_fields if name not in PLACES]
    unknown = [key for key in raw if key not in WorkPlan.model_fields]
    problems += [f"{key}: is not a part of a work plan{nearest(str(key), known)}" for key in unknown]
    fields = {key: value for key, value in raw.items() if key not in unknown and key != "units"}
    if fields.get("base") is None and any(one.function is None for one in units):
        fields["base"] = "."
    fields |= {key: value for key, value in changes.items() if value is not None}
    plan: WorkPlan | None = None
    try:
        plan = WorkPlan(**{**fields, "units": tuple(units)})
    except Invalid as error:
        problems += error.problems
        plan = WorkPlan(base=".", units=tuple(units))
    problems += [problem for problem in plan_problems(plan) if problem not in problems]
    if problems:
        refused = RefusedPlan(dict.fromkeys(problems))
        refused.name = str(raw.get("name") or "work")
        raise refused
    return plan


def read_units(raw: Any, problems: list[str]) -> list[WorkUnit]:
    """The units of a table or a list; what is wrong is added to the problems."""
    if isinstance(raw, Mapping):
        named = [(str(name), table) for name, table in raw.items()]
    elif isinstance(raw, Sequence) and not isinstance(raw, str):
        named = [("", one) for one in raw]
    else:
        problems.append(f"units: must be tables [units.NAME], or a list of units, not {raw!r}")
        return []
    found = []
    for nth, (name, one) in enumerate(named):
        if isinstance(one, WorkUnit):
            found.append(one)
            continue
        if not isinstance(one, Mapping):
            problems.append(f"units.{name or nth}: must be a table, not {one!r}")
            continue
        table = {**({"name": name} if name else {}), **one}
        label = str(table.get("name", nth))
        found += _unit({"name": label, **{str(key): value for key, value in table.items()}}, problems)
    return found


def _unit(table: dict[str, Any], problems: list[str]) -> list[WorkUnit]:
    """The unit of a table. Of one with problems what can be read, so that the rest is looked at too."""
    label = table["name"]
    try:
        return [WorkUnit(**table)]
    except Invalid as error:
        problems += [join(f"units.{label}", f".{problem}") for problem in error.problems]
        wrong = {re.split(r"[.:\[]", problem, maxsplit=1)[0] for problem in error.problems}
    readable = {key: value for key, value in table.items() if key not in wrong}
    try:
        return [WorkUnit(**{"run": ("true",), **readable})]
    except Invalid:  # its name is wrong, and that was said
        return []
