"""Quality against cost: what nothing else beats on both is on the front."""

from __future__ import annotations

from typing import Any

from peira.report.numbers import spread
from peira.report.plots.plot import COLOURS, MARKERS, QUIET, Plot, bars, clipped, plain
from peira.report.value import Priced, Report, Scored


def pareto(report: Report) -> Plot | None:
    main = report.main
    if main is None or len(main.priced) < 2:
        return None
    told = [f"{one.label}: {main.name} {spread(one.quality)}, {spread(one.price)}" for one in main.priced]
    title = f"{main.name} against {main.priced_in}"
    alt = f"{title}, with {100 * report.level:g}% intervals. {'; '.join(told)}."
    return Plot("pareto", title, alt, 3.4, lambda figure: _draw(figure, main))


def front(entries: tuple[Priced, ...], lower: bool) -> list[Priced]:
    """The entries that none is at least as good and as cheap as, and better in one; cheapest first."""
    sign = -1 if lower else 1

    def beats(one: Priced, other: Priced) -> bool:
        better = sign * ((one.quality.mean or 0) - (other.quality.mean or 0))
        cheaper = (other.price.mean or 0) - (one.price.mean or 0)
        return better >= 0 and cheaper >= 0 and (better > 0 or cheaper > 0)

    kept = [one for one in entries if not any(beats(other, one) for other in entries)]
    return sorted(kept, key=lambda one: one.price.mean or 0)


def _draw(figure: Any, main: Scored) -> None:
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
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8)


def _chance(one: Priced) -> str:
    return "" if one.on_front is None else f" (on front {one.on_front:.0%})"
