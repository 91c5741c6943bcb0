"""The calibration plot: how often answers of a stated confidence are right."""

from __future__ import annotations

from typing import Any

from peira.report.plots.plot import COLOURS, QUIET, Plot, bars, plain
from peira.report.value import Bin, Report


def calibration(report: Report) -> Plot | None:
    bins = report.calibration
    if not bins:
        return None
    told = "; ".join(f"{one.confidence:.2f}: {one.correct.mean:.2f} of {one.n:,}" for one in bins)
    title = "Calibration: confidence against correctness"
    return Plot("calibration", title, f"{title}. {told}.", 3.6, lambda figure: _draw(figure, bins), 4.4)


def _draw(figure: Any, bins: tuple[Bin, ...]) -> None:
    axes = figure.subplots()
    plain(axes)
    axes.plot([0, 1], [0, 1], color=QUIET, linewidth=1, linestyle=(0, (4, 3)), label="perfect")
    points = [one.correct for one in bins]
    axes.errorbar(
        [one.confidence for one in bins],
        [point.mean for point in points],
        yerr=bars(points),
        color=COLOURS[0],
        marker="o",
        linewidth=1.4,
        label="observed",
    )
    axes.set_xlim(-0.02, 1.02)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("stated confidence")
    axes.set_ylabel("share correct")
    axes.legend(loc="upper left", fontsize=8)
