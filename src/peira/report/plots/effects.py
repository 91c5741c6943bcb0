"""Plots of effects: forest plot, half-normal plot, interaction plots."""

from __future__ import annotations

from typing import Any

from peira.analysis.effects.factor_effects import Effect
from peira.report.labels import change, spread
from peira.report.plots.canvas import (
    COLOURS,
    INK,
    LINE,
    MARKERS,
    NARROW,
    PAPER,
    QUIET,
    Plot,
    bars,
    clipped,
    plain,
)
from peira.report.value import Interaction, PlotPoint, Report, Scored
from peira.stats.normal import quantile

# Forest plot


def forest(report: Report, narrow: bool = False) -> Plot | None:
    """The forest plot of effects or means; `narrow` puts labels above intervals, for small screens."""
    main = report.main
    points = [point for point in main.points if point.mean is not None] if main else []
    if main is None or not points:
        return None
    shown = [f"{point.label} {_forest_caption(point)}" for point in points]
    title = f"{'Effects on' if points[0].zero else 'Means of'} {main.name}"
    alt = f"Forest plot. {title}, with {100 * report.level:g}% intervals: {'; '.join(shown)}."
    if narrow:
        height = 0.8 + 0.5 * len(points)
        return Plot("forest", title, alt, height, lambda figure: _stacked(figure, main, points), NARROW)
    return Plot(
        "forest", title, alt, 0.95 + 0.34 * len(points), lambda figure: _draw_forest(figure, main, points)
    )


def _forest_caption(point: PlotPoint) -> str:
    """The estimate beside a row."""
    return change(point) if point.zero else spread(point)


def _draw_forest(figure: Any, main: Scored, points: list[PlotPoint]) -> None:
    """Draw the forest plot with labels on the left and estimates on the right."""
    axes = _rows(figure, main, points)
    axes.set_ylim(len(points) - 0.4, -0.6)
    axes.set_yticks(range(len(points)), [clipped(point.label) for point in points])
    right = axes.secondary_yaxis("right")
    right.set_yticks(range(len(points)), [_forest_caption(point) for point in points])
    right.spines["right"].set_visible(False)
    right.tick_params(length=0, colors=INK)


def _stacked(figure: Any, main: Scored, points: list[PlotPoint]) -> None:
    """Draw the forest plot with labels above the intervals."""
    axes = _rows(figure, main, points)
    axes.set_ylim(len(points) - 0.7, -0.75)
    axes.set_yticks([])
    for row, point in enumerate(points):
        place = {"xycoords": ("axes fraction", "data"), "va": "center", "fontsize": 8}
        axes.annotate(clipped(point.label, 34), (0, row - 0.42), ha="left", **place)
        axes.annotate(_forest_caption(point), (1, row - 0.42), ha="right", **place)


def _rows(figure: Any, main: Scored, points: list[PlotPoint]) -> Any:
    """Draw the intervals of all points and the zero line."""
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


def _row(axes: Any, row: int, point: PlotPoint) -> None:
    """Draw one interval: filled if declared or a mean, hollow if exploratory."""
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


# Half-normal plot

FEWEST = 4


def half_normal(report: Report) -> Plot | None:
    """The half-normal plot of two-level effects; None with fewer than four."""
    main = report.main
    effects = [e for e in main.effects.effects if " - " in e.label] if main and main.effects else []
    if main is None or len(effects) < FEWEST:
        return None
    ordered = sorted(effects, key=lambda effect: abs(effect.estimate.mean))
    shown = ", ".join(f"{e.term} {abs(e.estimate.mean):.3g}" for e in reversed(ordered))
    title = f"Half-normal plot of effects on {main.name}"
    alt = f"{title}. Sizes, largest first: {shown}."
    return Plot(
        "half-normal", title, alt, 3.4, lambda figure: _draw_half_normal(figure, ordered, main.name), 5.2
    )


def places(n: int) -> list[float]:
    """The expected order statistics of n half-normal values."""
    return [quantile(0.5 + 0.5 * (i + 0.5) / n) for i in range(n)]


def _draw_half_normal(figure: Any, ordered: list[Effect], score: str) -> None:
    """Draw the sizes of effects against half-normal quantiles."""
    axes = figure.subplots()
    plain(axes)
    across = places(len(ordered))
    sizes = [abs(effect.estimate.mean) for effect in ordered]
    half = max(1, len(sizes) // 2)
    slope = sizes[half - 1] / across[half - 1]
    axes.plot([0, across[-1] * 1.05], [0, slope * across[-1] * 1.05], color=LINE, linewidth=1.4)
    axes.scatter(across, sizes, color=COLOURS[0], s=34, zorder=3)
    named = slice(len(ordered) // 2, None)  # the smaller ones overlap and are negligible
    for x, y, effect in zip(across[named], sizes[named], ordered[named], strict=True):
        side = {"xytext": (-7, 3), "ha": "right"} if x > across[-1] / 2 else {"xytext": (7, -3), "ha": "left"}
        axes.annotate(clipped(effect.term, 28), (x, y), textcoords="offset points", fontsize=8, **side)
    axes.set_xlim(0, across[-1] * 1.08)
    axes.set_ylim(0, (max(sizes) or 1.0) * 1.12)
    axes.set_xlabel("half-normal quantile")
    axes.set_ylabel(f"size of the effect on {score}")


# Interaction plots


def interaction(report: Report, narrow: bool = False) -> Plot | None:
    """The interaction plots; None without interactions. `narrow` puts them below each other."""
    main = report.main
    if main is None or not main.interactions:
        return None
    found = main.interactions
    names = "; ".join(f"{one.first} by {one.second}" for one in found)
    cells = "; ".join(_interaction_caption(one) for one in found)
    title = f"Interactions in {main.name}"
    alt = f"Interaction plots of {names}, with {100 * report.level:g}% intervals. {cells}."
    if narrow and len(found) > 1:
        height = 2.6 * len(found)
        return Plot(
            "interaction",
            title,
            alt,
            height,
            lambda figure: _draw_interaction(figure, found, main.name, below=True),
            3.9,
        )
    width = 7.6 if len(found) > 1 else 4.6
    return Plot(
        "interaction", title, alt, 3.1, lambda figure: _draw_interaction(figure, found, main.name), width
    )


def _interaction_caption(one: Interaction) -> str:
    """The means of an interaction, for the text alternative."""
    known = [cell for row in one.cells for cell in row if cell is not None and cell.mean is not None]
    return ", ".join(f"{cell.label}: {cell.mean:.3g}" for cell in known)


def _draw_interaction(figure: Any, found: tuple[Interaction, ...], score: str, below: bool = False) -> None:
    """Draw one panel per interaction, beside or below each other."""
    rows, columns = (len(found), 1) if below else (1, len(found))
    grid = figure.subplots(rows, columns, sharey=True, squeeze=False).ravel()
    for axes, one in zip(grid, found, strict=True):
        _lines(axes, one, 2 if below or len(found) == 1 else 1)
    for axes in grid if below else grid[:1]:
        axes.set_ylabel(f"mean {score}")


def _lines(axes: Any, one: Interaction, ncol: int) -> None:
    """Draw one line per level of the first factor."""
    plain(axes, "y")
    for row, label in enumerate(one.rows):
        known = [(at, cell) for at, cell in enumerate(one.cells[row]) if cell and cell.mean is not None]
        shift = 0.05 * (row - (len(one.rows) - 1) / 2)
        axes.errorbar(
            [at + shift for at, _ in known],
            [cell.mean for _, cell in known],
            yerr=bars([cell for _, cell in known]),
            color=COLOURS[row % len(COLOURS)],
            marker=MARKERS[row % len(MARKERS)],
            markersize=6,
            linewidth=1.6,
            capsize=0,
            label=clipped(label, 24),
        )
    axes.set_xticks(range(len(one.columns)), [clipped(label, 14) for label in one.columns])
    axes.set_xlim(-0.4, len(one.columns) - 0.6)
    axes.set_xlabel(clipped(one.second, 30))
    axes.legend(
        title=clipped(one.first, 24),
        loc="lower left",
        bbox_to_anchor=(-0.02, 1.0),
        ncol=ncol,
        alignment="left",
        fontsize=8,
        title_fontsize=8,
    )
