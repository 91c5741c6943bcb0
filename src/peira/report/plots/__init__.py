"""The plots of a report, in the order in which it shows them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from peira.report.plots.calibration import calibration
from peira.report.plots.canvas import save
from peira.report.plots.cases import cases
from peira.report.plots.convergence import convergence
from peira.report.plots.forest import forest
from peira.report.plots.half_normal import half_normal
from peira.report.plots.interaction import interaction
from peira.report.plots.pareto import pareto
from peira.report.plots.plot import Plot
from peira.report.value import Report

PLOTS: dict[str, Callable[[Report], Plot | None]] = {
    "forest": forest,
    "interaction": interaction,
    "half-normal": half_normal,
    "pareto": pareto,
    "calibration": calibration,
    "convergence": convergence,
    "cases": cases,
}


def plots_of(report: Report) -> dict[str, Plot]:
    """Those that there is something to draw for."""
    made = {name: make(report) for name, make in PLOTS.items()}
    return {name: plot for name, plot in made.items() if plot is not None}


def save_all(report: Report, folder: Path) -> list[Path]:
    """Every plot as .svg and as .png, in a folder that is made if need be."""
    folder.mkdir(parents=True, exist_ok=True)
    return [
        save(plot, folder / f"{name}{ending}")
        for name, plot in plots_of(report).items()
        for ending in (".svg", ".png")
    ]
