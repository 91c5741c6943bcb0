"""Everything that is wrong with a work plan: names, needs, cycles, areas that overlap, paths that lead out.

Two units may write the same place only if one needs the other, directly or through others: then the later one
sees what the earlier one wrote. What a unit may propose counts as written by it and by what it proposes.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import PurePosixPath

from peira.core.registry import nearest
from peira.spec.values import MAX_PARALLEL
from peira.spec.work.plan import ALL, WorkPlan, WorkUnit, base_name

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")
MOST_NAME = 100
MOST_SHOWN = 12
"""The units of a cycle that a message names."""


def plan_problems(plan: WorkPlan) -> list[str]:
    """Every problem of a plan, one line each."""
    found = []
    if not 1 <= plan.parallel <= MAX_PARALLEL:
        found.append(f"parallel: must be between 1 and {MAX_PARALLEL:,}, not {plan.parallel}")
    if not plan.units:
        found.append("units: there are none; write [units.NAME]")
    if plan.base is None and (files := [one.name for one in plan.units if _needs_files(one)]):
        found.append(f"base: is missing; {_listed(files)} {'works' if len(files) == 1 else 'work'} on files")
    if plan.base is not None and (plan.base == "" or plan.base.startswith("git:-") or plan.base == "git:"):
        found.append(f"base: {plan.base!r} is neither a folder nor git:REF")
    names = [one.name for one in plan.units]
    found += [f"units.{name}: is given {n} times" for name, n in Counter(names).items() if n > 1]
    for one in plan.units:
        found += [f"units.{one.name}.{problem}" for problem in unit_problems(one)]
    found += unit_set_problems(plan.units)
    return found


def _needs_files(one: WorkUnit) -> bool:
    return one.function is None and bool(one.may_write or one.evidence)


def unit_problems(one: WorkUnit) -> Iterator[str]:
    """What is wrong with a unit by itself; each line begins with the field."""
    if not NAME.fullmatch(one.name) or len(one.name) > MOST_NAME:
        yield f"name: must be up to {MOST_NAME} letters, digits, . - and _, not {one.name!r}"
    for field in ("may_write", "grows_into", "evidence"):
        for path in getattr(one, field):
            if problem := path_problem(path, pattern=field == "evidence"):
                yield f"{field}: {path!r} {problem}"
    if one.grows_into and not one.grows:
        yield "grows_into: it may propose no units; say how many with grows"
    for name in one.env:
        if not name or "=" in name or "\0" in name:
            yield f"env: {name!r} is not the name of a variable"
    for path in one.mounts:
        if not path.startswith("/"):
            yield f"mounts: {path!r} is not an absolute path"
    if one.function is not None:
        fields = ("may_write", "evidence", "check", "env", "models", "tools", "mounts", "grows")
        yield from (f"{field}: a function has none" for field in fields if getattr(one, field))
    elif "\0" in "".join((*one.run, *one.check, one.task, *one.env.values())):
        yield "run: contains a null character"


def path_problem(path: str, pattern: bool = False) -> str:
    """Why a path names nothing below the base; "" if it does."""
    parts = PurePosixPath(path).parts
    if not path or path.startswith("/") or ".." in parts or "\0" in path:
        return "leads out of the base"
    if any(part.lower() == ".git" for part in parts):
        return "is in a git folder, which no unit may change"
    if not pattern and any(mark in path for mark in "*?["):
        return "is a pattern; name folders and files"
    return ""


def normal(path: str) -> tuple[str, ...]:
    """The parts of a path below the base; none for the base itself."""
    return tuple(part for part in PurePosixPath(path).parts if part != ".")


def unit_set_problems(units: Sequence[WorkUnit], outside: Mapping[str, WorkUnit] | None = None) -> list[str]:
    """What is wrong between units: needs that are not there, cycles, areas that overlap.

    `outside` are units that may be needed too, and are ordered before these.
    """
    known = {**(outside or {}), **{one.name: one for one in units}}
    found = []
    for one in units:
        for need, n in Counter(one.needs).items():
            where = f"units.{one.name}.needs"
            if base_name(need) == one.name:
                found.append(f"{where}: it needs itself")
            elif base_name(need) not in known:
                found.append(f"{where}: there is no unit {base_name(need)!r}{nearest(need, known)}")
            elif need.endswith(ALL) and not known[base_name(need)].grows:
                found.append(f"{where}: {base_name(need)!r} proposes no units; write {base_name(need)!r}")
            if n > 1:
                found.append(f"{where}: {need!r} is given {n} times")
    names = {one.name for one in units}
    needs = {one.name: _within(one, names) for one in units}
    order = topological(needs)
    if len(order) < len(needs):
        found.append(f"units: these need each other: {' -> '.join(_cycle(needs, set(needs) - set(order)))}")
    return [*found, *_overlaps(units, needs)]


def _within(one: WorkUnit, names: set[str]) -> list[str]:
    """Those of its needs that are among these units."""
    return [name for need in one.needs if (name := base_name(need)) in names and name != one.name]


def topological(needs: Mapping[str, Iterable[str]]) -> list[str]:
    """The names, each after all that it needs and otherwise in the given order; without those in cycles."""
    missing = {name: len(set(wanted)) for name, wanted in needs.items()}
    wanted_by: dict[str, list[str]] = {}
    for name, wanted in needs.items():
        for need in set(wanted):
            wanted_by.setdefault(need, []).append(name)
    ready = [name for name, n in missing.items() if not n]
    for name in ready:  # grows meanwhile
        for other in wanted_by.get(name, ()):
            missing[other] -= 1
            if not missing[other]:
                ready.append(other)
    return ready


def _cycle(needs: Mapping[str, Sequence[str]], stuck: set[str]) -> list[str]:
    """One of the cycles among these names, its first name again at the end."""
    path = [min(stuck)]
    while (following := min(need for need in needs[path[-1]] if need in stuck)) not in path:
        path.append(following)
    cycle = [*path[path.index(following) :], following]
    if len(cycle) > MOST_SHOWN:
        cycle = [*cycle[: MOST_SHOWN - 2], "...", cycle[-1]]
    return cycle


class Dependencies(dict[str, set[str]]):
    """What each name needs, directly or through others; found when it is asked for."""

    def __init__(self, needs: Mapping[str, Iterable[str]]) -> None:
        super().__init__()
        self._needs = needs

    def __missing__(self, name: str) -> set[str]:
        found, left = set[str](), list(self._needs[name])
        while left:
            if (need := left.pop()) not in found:
                found.add(need)
                left += self._needs[need]
        self[name] = found
        return found


class AreaIndex:
    """Which units write where: finds all pairs of which one writes inside the other's area."""

    def __init__(self) -> None:
        self._owners: dict[tuple[str, ...], list[str]] = {}

    def add(self, name: str, areas: Iterable[str]) -> None:
        """Note the areas of a unit."""
        for area in set(map(normal, areas)):
            self._owners.setdefault(area, []).append(name)

    def pairs(self) -> Iterator[tuple[str, str, str]]:
        """(unit, other unit, the place that both may write), each pair once."""
        seen = set()
        for area, owners in self._owners.items():
            above = [o for n in range(len(area)) for o in self._owners.get(area[:n], ())]
            others = [(a, b) for i, a in enumerate(owners) for b in owners[i + 1 :]]
            for one, other in [*others, *((o, p) for o in owners for p in above)]:
                pair = (min(one, other), max(one, other))
                if one != other and pair not in seen:
                    seen.add(pair)
                    yield (*pair, "/".join(area) or ".")


def _overlaps(units: Sequence[WorkUnit], needs: Mapping[str, list[str]]) -> Iterator[str]:
    """Units that may write the same place though neither needs the other."""
    index, by_name = AreaIndex(), {unit.name: unit for unit in units}
    for unit in units:
        index.add(unit.name, (*unit.may_write, *unit.grows_into))
    before = Dependencies(needs)
    for one, other, area in index.pairs():
        if one not in before[other] and other not in before[one]:
            yield (
                f"units: {one} and {other} may both write {area}, and neither needs the other; "
                f"add needs, or give them different folders"
            )
            continue
        first, then = (one, other) if one in before[other] else (other, one)
        if by_name[first].grows_into and _meet(by_name[first].grows_into, by_name[then].may_write):
            waits = any(need == first + ALL for name in (then, *before[then]) for need in by_name[name].needs)
            if not waits:
                yield (
                    f"units: {then} may write {area}, and so may what {first} proposes; "
                    f'let it need "{first}{ALL}"'
                )


def _meet(some: Iterable[str], others: Iterable[str]) -> bool:
    """Whether any of these areas lies in one of the others, or the other way round."""
    pairs = [(normal(a), normal(b)) for a in some for b in others]
    return any(a[: len(b)] == b or b[: len(a)] == a for a, b in pairs)


def is_inside(path: str, areas: Iterable[str]) -> bool:
    """Whether a path lies in one of these areas, or is one."""
    parts = normal(path)
    return any(parts[: len(area)] == area for area in map(normal, areas))


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")


def proposal_problems(proposer: WorkUnit, units: Sequence[WorkUnit], depth: int) -> list[str]:
    """What is wrong with the units that a unit proposes, which may propose more down to `depth`."""
    found = []
    total = len(units) + sum(one.grows for one in units)
    if total > proposer.grows:
        found.append(f"{total:,} units, more than the {proposer.grows:,} that it may propose (grows)")
    names = Counter(one.name for one in units)
    found += [f"units.{name}: is given {n} times" for name, n in names.items() if n > 1]
    for one in units:
        found += [f"units.{one.name}.{problem}" for problem in unit_problems(one)]
        if one.grows and depth < 1:
            found.append(f"units.{one.name}.grows: the plan is as deep as it may be (depth)")
        for path in (*one.may_write, *one.grows_into):
            if not is_inside(path, proposer.grows_into):
                found.append(f"units.{one.name}.may_write: {path!r} is not in grows_into of {proposer.name}")
        if not one.confine and proposer.confine:
            found.append(f"units.{one.name}.confine: must be confined as {proposer.name} is")
        wider = [name for name, value in one.env.items() if value.startswith("$")]
        found += [f"units.{one.name}.env: may not take {name} of this process" for name in wider]
        for path in one.mounts:
            if path not in proposer.mounts:
                found.append(f"units.{one.name}.mounts: {path!r} is not one of {proposer.name}")
        for model in one.models.values():
            if model not in proposer.models.values():
                found.append(f"units.{one.name}.models: {model!r} is not one of {proposer.name}")
    return found + unit_set_problems(units)
