"""Plots of a run: calibration, heat map of cases, convergence, quality against cost."""

from __future__ import annotations

from typing import Any

import numpy as np

from peira.analysis.compare.sensitivity import Sensitivity
from peira.report.labels import spread
from peira.report.plots.canvas import COLOURS, MARKERS, QUIET, Plot, bars, clipped, legend_outside, plain
from peira.report.value import Bin, Convergence, HeatMap, Priced, Report, Scored

# Calibration


def calibration(report: Report) -> Plot | None:
    """The calibration plot; None without calibration data."""
    bins = report.calibration
    if not bins:
        return None
    shown = "; ".join(f"{one.confidence:.2f}: {one.correct.mean:.2f} of {one.n:,}" for one in bins)
    title = "Calibration: confidence against correctness"
    return Plot(
        "calibration", title, f"{title}. {shown}.", 3.6, lambda figure: _draw_calibration(figure, bins), 4.4
    )


def _draw_calibration(figure: Any, bins: tuple[Bin, ...]) -> None:
    """Draw the observed against the perfect calibration."""
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


# Heat map of cases

MOST_LABELLED, MOST_CONDITIONS = 40, 24


def cases(report: Report) -> Plot | None:
    """The heat map of cases by conditions; None without data or with too many conditions."""
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
    return Plot("cases", title, alt, height, lambda figure: _draw_cases(figure, found, main.name))


def _draw_cases(figure: Any, found: HeatMap, score: str) -> None:
    """Draw the heat map with its colour bar."""
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


# Sensitivity to lost trials


def sensitivity(report: Report) -> Plot | None:
    """The differences against the shift of the lost trials; None if no trial was lost."""
    curves, main = report.lost.curves, report.main
    if not curves or main is None:
        return None
    title = f"Differences in {main.name}, if lost trials differ from their like"
    alt = f"{title}. {' '.join(one.sentence for one in curves)}"
    return Plot("sensitivity", title, alt, 3.4, lambda figure: _draw_sensitivity(figure, curves, main.name))


def _draw_sensitivity(figure: Any, curves: tuple[Sensitivity, ...], score: str) -> None:
    """Draw a line with its band for each difference."""
    axes = figure.subplots()
    plain(axes)
    axes.axhline(0, color=QUIET, linewidth=1)
    for one, colour in zip(curves, COLOURS, strict=False):
        shifts = [point.shift for point in one.points]
        found = [point.difference for point in one.points]
        axes.plot(shifts, [e.mean for e in found], color=colour, label=f"{one.first} - {one.second}")
        lows, highs = ([np.nan if end is None else end for end in ends]
                       for ends in ([e.low for e in found], [e.high for e in found]))  # fmt: skip
        axes.fill_between(shifts, lows, highs, color=colour, alpha=0.15, linewidth=0)
    axes.set_xlabel("lost trials differ from their like by")
    axes.set_ylabel(f"difference in {score}")
    axes.legend(loc="best", fontsize=8)


# Convergence


def convergence(report: Report) -> Plot | None:
    """The convergence plot; None without data, or with so little that there is no line."""
    found, main = report.convergence, report.main
    if found is None or main is None or len(found.steps) < 2:
        return None
    last = found.steps[-1]
    title = (
        f"{main.name} as cases came in"
        if found.label == main.name
        else f"{found.label} in {main.name} as cases came in"
    )
    ends = "unknown" if last.low is None or last.high is None else f"{last.low:.3g} to {last.high:.3g}"
    how = (
        "an interval that holds at every moment at once"
        if found.always
        else "an interval for each moment by itself"
    )
    alt = f"Running mean: {title}, with {how}. After {last.n:,} it is {last.mean:.3g}, {ends}."
    return Plot("convergence", title, alt, 2.7, lambda figure: _draw_convergence(figure, found, main.name))


def _draw_convergence(figure: Any, found: Convergence, score: str) -> None:
    """Draw the running mean with its band."""
    axes = figure.subplots()
    plain(axes)
    known = [step for step in found.steps if step.low is not None and step.high is not None]
    axes.fill_between(
        [step.n for step in known],
        [step.low for step in known],
        [step.high for step in known],
        color=COLOURS[5],
        alpha=0.35,
        linewidth=0,
    )
    axes.plot(
        [step.n for step in found.steps], [step.mean for step in found.steps], color=COLOURS[0], linewidth=1.8
    )
    if found.label != score:
        axes.axhline(0, color=QUIET, linewidth=0.9, linestyle=(0, (4, 3)))
    axes.set_xlabel(f"cases {'run' if found.ordered else '(in the order of the study)'}")
    axes.set_ylabel(f"mean {score}" if found.label == score else f"difference in {score}")
    axes.margins(x=0.01)


# Pareto front


def pareto(report: Report) -> Plot | None:
    """The Pareto plot of quality against price; None with fewer than two entries."""
    main = report.main
    if main is None or len(main.priced) < 2:
        return None
    shown = [f"{one.label}: {main.name} {spread(one.quality)}, {spread(one.price)}" for one in main.priced]
    title = f"{main.name} against {main.priced_in}"
    alt = f"{title}, with {100 * report.level:g}% intervals. {'; '.join(shown)}."
    return Plot("pareto", title, alt, 3.4, lambda figure: _draw_pareto(figure, main), legend=len(main.priced))


def front(entries: tuple[Priced, ...], lower: bool) -> list[Priced]:
    """The Pareto front: the entries that no other dominates, cheapest first."""
    sign = -1 if lower else 1

    def beats(one: Priced, other: Priced) -> bool:
        better = sign * ((one.quality.mean or 0) - (other.quality.mean or 0))
        cheaper = (other.price.mean or 0) - (one.price.mean or 0)
        return better >= 0 and cheaper >= 0 and (better > 0 or cheaper > 0)

    kept = [one for one in entries if not any(beats(other, one) for other in entries)]
    return sorted(kept, key=lambda one: one.price.mean or 0)


def _draw_pareto(figure: Any, main: Scored) -> None:
    """Draw the entries with error bars, and the front as steps."""
    axes = figure.subplots()
    plain(axes)
    best = front(main.priced, main.lower_is_better)
    axes.step(
        [one.price.mean for one in best],
        [one.quality.mean for one in best],
        where="post",
        color=QUIET,
        linewidth=1.2,
        linestyle=(0, (4, 3)),
    )
    for at, one in enumerate(main.priced):
        axes.errorbar(
            [one.price.mean],
            [one.quality.mean],
            xerr=bars([one.price]),
            yerr=bars([one.quality]),
            color=COLOURS[at % len(COLOURS)],
            marker=MARKERS[at % len(MARKERS)],
            markersize=6,
            linewidth=1.2,
            linestyle="none",
            label=f"{clipped(one.label, 34)}{_chance(one)}",
        )
    axes.set_xlabel(main.priced_in)
    axes.set_ylabel(f"mean {main.name}")
    legend_outside(figure, axes)


def _chance(one: Priced) -> str:
    """The probability of being on the front, for the legend."""
    return "" if one.on_front is None else f" (on front {one.on_front:.0%})"
