"""A picture of a design: the runs as rows, coloured by where each factor stands; and every two factors.

Drawn with colours that are told apart by the colour-blind and in grey (cividis). The size of a dot is how
often a pair of values is run. The file's ending says what it is: .svg, .png or .pdf.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peira.core.ids import Json
from peira.core.space import Dimension, Point, Space
from peira.design.dimensions import coded, label, numeric, places
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

ENDINGS = (".svg", ".png", ".pdf")
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "peira",  # the same picture is the same file
    "svg.fonttype": "none",
    "font.size": 8,
    "text.parse_math": False,
}
MOST_RUNS, MOST_PAIRED, MOST_LABELLED = 2000, 8, 40


def draw(space: Space, points: Sequence[Point], path: str | Path, title: str = "") -> Path:
    """Write the picture, and say where; Invalid if there is nothing to draw, or no such kind of file."""
    file = Path(path)
    _check(file, points)
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise Invalid("plot: needs matplotlib, which is not installed: pip install matplotlib") from None
    factors = len(space.dimensions)
    paired = 2 <= factors <= MOST_PAIRED
    rows = min(18.0, 1.6 + 0.22 * len(points))
    figure = Figure(
        figsize=(2.2 + 0.7 * factors + (1.3 * factors if paired else 0), max(rows, 1.3 * factors))
    )
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # a letter that the font lacks is drawn as a box
        left, *right = figure.subfigures(1, 2 if paired else 1, squeeze=False)[0]
        _matrix(left, space, points)
        if right:
            _pairs(right[0], space, points)
        if title:
            figure.suptitle(title)
        figure.savefig(file, dpi=150, bbox_inches="tight", metadata=_dateless(file))
    return file


def _check(file: Path, points: Sequence[Point]) -> None:
    if file.suffix.lower() not in ENDINGS:
        raise Invalid(f"plot: {file.name!r} must end in one of {', '.join(ENDINGS)}")
    if not file.parent.is_dir():
        raise Invalid(f"plot: there is no folder {str(file.parent)!r}")
    if not 0 < len(points) <= MOST_RUNS:
        raise Invalid(f"plot: draws 1 to {MOST_RUNS:,} runs, not {len(points):,}")


def _dateless(file: Path) -> dict[str, Any]:
    """The same picture is the same file."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(file.suffix.lower(), {})


def _matrix(figure: Any, space: Space, points: Sequence[Point]) -> None:
    """Runs down, factors across; each cell says its value where there is room."""
    axes = figure.subplots()
    standing = _standing(space, points)
    axes.imshow(standing, cmap="cividis", vmin=-1, vmax=1, aspect="auto", interpolation="nearest")
    axes.set_xticks(range(len(space.names)), space.names, rotation=45, ha="left")
    axes.xaxis.tick_top()
    axes.set_ylabel("run")
    axes.set_yticks(range(len(points)) if len(points) <= MOST_LABELLED else [])
    axes.set_yticklabels([_row(nth, point) for nth, point in enumerate(points)][: len(axes.get_yticks())])
    if len(points) <= MOST_LABELLED:
        for nth, point in enumerate(points):
            for at, name in enumerate(space.names):
                shade = "white" if standing[nth, at] < 0.2 else "black"
                text = _short(point.factors[name])
                axes.text(at, nth, text, ha="center", va="center", color=shade, fontsize=6)


def _row(nth: int, point: Point) -> str:
    block = f" [{point.block}]" if point.block else ""
    return f"{nth + 1}{block}" + (f" x{point.replicates}" if point.replicates > 1 else "")


def _pairs(figure: Any, space: Space, points: Sequence[Point]) -> None:
    """Below the diagonal a dot for each pair of values that is run, as large as it is often."""
    count = len(space.dimensions)
    grid = figure.subplots(count, count, squeeze=False)
    standing = _standing(space, points)
    for row, below in enumerate(grid):
        for column, axes in enumerate(below):
            axes.set_xticks([])
            axes.set_yticks([])
            if column > row:
                axes.axis("off")
            elif column == row:
                axes.text(0.5, 0.5, space.names[row], ha="center", va="center", fontsize=7)
            else:
                _dots(axes, standing[:, column], standing[:, row], points)


def _dots(axes: Any, across: NDArray[np.float64], up: NDArray[np.float64], points: Sequence[Point]) -> None:
    times: Counter[tuple[float, float]] = Counter()
    for x, y, point in zip(across.tolist(), up.tolist(), points, strict=True):
        times[x, y] += point.replicates
    most = max(times.values())
    xs, ys = zip(*times, strict=True)
    axes.scatter(xs, ys, s=[6 + 34 * n / most for n in times.values()], color="#0072B2")
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.3, 1.3)


def _standing(space: Space, points: Sequence[Point]) -> NDArray[np.float64]:
    """Where each run stands in each factor, between -1 and 1."""
    import numpy as np

    return np.array([_places(d, [p.factors[d.name] for p in points]) for d in space.dimensions]).T


def _places(dimension: Dimension, values: Sequence[Json]) -> list[float]:
    if numeric(dimension):
        return [coded(dimension, value) for value in values]
    last = max(1, len(dimension.levels) - 1)
    return [2 * place / last - 1 for place in places(dimension, values)]


def _short(value: Json) -> str:
    text = f"{value:.3g}" if isinstance(value, float) else label(value)
    return text if len(text) <= 9 else f"{text[:8]}…"
