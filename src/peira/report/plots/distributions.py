"""Plots of distributions: of the main score, of costs and of seconds, a line for each condition."""

from __future__ import annotations

from typing import Any

import numpy as np

from peira.core.text.words import counted
from peira.report.plots.canvas import COLOURS, Plot, clipped, legend_outside, plain
from peira.report.value import ConditionSpread, Distribution, Report

WIDE = 30
"""Values that are all positive and spread by more than this factor have a logarithmic axis."""
AXES = {"cost": "US dollars of a trial", "took": "seconds of a trial"}
LINES: tuple[Any, ...] = ("-", (0, (6, 2)), (0, (2, 2)), (0, (6, 2, 1, 2)))


def distribution(report: Report) -> Plot | None:
    """The distribution of the main score over cases; None if it has too few values."""
    return None if report.main is None else _plot("distribution", report, report.main.name)


def costs(report: Report) -> Plot | None:
    """The distribution of what trials cost; None if that is unknown, or hardly varies."""
    return _plot("costs", report, "cost")


def seconds(report: Report) -> Plot | None:
    """The distribution of how long trials took; None if that is unknown, or hardly varies."""
    return _plot("seconds", report, "took")


def _plot(name: str, report: Report, measure: str) -> Plot | None:
    """The plot of one distribution."""
    found = next((one for one in report.distributions if one.measure == measure), None)
    if found is None:
        return None
    title = f"Distribution of {measure} over {found.of}"
    shown = "; ".join(f"{one.label}: {_summary(one)}" for one in found.conditions)
    more = f"; {counted(found.left_out, 'more condition')} left out" if found.left_out else ""
    alt = f"{title}. {shown}{more}."
    return Plot(name, title, alt, 3.0, lambda figure: _draw(figure, found), legend=len(found.conditions))


def _summary(one: ConditionSpread) -> str:
    """The smallest, middle and largest value."""
    low, middle, high = one.quantiles[0], float(np.median(one.quantiles)), one.quantiles[-1]
    return f"{low:.3g} to {high:.3g}, half of {one.n:,} up to {middle:.3g}"


def _draw(figure: Any, found: Distribution) -> None:
    """Draw the empirical distribution function of each condition."""
    axes = figure.subplots()
    plain(axes)
    for at, one in enumerate(found.conditions):
        n = len(one.quantiles)
        axes.step(
            [one.quantiles[0], *one.quantiles],
            [0.0, *((place + 1) / n for place in range(n))],
            where="post",
            color=COLOURS[at % len(COLOURS)],
            linestyle=LINES[at % len(LINES)],
            linewidth=1.5,
            label=f"{clipped(one.label, 34)} ({one.n:,})",
        )
    low = min(one.quantiles[0] for one in found.conditions)
    high = max(one.quantiles[-1] for one in found.conditions)
    if low > 0 and high > WIDE * low:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter("{x:g}")
        axes.xaxis.set_minor_formatter("")
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel(AXES.get(found.measure, found.measure))
    axes.set_ylabel(f"share of {found.of} up to there")
    legend_outside(figure, axes)
