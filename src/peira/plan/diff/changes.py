"""Changes between two versions of a plan, part by part, as text.

`compare` reports every change; `making_new` only those that can make trials new.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
from pydantic import BaseModel

from peira.core.ids import Json, canonical, digest_bytes, short
from peira.plan.conditions import values_of
from peira.plan.expansion import Plan
from peira.plan.manifest import EvaluatorPart, Get, Manifest, keep, layout_of, read
from peira.plan.trials import Layout, PlannedCase
from peira.spec.factors import Factor
from peira.spec.fields.declaration import fields_of
from peira.spec.study import Study
from peira.spec.values import Value


@dataclass(frozen=True)
class PlanVersion:
    """A version of a plan: a manifest, and the function that returns the blobs it refers to."""

    manifest: Manifest
    get: Get

    @cached_property
    def layout(self) -> Layout:
        """The trials of this version."""
        return layout_of(self.manifest, self.get)

    @cached_property
    def cases(self) -> Mapping[tuple[str, str], PlannedCase]:
        """The cases by the label of their set and their id."""
        sets = self.layout.case_sets.items()
        return {(label, case.id): case for label, cases in sets for case in cases}

    @cached_property
    def factors(self) -> tuple[Factor, ...]:
        """The factors as declared."""
        return tuple(Factor(name=name, **spec) for name, spec in self.declared("factors").items())

    def declared(self, kind: str) -> dict[str, dict[str, Json]]:
        """The declarations of `factors` or `blocks` in the snapshot, by name."""
        entries = self.manifest.snapshot.get(kind, {})
        return {name: spec if isinstance(spec, dict) else {"levels": spec} for name, spec in entries.items()}


def version_of(plan: Plan) -> PlanVersion:
    """The version of a live plan, as it would be stored now."""
    blobs: dict[str, bytes] = {}

    def put(data: bytes) -> str:
        digest = digest_bytes(data)
        blobs[digest] = data
        return digest

    return PlanVersion(read(keep(plan, put), blobs.__getitem__), blobs.__getitem__)


# Comparison


MOST_NAMED = 3
"""Maximum number of names listed in one change."""


class Change(msgspec.Struct, frozen=True):
    """One difference as text; `part` is the part of the study it belongs to."""

    part: str
    """The part of the study, such as "agents" or "cases"."""
    said: str
    """The change as text."""


def compare(before: PlanVersion, after: PlanVersion) -> tuple[Change, ...]:
    """Every difference between the two versions, in the order of a study's parts."""
    return tuple(
        Change(part, text) for part, comparison in PARTS.items() for text in comparison(before, after)
    )


def making_new(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
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


def _agents(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Changes of agents, removed ones included."""
    yield from _agents_new(before, after)
    now = {part.label for part in after.manifest.agents}
    yield from (f"agent {p.label} removed" for p in before.manifest.agents if p.label not in now)


def _agents_new(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """New agents, and agents whose code changed."""
    known = {part.label: part for part in before.manifest.agents}
    gone = sorted(known.keys() - {part.label for part in after.manifest.agents})
    for part in after.manifest.agents:
        was = known.get(part.label)
        if was is None and len(after.manifest.agents) == len(gone) == 1:
            yield f"agent {part.label} is new ({gone[0]} before; an agent with another name is another agent)"
        elif was is None:
            yield f"agent {part.label} is new"
        elif was.digest != part.digest:
            changed = sorted(_differing(dict(was.parts), dict(part.parts)))
            whose = "agent code" if len(after.manifest.agents) == 1 else f"code of agent {part.label}"
            yield f"{whose} changed" + (f" ({', '.join(changed[:MOST_NAMED])})" if changed else "")


def _differing(was: Mapping[str, object], now: Mapping[str, object]) -> set[str]:
    """The keys whose values differ, or that only one mapping has."""
    return {name for name in was.keys() | now.keys() if was.get(name) != now.get(name)}


def _cases(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Changes of cases, of their expected values and of their evaluators."""
    yield from _cases_new(before, after)
    was, now = before.cases, after.cases
    yield from _listed("case", "removed", [id for label, id in was if (label, id) not in now])
    same = [key for key in now if key in was and was[key].seen == now[key].seen]
    other = [id for label, id in same if was[label, id].expected != now[label, id].expected]
    yield from _listed("case", "expected otherwise", other)
    judged = [id for label, id in same if was[label, id].judged_by != now[label, id].judged_by]
    yield from _listed("case", "judged otherwise", judged)


def _cases_new(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Changed and added cases."""
    was, now = before.cases, after.cases
    changed = [id for (label, id), case in now.items() if _seen(was, label, id) not in (None, case.seen)]
    yield from _listed("case", "changed", changed)
    yield from _listed("case", "added", [id for label, id in now if (label, id) not in was])


def _seen(cases: Mapping[tuple[str, str], object], label: str, id: str) -> object:
    return getattr(cases.get((label, id)), "seen", None)


def _factors(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Changes of factors: levels used by conditions, except those a design takes from a range."""
    yield from _levels_new(before, after)
    was, now = values_of(before.layout.conditions), values_of(after.layout.conditions)
    for factor in sorted((was.keys() & now.keys()) - _ranges(before, after)):
        gone = [value for key, value in was[factor].items() if key not in now[factor]]
        yield from _listed("level", "removed", list(map(repr, gone)), f" of {factor}")
    yield from _factors_gone(before, after)
    yield from _declared(before, after)


def _declared(before: PlanVersion, after: PlanVersion, only: set[str] | None = None) -> Iterator[str]:
    """Changes in the declarations of factors and blocks, except their levels."""
    for kind in ("factors", "blocks"):
        old, new = before.declared(kind), after.declared(kind)
        for name in (name for name in new if name in old and (only is None or name in only)):
            rest = ({k: v for k, v in spec[name].items() if k != "levels"} for spec in (old, new))
            yield from _settings(f"{name}.", *rest)


def _ranges(before: PlanVersion, after: PlanVersion) -> set[str]:
    """Factors that are declared without levels."""
    declared = (*before.declared("factors").items(), *after.declared("factors").items())
    return {name for name, spec in declared if not spec.get("levels")}


def _levels_new(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Added factors and levels."""
    was, now = values_of(before.layout.conditions), values_of(after.layout.conditions)
    for factor, values in now.items():
        if factor not in was:
            yield f"factor {factor} added"
        elif factor not in _ranges(before, after):
            added = [repr(value) for key, value in values.items() if key not in was[factor]]
            yield from _listed("level", "added", added, f" of {factor}")


def _factors_gone(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Removed factors."""
    now = values_of(after.layout.conditions)
    yield from (f"factor {name} removed" for name in values_of(before.layout.conditions) if name not in now)


def _transform(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """A different or changed transform."""
    was, now = before.manifest.transform, after.manifest.transform
    names = [part.name if part else "none" for part in (was, now)]
    if names[0] != names[1]:
        yield f"transform changed from {names[0]} to {names[1]}"
    elif was and now and was.digest != now.digest:
        yield f"transform {now.name} changed"


def _evaluators(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Changes of the evaluators of all cases."""
    was, now = _judges(before), _judges(after)
    for name, part in now.items():
        if name not in was:
            yield f"evaluator {name} added"
        elif was[name].digest != part.digest:
            yield f"evaluator {name} changed"
    yield from (f"evaluator {name} removed" for name in was if name not in now)


def _judges(version: PlanVersion) -> dict[str, EvaluatorPart]:
    """The evaluators of all cases, by name; evaluators of a single case belong to the case."""
    known = {part.digest: part for part in version.manifest.evaluators}
    return {known[digest].name: known[digest] for digest in version.manifest.common}


def _seed(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """A different seed."""
    if before.layout.seed != after.layout.seed:
        yield f"seed changed from {before.layout.seed} to {after.layout.seed}"


def _generation(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """A different generation."""
    if before.layout.generation != after.layout.generation:
        yield f"generation {after.layout.generation} is fresh"


def _repeats(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """A different number of repeats."""
    was, now = before.layout.repeats, after.layout.repeats
    if was != now:
        yield f"repeats {'raised' if now > was else 'lowered'} from {was} to {now}"


def _part(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Changes of the selection: `where`, `limit` and the earlier run."""
    was, now = before.manifest, after.manifest
    facts = (
        {"where": m.where or None, "limit": m.limit, "earlier run": short(m.earlier) or None}
        for m in (was, now)
    )
    yield from _settings("", *facts)


def _setting(key: str, default: Json = None) -> Callable[[PlanVersion, PlanVersion], Iterator[str]]:
    """A comparison of one plain setting of the study."""

    def changes(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
        was, now = (version.manifest.snapshot.get(key, default) for version in (before, after))
        yield from _settings("", {key: was}, {key: now})

    return changes


def _table(key: str) -> Callable[[PlanVersion, PlanVersion], Iterator[str]]:
    """A comparison of a table of settings."""

    def changes(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
        yield from _settings(f"{key}.", *(v.manifest.snapshot.get(key, {}) for v in (before, after)))

    return changes


def _policy(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Changes of the policy of the study, with the overrides of one run applied."""
    both = ({**m.snapshot.get("policy", {}), **m.policy} for m in (before.manifest, after.manifest))
    yield from _settings("policy.", *both)


def _named(key: str, kind: type[Value]) -> Callable[[PlanVersion, PlanVersion], Iterator[str]]:
    """A comparison of a list of items that have a name or id."""
    what = re.sub(r"(?<!^)(?=[A-Z])", " ", kind.__name__).lower()
    name = "id" if "id" in kind.model_fields else "name"

    def changes(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
        was, now = ({one[name]: one for one in v.manifest.snapshot.get(key, [])} for v in (before, after))
        for one in now:
            if one not in was:
                yield f"{what} {one} added"
            elif changed := sorted(_differing(was[one], now[one])):
                yield f"{what} {one} changed ({', '.join(changed)})"
        yield from (f"{what} {one} removed" for one in was if one not in now)

    return changes


def _constraints(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
    """Added and removed constraints."""
    was, now = ([_shown(c) for c in v.manifest.snapshot.get("constraints", [])] for v in (before, after))
    yield from (f"constraint added: {one}" for one in now if one not in was)
    yield from (f"constraint removed: {one}" for one in was if one not in now)


def _about(keys: Sequence[str]) -> Callable[[PlanVersion, PlanVersion], Iterator[str]]:
    """A comparison of descriptive fields, on which no trial depends."""

    def changes(before: PlanVersion, after: PlanVersion) -> Iterator[str]:
        was, now = ({k: v.manifest.snapshot.get(k) for k in keys} for v in (before, after))
        if changed := [key for key in keys if was[key] != now[key]]:
            yield f"{', '.join(changed)} changed (no trial depends on that)"

    return changes


def _settings(prefix: str, was: Mapping[str, Json], now: Mapping[str, Json]) -> Iterator[str]:
    """Each setting that differs, with both values."""
    for name in sorted(_differing(was, now)):
        yield f"{prefix}{name} changed from {_shown(was.get(name))} to {_shown(now.get(name))}"


def _shown(value: Json) -> str:
    return "unset" if value is None else value if isinstance(value, str) else canonical(value).decode()


def _listed(what: str, how: str, names: Sequence[str], of: str = "") -> Iterator[str]:
    """A count with the first names: "4 cases added (a, b, c)"; nothing for an empty list."""
    if names:
        count = f"{len(names)} {what}{'' if len(names) == 1 else 's'}"
        yield f"{count}{of} {how} ({', '.join(names[:MOST_NAMED])})"


# The comparison of each part of a study


PartChanges = Callable[[PlanVersion, PlanVersion], Iterator[str]]
"""Compares one part of two versions and yields the changes as text."""
BEFORE: dict[str, PartChanges] = {
    "agents": _agents,
    "factors": _factors,
    "constraints": _constraints,
    "design": _setting("design", "full_factorial"),
    "cases": _cases,
    "repeats": _repeats,
    "seed": _seed,
    "generation": _generation,
}
AFTER: dict[str, PartChanges] = {"part": _part, "transform": _transform, "evaluators": _evaluators}
"""Parts with their own comparison: `BEFORE` come before the plain settings, `AFTER` after them."""
WITHIN = {"blocks": "factors", "case_sets": "cases", "labelled": "agents", "version": "agents"}
"""Fields whose changes are reported with another part."""


def parts_of(study: type[BaseModel]) -> dict[str, PartChanges]:
    """The comparison of each part of a study, derived from its fields except for `BEFORE` and `AFTER`."""
    handled = {*BEFORE, *AFTER, *WITHIN}
    acting = [field for field in fields_of(study) if field.name not in handled and not field.about]
    plain = {f.name: _setting(f.name, f.default) for f in acting if f.shape == "plain"}
    tables = {f.name: _policy if f.name == "policy" else _table(f.name) for f in acting if f.shape == "table"}
    lists = {_spaced(f.name): _named(f.name, f.kind) for f in acting if f.shape == "list" and f.kind}
    about = tuple(field.name for field in fields_of(study) if field.about)
    return {**BEFORE, **plain, **AFTER, **tables, **lists, "about": _about(about)}


def _spaced(name: str) -> str:
    return name.replace("_", " ")


PARTS = parts_of(Study)
