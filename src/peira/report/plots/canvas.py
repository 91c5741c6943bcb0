"""Drawing with matplotlib: as a file, or as SVG that becomes a part of a page.

The same plot is the same bytes each time. In a page it takes on the page's font and colours, light or dark.
"""

from __future__ import annotations

import io
import re
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from markupsafe import escape

from peira.errors import Invalid
from peira.report.plots.plot import INK, LINE, PAPER, QUIET, Plot

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
THEME = {INK: "var(--ink)", QUIET: "var(--quiet)", LINE: "var(--line)", PAPER: "var(--paper)"}
STYLE = re.compile(r'style="([^"]*)"')
FAMILY = re.compile(r"font-family: [^;]*;?\s*")
OWN_STYLE = re.compile(r"<defs>\s*<style[^>]*>.*?</style>\s*</defs>", re.DOTALL)
METADATA = re.compile(r"<metadata>.*?</metadata>", re.DOTALL)
TAG = re.compile(r"<[^>]+>")


def available() -> bool:
    return find_spec("matplotlib") is not None


def save(plot: Plot, file: Path) -> Path:
    """Write the plot as .svg or .png."""
    if file.suffix.lower() not in ENDINGS:
        raise Invalid(f"plot: {file.name!r} must end in one of {', '.join(ENDINGS)}")
    if not file.parent.is_dir():
        raise Invalid(f"plot: there is no folder {str(file.parent)!r}")
    file.write_bytes(drawn(plot, file.suffix.lower()[1:]))
    return file


def drawn(plot: Plot, kind: str) -> bytes:
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise Invalid(NEEDED) from None
    data = io.BytesIO()
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is drawn as a box
        figure = Figure(figsize=(plot.width, plot.height), layout="constrained")
        plot.draw(figure)
        figure.savefig(data, format=kind, dpi=200, metadata={"Date": None} if kind == "svg" else None)
    return data.getvalue()


def inline(plot: Plot, name: str) -> str:
    """The plot as an element of a page: no names that another plot has, no styles that reach beyond it."""
    text = drawn(plot, "svg").decode()
    text = OWN_STYLE.sub("", METADATA.sub("", text[text.index("<svg") :]))
    whole, rest = text.split(">", 1)
    box = re.search(r'viewBox="[^"]*"', whole)
    start = f'<svg {box[0] if box else ""} role="img" xmlns:xlink="http://www.w3.org/1999/xlink">'
    body = TAG.sub(lambda tag: _local(tag[0], f"{name}-"), rest)
    return f"{start}<title>{escape(plot.alt)}</title>{body}"


def _local(tag: str, prefix: str) -> str:
    tag = re.sub(r'\bid="', f'id="{prefix}', tag)
    tag = re.sub(r"url\(#", f"url(#{prefix}", tag)
    tag = re.sub(r'href="#', f'href="#{prefix}', tag)
    return STYLE.sub(lambda style: f'style="{_themed(style[1])}"', tag)


def _themed(style: str) -> str:
    for colour, name in THEME.items():
        style = style.replace(colour, name)
    return FAMILY.sub("", style)
