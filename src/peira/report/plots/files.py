"""Draws one plot of a run into a file; the plug-ins of the kind "plot"."""

from __future__ import annotations

from functools import partial
from pathlib import Path

from peira.analysis.results import Results
from peira.core.registry import Registry
from peira.errors import Invalid
from peira.report.builder import build
from peira.report.plots import PLOTS
from peira.report.plots.canvas import save

NEEDS = {
    "forest": "a score",
    "interaction": "a score and two factors that vary",
    "half-normal": "at least four effects of factors with two levels",
    "pareto": "several conditions, with costs or durations",
    "distribution": "a score with at least three different values",
    "costs": "trials of known cost, of at least three different amounts",
    "seconds": "trials that took at least three different times",
    "sensitivity": "a score, levels to compare, and lost trials",
    "calibration": "a score with the parts confidence and correct",
    "convergence": "a score of at least three cases",
    "cases": "a score of at least two cases, under at most 24 conditions",
}
"""What each plot needs, for the error message."""


def register(registry: Registry) -> None:
    """Register the plots."""
    for name in PLOTS:
        registry.add("plot", name, partial(_draw, name))


def _draw(name: str, *, results: Results, path: Path, score: str | None = None, level: float = 0.95) -> Path:
    """Build the report and save one of its plots; raises Invalid if there is nothing to draw."""
    plot = PLOTS[name](build(results, level=level, trials=0, score=score))
    if plot is None:
        raise Invalid(f"plot: there is nothing to draw; {name} needs {NEEDS[name]}")
    return save(plot, path)
