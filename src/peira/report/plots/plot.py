"""A plot before it is drawn: its name, what it says to those who cannot see it, and how to draw it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from peira.report.value import Point

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#B09500")
"""Of Okabe and Ito, but for the last two: told apart by the colour-blind."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK, QUIET, LINE, PAPER = "#1d232b", "#5d6875", "#d4d9df", "#fefefd"
"""What is written, what is written beside, grid and axes, and what lies behind; a page may say others."""

WIDTH = 7.2


@dataclass(frozen=True)
class Plot:
    """`draw` takes a matplotlib figure of this size, in inches."""

    name: str
    title: str
    alt: str
    height: float
    draw: Callable[[Any], None]
    width: float = WIDTH


def clipped(text: str, most: int = 40) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def bars(points: list[Point]) -> list[list[float]]:
    """How far intervals reach down and up, as error bars are given; nothing where bounds are unknown."""
    low = [0.0 if p.mean is None or p.low is None else max(0.0, p.mean - p.low) for p in points]
    high = [0.0 if p.mean is None or p.high is None else max(0.0, p.high - p.mean) for p in points]
    return [low, high]


def plain(axes: Any, grid: str = "both") -> None:
    """A calm frame: no box, a light grid behind."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.grid(axis=grid, color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)
