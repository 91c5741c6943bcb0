"""Interaction plots: where the lines are not parallel, one factor's effect depends on the other."""

from __future__ import annotations

from typing import Any

from peira.report.plots.plot import COLOURS, MARKERS, Plot, bars, clipped, plain
from peira.report.value import Interaction, Report


def interaction(report: Report) -> Plot | None:
    main = report.main
    if main is None or not main.interactions:
        return None
    found = main.interactions
    names = "; ".join(f"{one.first} by {one.second}" for one in found)
    cells = "; ".join(_said(one) for one in found)
    title = f"Interactions in {main.name}"
    alt = f"Interaction plots of {names}, with {100 * report.level:g}% intervals. {cells}."
    width = 7.6 if len(found) > 1 else 4.6
    return Plot("interaction", title, alt, 3.1, lambda figure: _draw(figure, found, main.name), width)


def _said(one: Interaction) -> str:
    known = [cell for row in one.cells for cell in row if cell is not None and cell.mean is not None]
    return ", ".join(f"{cell.label}: {cell.mean:.3g}" for cell in known)


def _draw(figure: Any, found: tuple[Interaction, ...], score: str) -> None:
    grid = figure.subplots(1, len(found), sharey=True, squeeze=False)[0]
    for axes, one in zip(grid, found, strict=True):
        _lines(axes, one, 2 if len(found) == 1 else 1)
    grid[0].set_ylabel(f"mean {score}")


def _lines(axes: Any, one: Interaction, ncol: int) -> None:
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
