"""What changed between two versions of a plan, part by part, in plain words.

`compare` tells everything. `making_new` tells only what can make a trial new.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from peira.core.ids import Json, canonical, short
from peira.plan.conditions import values_of
from peira.plan.manifest import EvaluatorPart
from peira.plan.version import Version

MOST_NAMED = 3


class Change(msgspec.Struct, frozen=True):
    """Something that differs; `part` is the part of the study it belongs to."""

    part: str
    said: str


def compare(before: Version, after: Version) -> tuple[Change, ...]:
    """Every difference between the two, in the order of a study's parts."""
    return tuple(Change(part, said) for part, look in PARTS.items() for said in look(before, after))


def making_new(before: Version, after: Version) -> Iterator[str]:
    """The differences that make trials of the later version new."""
    yield from _agents_new(before, after)
    yield from _seed(before, after)
    yield from _generation(before, after)
    yield from _cases_new(before, after)
    yield from _levels_new(before, after)
    yield from _factors_gone(before, after)
    yield from _declared(before, after, _ranges(before, after))
    yield from PARTS["design"](before, after)
    if after.layout.repeats > before.layout.repeats:
        yield from _repeats(before, after)


def _agents(before: Version, after: Version) -> Iterator[str]:
    yield from _agents_new(before, after)
    now = {part.label for part in after.manifest.agents}
    yield from (f"agent {p.label} removed" for p in before.manifest.agents if p.label not in now)


def _agents_new(before: Version, after: Version) -> Iterator[str]:
    known = {part.label: part for part in before.manifest.agents}
    for part in after.manifest.agents:
        was = known.get(part.label)
        if was is None:
            yield f"agent {part.label} is new"
        elif was.digest != part.digest:
            changed = sorted(_differing(dict(was.parts), dict(part.parts)))
            whose = "agent code" if len(after.manifest.agents) == 1 else f"code of agent {part.label}"
            yield f"{whose} changed" + (f" ({', '.join(changed[:MOST_NAMED])})" if changed else "")


def _differing(was: Mapping[str, object], now: Mapping[str, object]) -> set[str]:
    """The names under which the two hold different things, or only one holds any."""
    return {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}


def _cases(before: Version, after: Version) -> Iterator[str]:
    yield from _cases_new(before, after)
    was, now = before.cases, after.cases
    yield from _listed("case", "removed", [id for label, id in was if (label, id) not in now])
    same = [key for key in now if key in was and was[key].seen == now[key].seen]
    other = [id for label, id in same if was[label, id].expected != now[label, id].expected]
    yield from _listed("case", "expected otherwise", other)
    judged = [id for label, id in same if was[label, id].judged_by != now[label, id].judged_by]
    yield from _listed("case", "judged otherwise", judged)


def _cases_new(before: Version, after: Version) -> Iterator[str]:
    was, now = before.cases, after.cases
    changed = [id for (label, id), case in now.items() if _seen(was, label, id) not in (None, case.seen)]
    yield from _listed("case", "changed", changed)
    yield from _listed("case", "added", [id for label, id in now if (label, id) not in was])


def _seen(cases: Mapping[tuple[str, str], object], label: str, id: str) -> object:
    return getattr(cases.get((label, id)), "seen", None)


def _factors(before: Version, after: Version) -> Iterator[str]:
    """Levels are those that conditions have; the levels that a design takes from a range are its own."""
    yield from _levels_new(before, after)
    was, now = values_of(before.layout.conditions), values_of(after.layout.conditions)
    for factor in sorted((was.keys() & now.keys()) - _ranges(before, after)):
        gone = [value for key, value in was[factor].items() if key not in now[factor]]
        yield from _listed("level", "removed", list(map(repr, gone)), f" of {factor}")
    yield from _factors_gone(before, after)
    yield from _declared(before, after)


def _declared(before: Version, after: Version, only: set[str] | None = None) -> Iterator[str]:
    """What is said of a factor or block, but for its levels."""
    for kind in ("factors", "blocks"):
        old, new = before.declared(kind), after.declared(kind)
        for name in (name for name in new if name in old and (only is None or name in only)):
            rest = ({k: v for k, v in spec[name].items() if k != "levels"} for spec in (old, new))
            yield from _settings(f"{name}.", *rest)


def _ranges(before: Version, after: Version) -> set[str]:
    """Factors that have no levels of their own."""
    declared = (*before.declared("factors").items(), *after.declared("factors").items())
    return {name for name, spec in declared if not spec.get("levels")}


def _levels_new(before: Version, after: Version) -> Iterator[str]:
    was, now = values_of(before.layout.conditions), values_of(after.layout.conditions)
    for factor, values in now.items():
        if factor not in was:
            yield f"factor {factor} added"
        elif factor not in _ranges(before, after):
            added = [repr(value) for key, value in values.items() if key not in was[factor]]
            yield from _listed("level", "added", added, f" of {factor}")


def _factors_gone(before: Version, after: Version) -> Iterator[str]:
    now = values_of(after.layout.conditions)
    yield from (f"factor {name} removed" for name in values_of(before.layout.conditions) if name not in now)


def _transform(before: Version, after: Version) -> Iterator[str]:
    was, now = before.manifest.transform, after.manifest.transform
    names = [part.name if part else "none" for part in (was, now)]
    if names[0] != names[1]:
        yield f"transform changed from {names[0]} to {names[1]}"
    elif was and now and was.digest != now.digest:
        yield f"transform {now.name} changed"


def _evaluators(before: Version, after: Version) -> Iterator[str]:
    was, now = _judges(before), _judges(after)
    for name, part in now.items():
        if name not in was:
            yield f"evaluator {name} added"
        elif was[name].digest != part.digest:
            yield f"evaluator {name} changed"
    yield from (f"evaluator {name} removed" for name in was if name not in now)


def _judges(version: Version) -> dict[str, EvaluatorPart]:
    """The evaluators that judge every case; those of a case's own belong to the case."""
    known = {part.digest: part for part in version.manifest.evaluators}
    return {known[digest].name: known[digest] for digest in version.manifest.common}


def _seed(before: Version, after: Version) -> Iterator[str]:
    if before.layout.seed != after.layout.seed:
        yield f"seed changed from {before.layout.seed} to {after.layout.seed}"


def _generation(before: Version, after: Version) -> Iterator[str]:
    if before.layout.generation != after.layout.generation:
        yield f"generation {after.layout.generation} is fresh"


def _repeats(before: Version, after: Version) -> Iterator[str]:
    was, now = before.layout.repeats, after.layout.repeats
    if was != now:
        yield f"repeats {'raised' if now > was else 'lowered'} from {was} to {now}"


def _part(before: Version, after: Version) -> Iterator[str]:
    was, now = before.manifest, after.manifest
    facts = (
        {"where": m.where or None, "limit": m.limit, "earlier run": short(m.earlier) or None}
        for m in (was, now)
    )
    yield from _settings("", *facts)


def _said(key: str, default: Json = None) -> Callable[[Version, Version], Iterator[str]]:
    """A setting of the study as a whole."""

    def look(before: Version, after: Version) -> Iterator[str]:
        was, now = (version.manifest.snapshot.get(key, default) for version in (before, after))
        yield from _settings("", {key: was}, {key: now})

    return look


def _table(key: str) -> Callable[[Version, Version], Iterator[str]]:
    """A table of settings."""

    def look(before: Version, after: Version) -> Iterator[str]:
        yield from _settings(f"{key}.", *(v.manifest.snapshot.get(key, {}) for v in (before, after)))

    return look


def _policy(before: Version, after: Version) -> Iterator[str]:
    """That of the study, with what was said for one run only."""
    both = ({**m.snapshot.get("policy", {}), **m.policy} for m in (before.manifest, after.manifest))
    yield from _settings("policy.", *both)


def _named(key: str, what: str, name: str = "name") -> Callable[[Version, Version], Iterator[str]]:
    """A list of things that have names."""

    def look(before: Version, after: Version) -> Iterator[str]:
        was, now = ({one[name]: one for one in v.manifest.snapshot.get(key, [])} for v in (before, after))
        for one in now:
            if one not in was:
                yield f"{what} {one} added"
            elif changed := sorted(_differing(was[one], now[one])):
                yield f"{what} {one} changed ({', '.join(changed)})"
        yield from (f"{what} {one} removed" for one in was if one not in now)

    return look


def _constraints(before: Version, after: Version) -> Iterator[str]:
    was, now = ([_shown(c) for c in v.manifest.snapshot.get("constraints", [])] for v in (before, after))
    yield from (f"constraint added: {one}" for one in now if one not in was)
    yield from (f"constraint removed: {one}" for one in was if one not in now)


def _about(before: Version, after: Version) -> Iterator[str]:
    """What is only said about the study, and how its results are kept."""
    keys = ("name", "title", "description", "authors", "rationale", "tags", "notes", "data", "storage")
    was, now = ({k: v.manifest.snapshot.get(k) for k in keys} for v in (before, after))
    if changed := [key for key in keys if was[key] != now[key]]:
        yield f"{', '.join(changed)} changed (no trial depends on that)"


def _settings(prefix: str, was: Mapping[str, Json], now: Mapping[str, Json]) -> Iterator[str]:
    for name in sorted(_differing(was, now)):
        yield f"{prefix}{name} changed from {_shown(was.get(name))} to {_shown(now.get(name))}"


def _shown(value: Json) -> str:
    return "unset" if value is None else value if isinstance(value, str) else canonical(value).decode()


def _listed(what: str, how: str, names: Sequence[str], of: str = "") -> Iterator[str]:
    """1 case added (a); 4 cases added (a, b, c); nothing for none."""
    if names:
        count = f"{len(names)} {what}{'' if len(names) == 1 else 's'}"
        yield f"{count}{of} {how} ({', '.join(names[:MOST_NAMED])})"


PARTS: dict[str, Callable[[Version, Version], Iterator[str]]] = {
    "agents": _agents,
    "factors": _factors,
    "constraints": _constraints,
    "design": _said("design", "full_factorial"),
    "cases": _cases,
    "repeats": _repeats,
    "seed": _seed,
    "generation": _generation,
    "order": _said("order", "random"),
    "stop": _said("stop", None),
    "anchors": _said("anchors", 0),
    "part": _part,
    "transform": _transform,
    "evaluators": _evaluators,
    "budget": _table("budget"),
    "policy": _policy,
    "outcomes": _named("outcomes", "outcome"),
    "hypotheses": _named("hypotheses", "hypothesis", "id"),
    "analysis plans": _named("analysis_plans", "analysis plan"),
    "about": _about,
}
