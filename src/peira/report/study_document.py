"""The whole study as a document for people: every field, as it is resolved, defaults among them.

It is made of the manifest of a plan or of a run, so that both give the same document.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from peira.core.ids import Json, short
from peira.core.text import grid as layout
from peira.core.text.result_value import ResultValue, TextGrid
from peira.core.text.secrets import without_keys
from peira.core.text.words import counted
from peira.plan.conditions import declared
from peira.plan.manifest import Get, Manifest, case_set, conditions_of
from peira.plan.trials import PlannedCase
from peira.spec.factors import Factor
from peira.spec.limits import Budget, Policy, Storage
from peira.spec.project import Project
from peira.spec.values import Value, read_value

ABOUT = ("title", "description", "authors", "rationale", "tags", "notes", "version")
ELSEWHERE = frozenset(
    {*ABOUT, "name", "agent", "agents", "cases", "case_sets", "factors", "evaluators", "transform"}
    | {"policy", "budget", "storage", "outcomes", "hypotheses", "analysis_plans", "slices", "data"}
    | {"blocks", "constraints", "seed", "repeats", "order", "anchors", "design", "stop"}
)
"""Fields that have a part of their own; whatever else a study states is listed as it is written."""
SETTINGS = ("seed", "store", "parallel", "runner", "plugins")
MOST_LEVELS = 50


@dataclass(frozen=True)
class DocumentPart:
    """A part of the document: its heading and a table."""

    heading: str
    grid: TextGrid


@dataclass(frozen=True)
class StudyDocument(ResultValue):
    """A study, part by part; shown as text, Markdown, HTML, LaTeX or JSON."""

    study: str
    about: str
    parts: tuple[DocumentPart, ...]
    notes: tuple[str, ...] = ()

    @property
    def title(self) -> str:
        """The name of the study."""
        return f"The study {self.study}"

    @property
    def sentence(self) -> str:
        """Its size in a line."""
        return self.about

    def grids(self) -> list[TextGrid]:
        """The tables of all parts, each under its heading."""
        return [TextGrid((part.heading, *part.grid.header[1:]), part.grid.rows) for part in self.parts]

    def markdown(self) -> str:
        """The document in Markdown, with a heading for each part."""
        lines = [f"# {layout.prose(self.title)}", layout.prose(self.about)]
        for part in self.parts:
            lines += [f"## {layout.prose(part.heading)}", layout.markdown(*part.grid)]
        return without_keys("\n\n".join([*lines, *map(layout.prose, self.notes)]))

    def _repr_html_(self) -> str:
        """The document in HTML, with a heading for each part."""
        escape = layout.html_line
        parts = [
            f"<h2>{escape(part.heading)[3:-4]}</h2>{layout.html_table(*part.grid)}" for part in self.parts
        ]
        top = f"<h1>{escape(self.title)[3:-4]}</h1>{escape(self.about)}"
        return without_keys("".join([top, *parts, *map(escape, self.notes)]))


def study_document(
    manifest: Manifest, get: Get, project: Project | None = None, store: object = None
) -> StudyDocument:
    """The document of a plan; `get` reads its blobs, and `store` is that of `case_set`.

    With its project, the settings of that are included.
    """
    snapshot: dict[str, Any] = manifest.snapshot if isinstance(manifest.snapshot, dict) else {}
    cases = {label: case_set(digest, get, store) for label, digest in manifest.case_sets.items()}
    sizes = (
        (len(conditions_of(manifest, get)), "condition"),
        (sum(map(len, cases.values())), "case"),
        (manifest.repeats, "repeat"),
    )
    about = " x ".join(counted(n, what) for n, what in sizes)
    parts = [DocumentPart(heading, grid) for heading, grid in _parts(manifest, snapshot, cases) if grid.rows]
    if project is not None:
        parts += [DocumentPart(heading, grid) for heading, grid in _project(project) if grid.rows]
    return StudyDocument(manifest.study, about, tuple(parts), tuple(manifest.notes))


def _parts(
    manifest: Manifest, snapshot: Mapping[str, Any], cases: Mapping[str, Sequence[PlannedCase]]
) -> Iterator[tuple[str, TextGrid]]:
    """The parts in order, each a heading and a table; tables without rows are left out."""
    yield "About", _pairs({name: snapshot.get(name) for name in ABOUT})
    design = snapshot.get("design") or "full_factorial"
    plan = {"design": design, "order": manifest.order, "seed": manifest.seed, "repeats": manifest.repeats}
    plan |= {"generation": manifest.generation, "anchors": manifest.anchors or None}
    plan |= {"where": manifest.where, "limit": manifest.limit, "stop": snapshot.get("stop")}
    yield "Plan", _pairs(plan)
    header = ["agent", "code", "fingerprint", "not covered by it"]
    rows = [
        [one.label, one.reference or "-", short(one.digest), ", ".join(one.unseen)] for one in manifest.agents
    ]
    yield "Agents", TextGrid(header, [list(map(layout.cell, row)) for row in rows])
    yield "Factors", TextGrid(["factor", "kind", "level", "value", "metadata"], list(_factors(snapshot)))
    for kind in ("blocks", "constraints"):
        yield kind.capitalize(), _listed(snapshot.get(kind))
    yield "Cases", TextGrid(["cases", "how many", "first"], [_cases(*item) for item in cases.items()])
    yield "Data", _pairs(snapshot.get("data") or {})
    if manifest.transform is not None:
        yield "Transform", _pairs({"transform": snapshot.get("transform")})
    header = ["evaluator", "takes", "options, or its code"]
    rows = [[one.name, ", ".join(one.takes), _options(one.identity)] for one in manifest.evaluators]
    yield "Evaluators", TextGrid(header, [[layout.cell(cell, 0) for cell in row] for row in rows])
    yield "Slices", _pairs(snapshot.get("slices") or {})
    for name in ("outcomes", "hypotheses", "analysis_plans"):
        yield name.replace("_", " ").capitalize(), _listed(snapshot.get(name))
    for limit, values in (("budget", Budget), ("policy", Policy), ("storage", Storage)):
        yield limit.capitalize(), _pairs(_resolved(values, snapshot.get(limit) or {}))
    yield "Further fields", _pairs({key: value for key, value in snapshot.items() if key not in ELSEWHERE})
    yield "Sources", _pairs(dict(manifest.sources))


def _options(identity: Json) -> Json:
    """The options of an evaluator that has some, else the fingerprint of its function."""
    if not isinstance(identity, Mapping):
        return identity
    if "config" in identity:
        return identity["config"] or ""
    known = identity.get("fingerprint")
    return f"a function, fingerprint {short(known)}" if isinstance(known, str) else dict(identity)


def _resolved(kind: type[Value], raw: Mapping[str, Json]) -> dict[str, Json]:
    """All fields of a table, those with defaults too."""
    found: dict[str, Json] = read_value(kind, raw).model_dump(mode="json", exclude_none=True)
    return found


def _factors(snapshot: Mapping[str, Any]) -> Iterator[list[str]]:
    """A row for each level of each factor."""
    for name, spec in declared(snapshot, "factors"):
        factor: Factor = read_value(Factor, {"name": name, **spec})
        span = "" if factor.low is None else f"{factor.low} to {factor.high}"
        if span:
            yield [name, factor.kind, "", span, ""]
        for level in factor.levels[:MOST_LEVELS]:
            shown = f"{level.label or ''}{' (baseline)' if level.baseline else ''}".strip()
            about = layout.cell(level.metadata, 0) if level.metadata else ""
            yield [name, factor.kind, shown, layout.cell(level.value, 0), about]
        if len(factor.levels) > MOST_LEVELS:
            yield [name, factor.kind, "", f"and {len(factor.levels) - MOST_LEVELS:,} more", ""]


def _cases(label: str, cases: Sequence[PlannedCase]) -> list[str]:
    """A row for a set of cases."""
    return [label or "all", f"{len(cases):,}", layout.cell(cases[0].input) if cases else "-"]


def _pairs(table: Mapping[str, Any]) -> TextGrid:
    """A table of names and values, without what is not stated."""
    known = {name: value for name, value in table.items() if value not in (None, "", (), [], {})}
    return TextGrid(["field", "value"], [[name, layout.cell(value, 0)] for name, value in known.items()])


def _listed(entries: Any) -> TextGrid:
    """A table of what is listed, with a column for each of its fields."""
    if isinstance(entries, Mapping):
        entries = [
            {"name": name, **(spec if isinstance(spec, Mapping) else {"levels": spec})}
            for name, spec in entries.items()
        ]
    rows = [one if isinstance(one, Mapping) else {"expression": one} for one in entries or ()]
    names = list(dict.fromkeys(name for row in rows for name in row))
    return TextGrid(names, [[layout.cell(row[n], 0) if n in row else "" for n in names] for row in rows])


def _project(project: Project) -> Iterator[tuple[str, TextGrid]]:
    """The settings of the project, and the models that it names."""
    yield "Project", _pairs({name: getattr(project, name) for name in SETTINGS})
    models = {name: _without_headers(given) for name, given in project.models.items()}
    yield "Models", _pairs(models)


def _without_headers(model: Any) -> Any:
    """A model with the names of its headers, whose values may be secret."""
    if not isinstance(model, Mapping) or not isinstance(model.get("headers"), Mapping):
        return model
    return {**model, "headers": sorted(model["headers"])}
