"""The codebook of a run: what was varied, what was measured, and what each condition is, in Markdown."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from peira.analysis.export_formats import Makes
from peira.analysis.results import Results
from peira.core.ids import Json, short
from peira.core.registry import Registry
from peira.core.text.grid import cell, markdown, prose
from peira.errors import Invalid
from peira.report.exports.artifact_rows import ArtifactNames
from peira.report.exports.artifact_study import declared_blocks, declared_factors
from peira.report.exports.csv_files import begins
from peira.results.aims import Aims
from peira.results.background import StoredRun
from peira.results.trials import named
from peira.spec.factors import Block, Factor, Level

START = "# Codebook: "
MOST_LEVELS = 12
"""Levels that are listed; of longer lists the number is given."""


class Codebook:
    """Factors, blocks, outcomes, scores, metrics and conditions, each with what it means."""

    makes: Makes = "file"
    suffixes: tuple[str, ...] = (".codebook.md",)

    def write(self, results: Results, path: Path) -> None:
        """Write the codebook; raises Invalid without a stored run, whose study says what things mean."""
        if results.origin is None:
            raise Invalid("a codebook says what a study declared: it needs the results of a stored run")
        with results.origin() as origin:
            path.write_text("\n".join(_lines(results, origin)) + "\n", encoding="utf-8")

    def owns(self, path: Path) -> bool:
        """Whether the file begins as a codebook."""
        return begins(path, START)


def _lines(results: Results, origin: StoredRun) -> Iterator[str]:
    """The lines of a codebook."""
    kept = origin.manifest.snapshot
    snapshot: dict[str, Json] = kept if isinstance(kept, dict) else {}
    names, measured = ArtifactNames(results, origin), _Measured()
    for trial in results.stream():
        names.condition(trial.agent, trial.condition)
        for score in trial.scores.values():
            for part, value in named(score).items():
                measured.saw(measured.scores, part, value)
        for name, value in trial.metrics.items():
            measured.saw(measured.metrics, name, value)
    yield f"{START}{prose(cell(results.study))}"
    yield from ("", f"Run {short(results.run_id)}, {len(names.conditions)} conditions.")
    if about := snapshot.get("description") or snapshot.get("title"):
        yield from ("", prose(cell(about, 0)))
    yield from _factors(snapshot)
    yield from _outcomes(results.aims or Aims())
    yield from _values("Scores", measured.scores)
    yield from _values("Metrics", measured.metrics)
    yield from _conditions(names)


class _Measured:
    """The kinds of values that scores and metrics have, and the ends of their numbers."""

    def __init__(self) -> None:
        self.scores: dict[str, dict[str, Json]] = {}
        self.metrics: dict[str, dict[str, Json]] = {}

    def saw(self, of: dict[str, dict[str, Json]], name: str, value: Json) -> None:
        """Note one value."""
        found = of.setdefault(name, {"kinds": {}, "n": 0})
        found["n"] += 1
        found["kinds"][_kind(value)] = None
        if isinstance(value, (int, float)):
            found["low"] = min(found.get("low", value), value)
            found["high"] = max(found.get("high", value), value)


def _kind(value: Json) -> str:
    """What kind of value it is, in a word."""
    if isinstance(value, bool):
        return "yes or no"
    return "number" if isinstance(value, (int, float)) else "text"


def _factors(snapshot: Mapping[str, Json]) -> Iterator[str]:
    """The tables of factors and blocks."""
    factors = [one for one in declared_factors(snapshot) if one.kind != "blocked"]
    if factors:
        header = ["factor", "kind", "levels", "baseline", "description"]
        yield from ("", "## Factors", "")
        yield markdown(header, [_factor(one) for one in factors])
    if blocks := declared_blocks(snapshot):
        yield from ("", "## Blocks", "")
        yield markdown(
            ["block", "levels", "description"],
            [[one.name, _levels(one), one.description or "-"] for one in blocks],
        )


def _factor(one: Factor) -> list[str]:
    """The row of a factor."""
    scale = one.scale or ("continuous" if not one.levels else "categorical")
    baseline = "-" if one.baseline is None else cell(one.baseline)
    return [one.name, f"{one.kind}, {scale}", _levels(one), baseline, one.description or "-"]


def _levels(one: Factor | Block) -> str:
    """The levels with their labels, or the range."""
    if isinstance(one, Factor) and not one.levels:
        return f"{one.low:g} to {one.high:g}" if one.low is not None and one.high is not None else "-"
    shown = [_level(level) for level in one.levels[:MOST_LEVELS]]
    more = len(one.levels) - len(shown)
    return "; ".join([*shown, *([f"and {more} more"] if more else [])])


def _level(level: Level) -> str:
    """A level: its value, or its label with the value."""
    value = cell(level.value) or '""'
    return value if level.label is None else f"{level.label} = {value}"


def _outcomes(aims: Aims) -> Iterator[str]:
    """The table of outcomes, and the list of hypotheses."""
    if aims.outcomes:
        yield from ("", "## Outcomes", "")
        yield markdown(
            ["outcome", "measured by", "better", "unit", "description"],
            [
                [
                    f"{one.name} (primary)" if one.primary else one.name,
                    aims.measure_of(one.name) or one.name,
                    "more" if one.direction == "maximize" else "less",
                    one.unit or "-",
                    one.description or "-",
                ]
                for one in aims.outcomes
            ],
        )
    if aims.hypotheses:
        yield from ("", "## Hypotheses", "")
        for one in aims.hypotheses:
            claim = one.statement or f"{one.factor}: {one.direction}"
            yield f"- {prose(cell(one.id))}: {prose(cell(claim, 0))}"


def _values(title: str, found: Mapping[str, Mapping[str, Json]]) -> Iterator[str]:
    """The table of scores or metrics: kind of value, range, how many."""
    if not found:
        return
    yield from ("", f"## {title}", "")
    rows = []
    for name, about in sorted(found.items()):
        ends = f"{about['low']:g} to {about['high']:g}" if "low" in about else "-"
        rows.append([name, " or ".join(about["kinds"]), ends, str(about["n"])])
    yield markdown([title.lower()[:-1], "values", "observed", "n"], rows)


def _conditions(names: ArtifactNames) -> Iterator[str]:
    """The table of conditions, by the ids that the artifact folder has."""
    columns = list(dict.fromkeys(name for one in names.conditions.values() for name in one["shown"]))
    yield from ("", "## Conditions", "")
    rows = []
    for id, one in sorted(names.conditions.items(), key=lambda item: item[1]["reasons"] is not None):
        values = [cell(one["shown"].get(name)) for name in columns]
        rows.append([id, str(one["factors"]["agent"]), *values, "; ".join(one["reasons"] or ())])
    header = ["condition", "agent", *columns, "refused because"]
    if not any(row[-1] for row in rows):
        header, rows = header[:-1], [row[:-1] for row in rows]
    yield markdown(header, rows)


def register(registry: Registry) -> None:
    """Register the format."""
    registry.add("export", "codebook", Codebook)
