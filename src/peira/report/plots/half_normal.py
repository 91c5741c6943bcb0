"""The half-normal plot of effects (Daniel): what does nothing lies on a line; the rest stands off it."""

from __future__ import annotations

from typing import Any

from peira.analysis.effect_values import Effect
from peira.report.plots.plot import COLOURS, LINE, Plot, clipped, plain
from peira.report.value import Report
from peira.stats.normal import quantile

FEWEST = 4


def half_normal(report: Report) -> Plot | None:
    main = report.main
    effects = [e for e in main.effects.effects if " - " in e.label] if main and main.effects else []
    if main is None or len(effects) < FEWEST:
        return None
    ordered = sorted(effects, key=lambda effect: abs(effect.estimate.mean))
    told = ", ".join(f"{e.term} {abs(e.estimate.mean):.3g}" for e in reversed(ordered))
    title = f"Half-normal plot of effects on {main.name}"
    alt = f"{title}. Sizes, largest first: {told}."
    return Plot("half-normal", title, alt, 3.4, lambda figure: _draw(figure, ordered, main.name), 5.2)


def places(n: int) -> list[float]:
    """Where the order statistics of n half-normal values are expected to lie."""
    return [quantile(0.5 + 0.5 * (i + 0.5) / n) for i in range(n)]


def _draw(figure: Any, ordered: list[Effect], score: str) -> None:
    axes = figure.subplots()
    plain(axes)
    across = places(len(ordered))
    sizes = [abs(effect.estimate.mean) for effect in ordered]
    half = max(1, len(sizes) // 2)
    slope = sizes[half - 1] / across[half - 1]
    axes.plot([0, across[-1] * 1.05], [0, slope * across[-1] * 1.05], color=LINE, linewidth=1.4)
    axes.scatter(across, sizes, color=COLOURS[0], s=34, zorder=3)
    named = slice(len(ordered) // 2, None)  # the smaller ones lie on top of each other, and do nothing
    for x, y, effect in zip(across[named], sizes[named], ordered[named], strict=True):
        side = {"xytext": (-7, 3), "ha": "right"} if x > across[-1] / 2 else {"xytext": (7, -3), "ha": "left"}
        axes.annotate(clipped(effect.term, 28), (x, y), textcoords="offset points", fontsize=8, **side)
    axes.set_xlim(0, across[-1] * 1.08)
    axes.set_ylim(0, (max(sizes) or 1.0) * 1.12)
    axes.set_xlabel("half-normal quantile")
    axes.set_ylabel(f"size of the effect on {score}")
