"""The heat map of cases: which are hard for everybody, and which for some."""

from __future__ import annotations

from typing import Any

import numpy as np

from peira.report.plots.plot import QUIET, Plot, clipped
from peira.report.value import HeatMap, Report

MOST_LABELLED, MOST_CONDITIONS = 40, 24


def cases(report: Report) -> Plot | None:
    found, main = report.heat, report.main
    if found is None or main is None or len(found.conditions) > MOST_CONDITIONS:
        return None
    some = f" ({found.left_out:,} others left out evenly)" if found.left_out else ""
    title = f"{main.name} by case and condition"
    alt = (
        f"Heat map of {title}: {len(found.cases):,} cases{some}, hardest first, by "
        f"{', '.join(found.conditions)}."
    )
    height = 1.6 + 0.17 * len(found.cases) if len(found.cases) <= MOST_LABELLED else 4.4
    return Plot("cases", title, alt, height, lambda figure: _draw(figure, found, main.name))


def _draw(figure: Any, found: HeatMap, score: str) -> None:
    axes = figure.subplots()
    table = np.array([[np.nan if v is None else v for v in row] for row in found.values], dtype=float)
    image = axes.imshow(table, cmap="cividis", aspect="auto", interpolation="nearest")
    few = len(found.cases) <= MOST_LABELLED
    axes.set_yticks(
        range(len(found.cases)) if few else [], [clipped(c, 24) for c in found.cases] if few else []
    )
    axes.set_ylabel("case" if few else f"{len(found.cases):,} cases, hardest first")
    stacked = len(found.conditions) <= 6
    across = [clipped(label, 26).replace(", ", "\n" if stacked else ", ") for label in found.conditions]
    axes.set_xticks(range(len(across)), across, **({} if stacked else {"rotation": 35, "ha": "right"}))
    axes.tick_params(length=0, labelsize=8)
    for spine in axes.spines.values():
        spine.set_visible(False)
    bar = figure.colorbar(image, ax=axes, label=f"mean {score}", shrink=0.8)
    bar.outline.set_visible(False)
    bar.ax.tick_params(length=0, labelsize=8, colors=QUIET)
