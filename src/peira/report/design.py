"""A design for display: its diagnosis as text tables, and a picture of its runs.

The picture uses the cividis colour map, which is readable for the colour-blind and in grey. The size of a dot
shows how often a pair of values is run. The file's suffix selects the format: .svg, .png or .pdf.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from peira.core.ids import Json
from peira.core.space import Dimension, Point, Space
from peira.core.text.grid import plain
from peira.design.diagnose.aliasing import Clarity
from peira.design.diagnose.balance import Coverage
from peira.design.diagnose.diagnosis import Diagnosis
from peira.design.diagnose.sentences import listed
from peira.design.dimensions import coded, label, numeric, places
from peira.errors import Invalid

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


# Text

MOST_ROWS = 60
"""The largest number of effects in the table."""
MOST_WORDS = 8
"""The largest number of levels or defining words in a line."""


def design_text(diagnosis: Diagnosis) -> str:
    """The diagnosis as text tables, without the sentences."""
    parts = [_effects(diagnosis), _levels(diagnosis), "\n".join(_facts(diagnosis))]
    return "\n\n".join(part for part in parts if part)


def _effects(d: Diagnosis) -> str:
    """The table of effects: aliasing, standard error and power."""
    powers = {power.effect: power for power in d.powers}
    header = ["effect", "df", "not clear of", "error", f"smallest at {100 * d.assumed.power:g}%"]
    header += [f"power at {d.assumed.effect:g}"] if d.assumed.effect is not None else []
    rows = []
    for one in d.clarity[:MOST_ROWS]:
        own = powers.get(one.effect)
        seen = [own.error, own.smallest] if own else [None, None]
        seen += [own.power if own else None] if d.assumed.effect is not None else []
        rows.append([one.effect, str(own.df) if own else "-", _aliases(one), *map(_number, seen)])
    more = len(d.clarity) - MOST_ROWS
    return plain(header, rows) + (f"\n... and {more:,} more effects" if more > 0 else "")


def _aliases(one: Clarity) -> str:
    """What an effect is aliased or correlated with, as text; "-" if it is clear."""
    if one.confounded_with:
        return listed(one.confounded_with, 4)
    kinds = {"main effects": one.with_main, "interactions": one.with_interactions, "blocks": one.with_blocks}
    found = [f"{name} ({largest:.2g})" for name, largest in kinds.items() if largest > 0]
    return ", ".join([*(["not seen in full"] if one.lost else []), *found]) or "-"


def _levels(d: Diagnosis) -> str:
    """The table of runs at each level."""
    rows = [
        [one.factor, ", ".join(f"{level} {count:,}" for level, count in _first(one.counts))]
        for one in d.balance
    ]
    return plain(["factor", "runs at each level"], rows)


def _first(counts: tuple[tuple[str, int], ...]) -> Iterable[tuple[str, int]]:
    """The first counts and the last one, if there are too many."""
    return counts if len(counts) <= MOST_WORDS else (*counts[:MOST_WORDS], ("...", counts[-1][1]))


def _facts(d: Diagnosis) -> Iterator[str]:
    """Defining relation, model, efficiency and coverage, one line each."""
    if d.regular is not None and d.regular.words:
        words = [f"{'-' if sign < 0 else ''}{':'.join(word)}" for word, sign in d.regular.words]
        words = words if len(words) <= MOST_WORDS else [*words[:MOST_WORDS], "..."]
        yield f"defining relation: {' = '.join(['I', *words])}"
    yield f"model: {d.formula}, {d.parameters} parameters, correlated up to {d.correlation:.2g}"
    if (e := d.efficiency) is not None:
        shares = {"D": e.d, "A": e.a, "G": e.g, "I": e.i}
        shown = ", ".join(f"{name} {share:.4g}%" for name, share in shares.items() if share is not None)
        yield f"efficiency: {shown}; condition number {e.condition:.4g}"
    if parts := list(_coverage(d.coverage)):
        yield f"coverage: {', '.join(parts)}"


def _coverage(c: Coverage) -> Iterator[str]:
    """The measures of coverage, as texts."""
    if c.combinations is not None:
        yield f"{100 * c.combinations:.3g}% of all combinations"
    if c.nearest is not None:
        yield f"the closest two runs {c.nearest:.3g} apart (1 is the most)"
    if c.discrepancy is not None:
        yield f"discrepancy {c.discrepancy:.3g}"


def _number(value: float | None) -> str:
    """A number with three digits; "-" for None."""
    return "-" if value is None else f"{value:.3g}"


# Picture

ENDINGS = (".svg", ".png", ".pdf")
"""The file suffixes that can be drawn."""
SETTINGS: dict[Any, Any] = {
    "svg.hashsalt": "peira",  # reproducible output
    "svg.fonttype": "none",
    "font.size": 8,
    "text.parse_math": False,
}
"""The matplotlib settings; the fixed hash salt makes SVG output reproducible."""
MOST_RUNS, MOST_PAIRED, MOST_LABELLED = 2000, 8, 40


def draw(space: Space, points: Sequence[Point], path: str | Path, title: str = "") -> Path:
    """Draw the design into a file and return its path.

    Raises Invalid if there is nothing to draw, too much, an unknown suffix, or no matplotlib.
    """
    file = Path(path)
    _check(file, points)
    try:
        import matplotlib as mpl
        from matplotlib.figure import Figure
    except ImportError:
        raise Invalid("plot: needs matplotlib, which is not installed: pip install 'peira[plot]'") from None
    factors = len(space.dimensions)
    paired = 2 <= factors <= MOST_PAIRED
    rows = min(18.0, 1.6 + 0.22 * len(points))
    figure = Figure(
        figsize=(2.2 + 0.7 * factors + (1.3 * factors if paired else 0), max(rows, 1.3 * factors))
    )
    with mpl.rc_context(SETTINGS), warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Glyph")  # characters missing in the font are drawn as boxes
        left, *right = figure.subfigures(1, 2 if paired else 1, squeeze=False)[0]
        _matrix(left, space, points)
        if right:
            _pairs(right[0], space, points)
        if title:
            figure.suptitle(title)
        figure.savefig(file, dpi=150, bbox_inches="tight", metadata=_metadata(file))
    return file


def _check(file: Path, points: Sequence[Point]) -> None:
    """Raise Invalid for an unknown suffix, a missing folder, or too few or too many runs."""
    if file.suffix.lower() not in ENDINGS:
        raise Invalid(f"plot: {file.name!r} must end in one of {', '.join(ENDINGS)}")
    if not file.parent.is_dir():
        raise Invalid(f"plot: there is no folder {str(file.parent)!r}")
    if not 0 < len(points) <= MOST_RUNS:
        raise Invalid(f"plot: draws 1 to {MOST_RUNS:,} runs, not {len(points):,}")


def _metadata(file: Path) -> dict[str, Any]:
    """File metadata without dates, so that the same picture gives the same bytes."""
    return {".svg": {"Date": None}, ".pdf": {"CreationDate": None}}.get(file.suffix.lower(), {})


def _matrix(figure: Any, space: Space, points: Sequence[Point]) -> None:
    """The matrix of runs (rows) by factors (columns), with values in the cells if they fit."""
    axes = figure.subplots()
    standing = _coded_runs(space, points)
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
    """The label of a run: its number, block and replicates."""
    block = f" [{point.block}]" if point.block else ""
    return f"{nth + 1}{block}" + (f" x{point.replicates}" if point.replicates > 1 else "")


def _pairs(figure: Any, space: Space, points: Sequence[Point]) -> None:
    """The scatter-plot matrix: one dot for each pair of values that is run, sized by frequency."""
    count = len(space.dimensions)
    grid = figure.subplots(count, count, squeeze=False)
    standing = _coded_runs(space, points)
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
    """One panel of the scatter-plot matrix."""
    times: Counter[tuple[float, float]] = Counter()
    for x, y, point in zip(across.tolist(), up.tolist(), points, strict=True):
        times[x, y] += point.replicates
    most = max(times.values())
    xs, ys = zip(*times, strict=True)
    axes.scatter(xs, ys, s=[6 + 34 * n / most for n in times.values()], color="#0072B2")
    axes.set_xlim(-1.3, 1.3)
    axes.set_ylim(-1.3, 1.3)


def _coded_runs(space: Space, points: Sequence[Point]) -> NDArray[np.float64]:
    """The coded value of each run in each factor, between -1 and 1."""
    import numpy as np

    return np.array([_places(d, [p.factors[d.name] for p in points]) for d in space.dimensions]).T


def _places(dimension: Dimension, values: Sequence[Json]) -> list[float]:
    """The coded values of one dimension."""
    if numeric(dimension):
        return [coded(dimension, value) for value in values]
    last = max(1, len(dimension.levels) - 1)
    return [2 * place / last - 1 for place in places(dimension, values)]


def _short(value: Json) -> str:
    """A value shortened to nine characters."""
    text = f"{value:.3g}" if isinstance(value, float) else label(value)
    return text if len(text) <= 9 else f"{text[:8]}…"
