"""The forest plot: every effect with its interval, hypotheses first."""

from __future__ import annotations

from typing import Any

from peira.report.numbers import change, spread
from peira.report.plots.plot import COLOURS, INK, PAPER, QUIET, Plot, bars, clipped, plain
from peira.report.value import Point, Report, Scored

NARROW = 3.7


def forest(report: Report, narrow: bool = False) -> Plot | None:
    """`narrow` is for small screens: labels stand above their intervals."""
    main = report.main
    points = [point for point in main.points if point.mean is not None] if main else []
    if main is None or not points:
        return None
    told = [f"{point.label} {_said(point)}" for point in points]
    title = f"{'Effects on' if points[0].zero else 'Means of'} {main.name}"
    alt = f"Forest plot. {title}, with {100 * report.level:g}% intervals: {'; '.join(told)}."
    if narrow:
        height = 0.8 + 0.5 * len(points)
        return Plot("forest", title, alt, height, lambda figure: _stacked(figure, main, points), NARROW)
    return Plot("forest", title, alt, 0.95 + 0.34 * len(points), lambda figure: _draw(figure, main, points))


def _said(point: Point) -> str:
    return change(point) if point.zero else spread(point)


def _draw(figure: Any, main: Scored, points: list[Point]) -> None:
    axes = _rows(figure, main, points)
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_yticks(range(len(points)), [clipped(point.label) for point in points])
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(points)), [_said(point) for point in points])
    right.spines["right"].set_visible(False)
    right.tick_params(length=0, colors=INK)


def _stacked(figure: Any, main: Scored, points: list[Point]) -> None:
    axes = _rows(figure, main, points)
    axes.set_ylim(len(points) - 0.7, -0.75)
    axes.set_yticks([])
    for row, point in enumerate(points):
        place = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
        axes.annotate(clipped(point.label, 34), (0, row - 0.42), ha="left", **place)
        axes.annotate(_said(point), (1, row - 0.42), ha="right", **place)


def _rows(figure: Any, main: Scored, points: list[Point]) -> Any:
    axes = figure.subplots()
    plain(axes, "x")
    if points[0].zero:
        axes.axvline(0, color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    for row, point in enumerate(points):
        _row(axes, row, point)
    unit = f" ({main.unit})" if main.unit else ""
    axes.set_xlabel(f"{'change in ' if points[0].zero else ''}{main.name}{unit}")
    axes.margins(x=0.06)
    return axes


def _row(axes: Any, row: int, point: Point) -> None:
    filled = point.declared or not point.zero
    colour = COLOURS[0] if filled else COLOURS[1]
    axes.errorbar(
        [point.mean],
        [row],
        xerr=bars([point]),
        fmt="s" if filled else "o",
        color=colour,
        markerfacecolor=colour if filled else PAPER,
        markersize=6,
        linewidth=1.8,
        capsize=0,
        markeredgewidth=1.6,
    )
