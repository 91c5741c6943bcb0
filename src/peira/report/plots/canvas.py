"""Plots as values, and drawing them with matplotlib into a file or as inline SVG.

Output is reproducible: the same plot gives the same bytes. Inline SVG takes the page's font and colours,
light or dark.
"""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from markupsafe import escape

from peira.core.files import write_whole
from peira.errors import Invalid
from peira.report.value import PlotPoint

# Plots

COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F7F7F", "#B09500")
"""Okabe and Ito's colours for the colour-blind, with the last two replaced."""

MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
INK, QUIET, LINE, PAPER = "#1d232b", "#5d6875", "#d4d9df", "#fefefd"
"""The colours of text, secondary text, grid and background; an HTML page may override them."""

WIDTH, NARROW = 7.2, 3.7
"""Inches of a plot as wide as a page, and of one for small screens."""
LEGEND_ROW = 0.19
"""Inches of one entry of a legend."""


@dataclass(frozen=True)
class Plot:
    """A plot to draw: `draw` takes a matplotlib figure of this size, in inches.

    `alt` is the text alternative. `legend` entries stand beside the axes, or below them if it is narrow.
    """

    name: str
    title: str
    alt: str
    height: float
    draw: Callable[[Any], None]
    width: float = WIDTH
    legend: int = 0


def narrowed(plot: Plot | None) -> Plot | None:
    """The same plot for small screens, where its text would be too small to read."""
    if plot is None or plot.width <= NARROW:
        return None
    return replace(plot, width=NARROW, height=plot.height + LEGEND_ROW * plot.legend)


def legend_outside(figure: Any, axes: Any) -> None:
    """Put the legend beside the axes, or below them if the figure is narrow."""
    if figure.get_figwidth() >= figure.get_figheight() * 1.5:
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)
    else:
        figure.legend(loc="outside lower left", fontsize=8)


def clipped(text: str, most: int = 40) -> str:
    """The text cut to `most` characters."""
    return text if len(text) <= most else f"{text[: most - 1]}…"


def bars(points: list[PlotPoint]) -> list[list[float]]:
    """The lengths of error bars below and above; 0 where bounds are unknown."""
    low = [0.0 if p.mean is None or p.low is None else max(0.0, p.mean - p.low) for p in points]
    high = [0.0 if p.mean is None or p.high is None else max(0.0, p.high - p.mean) for p in points]
    return [low, high]


def plain(axes: Any, grid: str = "both") -> None:
    """Style the axes: no frame, a light grid in the background."""
    for side in ("top", "right", "left", "bottom"):
        axes.spines[side].set_visible(False)
    axes.grid(axis=grid, color=LINE, linewidth=0.6)
    axes.set_axisbelow(True)
    axes.tick_params(length=0)


# Drawing

NEEDED = "plots need matplotlib: pip install 'peira[plot]'"
ENDINGS = (".svg", ".png")
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "peira",
    "svg.fonttype": "none",
    "text.parse_math": False,
    "font.size": 9,
    "axes.titlesize": 10,
    "axes.titlelocation": "left",
    "text.color": INK,
    "axes.labelcolor": QUIET,
    "axes.edgecolor": LINE,
    "xtick.color": QUIET,
    "ytick.color": INK,
    "legend.frameon": False,
    "figure.facecolor": PAPER,
    "axes.facecolor": "none",
}
"""The matplotlib settings; the fixed hash salt makes SVG output reproducible."""
THEME = {INK: "var(--ink)", QUIET: "var(--quiet)", LINE: "var(--line)", PAPER: "var(--paper)"}
"""CSS variables that replace the fixed colours in inline SVG."""
STYLE = re.compile(r'style="([^"]*)"')
FAMILY = re.compile(r"font-family: [^;]*;?\s*")
OWN_STYLE = re.compile(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", re.DOTALL)
METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
COLLAPSED = "constrained_layout not applied"
"""The warning of matplotlib that what surrounds the axes leaves no room for them."""
SIZES = (1.0, 1.5, 2.2, 3.3, 5.0)
"""Factors by which a plot is enlarged until there is room."""
TAG = re.compile(r"<[^>]+>")


def available() -> bool:
    """Whether matplotlib is installed."""
    return find_spec("matplotlib") is not None


def save(plot: Plot, file: Path) -> Path:
    """Write the plot as .svg or .png and return the path; raises Invalid for other suffixes."""
    if file.suffix.lower() not in ENDINGS:
        raise Invalid(f"plot: {file.name!r} must end in one of {', '.join(ENDINGS)}")
    if not file.parent.is_dir():
        raise Invalid(f"plot: there is no folder {str(file.parent)!r}")
    write_whole(file, drawn(plot, file.suffix.lower()[1:]))
    return file


def drawn(plot: Plot, kind: str) -> bytes:
    """The plot as bytes of this format; raises Invalid if matplotlib is not installed."""
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise Invalid(NEEDED) from None
    data = io.BytesIO()
    metadata = {"Date": None} if kind == "svg" else None
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # characters missing in the font are drawn as boxes
        warnings.filterwarnings("error", COLLAPSED)
        for size in SIZES:
            figure = Figure(figsize=(plot.width * size, plot.height * size), layout="constrained")
            plot.draw(figure)
            try:
                figure.savefig(data, format=kind, dpi=200, metadata=metadata)
                return data.getvalue()
            except UserWarning as problem:
                if not re.match(COLLAPSED, str(problem)):
                    raise
        figure.set_layout_engine("none")  # so large a legend leaves no room: drawn over the rest
        figure.savefig(data, format=kind, dpi=200, metadata=metadata)
    return data.getvalue()


def inline(plot: Plot, name: str) -> str:
    """The plot as an SVG element for HTML, with unique ids and without global styles."""
    text = drawn(plot, "svg").decode()
    text = OWN_STYLE.sub("", METADATA.sub("", text[text.index("<svg") :]))
    whole, rest = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', whole)
    start = f'<svg {box[0] if box else ""} role="img" xmlns:xlink="http://www.w3.org/1999/xlink">'
    body = TAG.sub(lambda tag: _local(tag[0], f"{name}-"), rest)
    return f"{start}<title>{escape(plot.alt)}</title>{body}"


def _local(tag: str, prefix: str) -> str:
    """A tag with prefixed ids and references, and themed styles."""
    tag = re.sub(r'\bid="', f'id="{prefix}', tag)
    tag = re.sub(r"url\(#", f"url(#{prefix}", tag)
    tag = re.sub(r'href="#', f'href="#{prefix}', tag)
    return STYLE.sub(lambda style: f'style="{_themed(style[1])}"', tag)


def _themed(style: str) -> str:
    """A style with colours replaced by CSS variables and without fonts."""
    for colour, name in THEME.items():
        style = style.replace(colour, name)
    return FAMILY.sub("", style)
