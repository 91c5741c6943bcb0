"""The plots of a report, in the order in which it shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from peira.report.plots.canvas import Plot, save
from peira.report.plots.curves import calibration, cases, convergence, pareto, sensitivity
from peira.report.plots.distributions import costs, distribution, seconds
from peira.report.plots.effects import forest, half_normal, interaction
from peira.report.value import Report

PLOTS: dict[str, Callable[[Report], Plot | None]] = {
    "forest": forest,
    "interaction": interaction,
    "half-normal": half_normal,
    "distribution": distribution,
    "pareto": pareto,
    "costs": costs,
    "seconds": seconds,
    "sensitivity": sensitivity,
    "calibration": calibration,
    "convergence": convergence,
    "cases": cases,
}
"""The plots by name, in the order of the report."""


def plots_of(report: Report) -> dict[str, Plot]:
    """The plots of a report that have something to draw."""
    plots = {name: make(report) for name, make in PLOTS.items()}
    return {name: plot for name, plot in plots.items() if plot is not None}


def save_all(report: Report, folder: Path) -> list[Path]:
    """Save every plot as .svg and .png in a folder, which is created if necessary."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        save(plot, folder / f"{name}{ending}")
        for name, plot in plots_of(report).items()
        for ending in (".svg", ".png")
    ]
