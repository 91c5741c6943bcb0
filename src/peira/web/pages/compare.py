"""Compare two levels of a factor, or two runs, case by case."""

from __future__ import annotations

from typing import Any

import msgspec

from peira.analysis.compare.comparison import ComparisonTable
from peira.core.contracts import RunQuery
from peira.errors import Invalid, Unknown
from peira.results.aims import Aims
from peira.web.comparison_rows import ComparedSides, CompareQuery, PairList, level_sides, run_sides
from peira.web.pages.page import Page, PageRequest
from peira.web.queries import OVERALL
from peira.web.reader import PlannedRun, SiteReader
from peira.web.rendering import axis_of
from peira.web.rest.routes import read_query
from peira.web.site import Site

CHOICES = 100
"""The newest runs that can be chosen from."""


def sides_of(reader: SiteReader, query: CompareQuery) -> ComparedSides:
    """Both sides of a comparison."""
    one = reader.planned(query.run)
    if not query.other:
        return level_sides(one, reader.rows(one.run.id), query)
    two = reader.planned(query.other)
    return run_sides(one, two, (reader.rows(one.run.id), reader.rows(two.run.id)))


def with_score(one: PlannedRun, query: CompareQuery) -> CompareQuery:
    """The query with its score: if none is named, the primary outcome, or else the first score."""
    names = [part.name for part in one.manifest.evaluators]
    if query.score or len(names) < 2:
        return query
    declared = Aims.of(one.manifest.snapshot).measure_of("")
    return msgspec.structs.replace(query, score=declared or names[0])


async def pairs(site: Site, query: CompareQuery) -> PairList:
    """The next pairs that match."""
    if not query.run:
        raise Invalid("run: say which run is compared")

    def find() -> PairList:
        chosen = with_score(site.reader.planned(query.run), query)
        return sides_of(site.reader, chosen).page(chosen)

    return await site.reader.short(find)


async def comparison(site: Site, query: CompareQuery) -> ComparisonTable:
    """The paired difference of both sides with its interval, as `results.compare` has it."""
    reader = site.reader
    planned = await reader.short(reader.planned, query.run)
    table = (await reader.table(planned.run, (), **OVERALL)).table
    score = _measure(with_score(planned, query).score, [row.score for row in table.body if row.score])

    def compute() -> ComparisonTable:
        sides = sides_of(reader, query)
        one = reader.results(sides.runs[0])
        options: dict[str, Any] = {"score": score} if score else {}
        if query.other:
            return one.compare(reader.results(sides.runs[1]), **options)
        by = sides.labels[0].partition("=")[0]
        return one.compare(by, *map(_level, sides.labels), **options)

    return await reader.long(compute)


def _measure(score: str, known: list[str]) -> str:
    """The number that is compared: of a score with several parts, or if none is named, the first one."""
    if score in known or not known:
        return score
    return next((name for name in known if not score or name.startswith(f"{score}.")), score)


def _level(label: str) -> Any:
    """The level of a label, as results have it: a number where it is one."""
    text = label.partition("=")[2]
    try:
        return msgspec.json.decode(text, type=float | bool | None)
    except msgspec.DecodeError:
        return text


async def compare(asked: PageRequest) -> Page:
    """Choose what to compare, and see it case by case."""
    query = read_query(asked.request, CompareQuery)
    reader = asked.site.reader
    about = (
        "The same cases on two sides: which is right where the other is wrong, and is that more than luck?"
    )
    runs = await reader.short(lambda: reader.store.runs(RunQuery(limit=CHOICES))) if reader.open() else []
    more: dict[str, Any] = {
        "runs": runs,
        "query": msgspec.structs.asdict(query),
        "factors": {},
        "names": (),
        "problem": "",
    }
    if not query.run:
        return Page("compare.html.j2", "Compare", about, None, more, tab="compare")
    query = with_score(await reader.short(reader.planned, query.run), query)
    sides = await reader.short(sides_of, reader, query)
    found = await reader.short(sides.page, query)
    first, second = ((label.partition("=")[2] if not query.other else "") for label in sides.labels)
    by = "" if query.other else sides.labels[0].partition("=")[0]
    more |= {
        "query": msgspec.structs.asdict(query) | {"by": by, "a": first, "b": second},
        "factors": sides.one.factors(),
        "names": sides.one.names,
        "ids": sides.runs,
    }
    if asked.form == "file":
        try:
            more |= await _difference(asked.site, query)
        except (Invalid, Unknown) as problem:  # the cases are worth saving all the same
            more["problem"] = str(problem)
    return Page("compare.html.j2", "Compare", about, found, more, tab="compare")


async def difference(asked: PageRequest) -> Page:
    """The difference of both sides, for the top of the page."""
    query = read_query(asked.request, CompareQuery)
    more = await _difference(asked.site, query)
    return Page("difference.html.j2", "Difference", "The paired difference.", more["found"].document(), more)


async def _difference(site: Site, query: CompareQuery) -> dict[str, Any]:
    """What the template of a difference needs."""
    found = await comparison(site, query)
    rows = [
        (one.difference.mean, one.difference.low, one.difference.high)
        for one in found.contrasts
        if one.difference
    ]
    ends = [abs(value) for row in rows for value in row if value is not None]
    reach = max(ends, default=1.0) or 1.0
    return {"found": found, "least": -reach * 1.05, "most": reach * 1.05, "axis": axis_of(rows)}
