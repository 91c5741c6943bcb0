"""Charts as inline SVG, drawn by the server: they need no script, fit any width, and are part of saved pages.

The plane of a chart has no fixed size: lines are drawn in percent of it, and texts keep their size whatever
the width of the page is.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from markupsafe import Markup, escape

from peira.report.writers.html import visible

TICKS = 4
"""About so many ticks on an axis."""
MOST_POINTS = 300
"""Points of a line: of more, some are left out."""
ARM_COLOURS = 6
"""Kinds of lines that tell arms apart, by colour and by dashes."""
Point = tuple[float, float]


@dataclass(frozen=True)
class ChartAxis:
    """The range of an axis, and the values at which it has a tick."""

    least: float
    most: float
    ticks: tuple[float, ...]

    def percent(self, value: float) -> float:
        """Where a value lies, from 0 to 100."""
        share = (value - self.least) / (self.most - self.least)
        return 100 * min(1.0, max(0.0, share))


def axis_over(values: Iterable[float], *more: float) -> ChartAxis:
    """An axis that covers these values, with round ticks."""
    known = [value for value in (*values, *more) if math.isfinite(value)] or [0.0, 1.0]
    least, most = min(known), max(known)
    span = (most - least) or abs(most) or 1.0
    raw = span / TICKS
    size = 10 ** math.floor(math.log10(raw))
    step = next(size * factor for factor in (1, 2, 2.5, 5, 10) if size * factor >= raw)
    low, high = math.floor(least / step + 1e-9), math.ceil(most / step - 1e-9)
    high = max(high, low + 1)
    return ChartAxis(low * step, high * step, tuple(round(n * step, 12) for n in range(low, high + 1)))


def chart(
    label: str, x: ChartAxis, y: ChartAxis, shapes: Iterable[Markup], x_name: str = "", kind: str = ""
) -> Markup:
    """A chart of shapes in percent of its plane, with both axes."""
    grid = Markup("").join(_ticks(x, y))
    named = Markup('<text class="name" x="100%" y="100%" dy="30" text-anchor="end">{}</text>').format(x_name)
    return Markup(
        '<svg class="chart {}" role="img" aria-label="{}">{}'
        '<svg width="100%" height="100%" viewBox="0 0 100 100" preserveAspectRatio="none">{}</svg>{}</svg>'
    ).format(kind, visible(label), grid, Markup("").join(shapes), named if x_name else "")


def _ticks(x: ChartAxis, y: ChartAxis) -> Iterator[Markup]:
    for value in y.ticks:
        at = f"{100 - y.percent(value):.2f}%"
        yield Markup(
            '<line class="grid" x1="0" x2="100%" y1="{0}" y2="{0}"/>'
            '<text x="-6" y="{0}" dy="4" text-anchor="end">{1}</text>'
        ).format(at, _number(value))
    for value in x.ticks:
        at = f"{x.percent(value):.2f}%"
        yield Markup('<text x="{}" y="100%" dy="15" text-anchor="middle">{}</text>').format(
            at, _number(value)
        )


def _number(value: float) -> str:
    return f"{value:,.0f}" if value == int(value) and abs(value) < 1e7 else f"{value:.3g}"


def line(points: Sequence[Point], x: ChartAxis, y: ChartAxis, kind: str) -> Markup:
    """A line through points."""
    places = " ".join(f"{a:.2f},{b:.2f}" for a, b in _places(points, x, y))
    return Markup('<polyline class="{}" points="{}" vector-effect="non-scaling-stroke"/>').format(
        kind, places
    )


def band(low: Sequence[Point], high: Sequence[Point], x: ChartAxis, y: ChartAxis, kind: str) -> Markup:
    """The area between two lines."""
    places = [*_places(low, x, y), *reversed(list(_places(high, x, y)))]
    return Markup('<polygon class="{}" points="{}"/>').format(
        kind, " ".join(f"{a:.2f},{b:.2f}" for a, b in places)
    )


def level(value: float, x: ChartAxis, y: ChartAxis, kind: str) -> Markup:
    """A horizontal line."""
    return line([(x.least, value), (x.most, value)], x, y, kind)


def _places(points: Sequence[Point], x: ChartAxis, y: ChartAxis) -> Iterator[Point]:
    every = max(1, len(points) // MOST_POINTS)
    for number, (a, b) in enumerate(points):
        if number % every == 0 or number == len(points) - 1:
            yield x.percent(a), 100 - y.percent(b)


# The charts of pages


def progress_chart(samples: Sequence[tuple[float, int, int]]) -> Markup:
    """Trials done and failed over the seconds since the first sample."""
    began = samples[0][0]
    x, y = axis_over([at - began for at, _, _ in samples]), axis_over([n for _, n, _ in samples], 0)
    done = [(at - began, float(n)) for at, n, _ in samples]
    failed = [(at - began, float(n)) for at, _, n in samples]
    floor = [(a, 0.0) for a, _ in done]
    shapes = [band(floor, done, x, y, "area"), line(done, x, y, "main"), line(failed, x, y, "second")]
    return chart("trials done and failed over time", x, y, shapes, "seconds")


def looks_charts(looks: Sequence[Mapping[str, Any]], most: int = 6) -> list[tuple[str, Markup]]:
    """The sequence of each difference at every look, on the boundary that it must cross to be decided."""
    found: dict[tuple[str, str, str], list[tuple[float, float | None, float, float]]] = {}
    verdicts: dict[tuple[str, str, str], str] = {}
    for look in looks:
        for one in look.get("standings", ()):
            key = one["about"], one["first"], one["second"]
            found.setdefault(key, []).append((look["units"], one["mean"], one["low"], one["high"]))
            verdicts[key] = one.get("verdict", "")
    unit = next((look.get("unit", "case") for look in looks), "case")
    charts = []
    for key, rows in list(found.items())[:most]:
        about, first, second = key
        said = f"{about}: " if about else ""
        title = f"{said}{first} - {second}, {verdicts[key] or 'undecided'}"
        charts.append(
            (title, sequence_chart(f"{title}: the difference at every look", rows, 0.0, f"{unit}s"))
        )
    return charts


def sequence_chart(
    label: str, points: Iterable[Sequence[Any]], boundary: float, unit: str, ends: Sequence[float] = ()
) -> Markup:
    """A confidence sequence (n, mean, low, high) on the boundary that it must leave to be decided."""
    rows = [row for row in points if row[2] is not None and row[3] is not None]
    x = axis_over([row[0] for row in rows], 0)
    y = axis_over([value for row in rows for value in row[2:]], boundary, *ends)
    low, high = [(row[0], row[2]) for row in rows], [(row[0], row[3]) for row in rows]
    shapes = [
        band(low, high, x, y, "area"),
        level(boundary, x, y, "boundary"),
        line(low, x, y, "edge"),
        line(high, x, y, "edge"),
        line([(row[0], row[1]) for row in rows if row[1] is not None], x, y, "second solid"),
    ]
    return chart(label, x, y, shapes, unit)


def shares_chart(splits: Sequence[tuple[int, Sequence[float]]], jobs: int) -> Markup:
    """The share of each arm by the number of jobs whose results led to it, as steps; the last goes on."""
    x, y = axis_over([0.0, *(n for n, _ in splits), jobs]), axis_over([0.0, 1.0])
    shapes = []
    for arm in range(len(splits[0][1]) if splits else 0):
        points: list[Point] = []
        for n, shares in splits:
            if points:
                points.append((n, points[-1][1]))
            points.append((n, shares[arm]))
        points.append((max(jobs, points[-1][0]), points[-1][1]))
        shapes.append(line(points, x, y, f"arm arm-{arm % ARM_COLOURS}"))
    return chart("share of jobs that each arm gets", x, y, shapes, "jobs")


def tightening_charts(
    history: Sequence[tuple[int, Mapping[str, tuple[float, float, float]]]], most: int = 8
) -> list[tuple[str, Markup]]:
    """The mean of each condition with its interval, by the number of trials that it rests on."""
    labels = list(history[-1][1])[:most] if history else []
    rows = {name: [(n, *found[name]) for n, found in history if name in found] for name in labels}
    values = [value for points in rows.values() for point in points for value in point[1:]]
    y = axis_over(values)
    charts = []
    for name, points in rows.items():
        if len(points) < 2:
            continue
        x = axis_over([point[0] for point in points])
        low, high = [(p[0], p[2]) for p in points], [(p[0], p[3]) for p in points]
        shapes = [
            band(low, high, x, y, "area"),
            line(low, x, y, "edge"),
            line(high, x, y, "edge"),
            line([(p[0], p[1]) for p in points], x, y, "second solid"),
        ]
        about = f"{name}: mean and interval by trials"
        charts.append((str(escape(visible(name))), chart(about, x, y, shapes, "trials", "small")))
    return charts
