"""How the answer settled as cases came in, with an interval that may be looked at at any time."""

from __future__ import annotations

from typing import Any

from peira.report.plots.plot import COLOURS, QUIET, Plot, plain
from peira.report.value import Convergence, Report


def convergence(report: Report) -> Plot | None:
    found, main = report.convergence, report.main
    if found is None or main is None:
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
    return Plot("convergence", title, alt, 2.7, lambda figure: _draw(figure, found, main.name))


def _draw(figure: Any, found: Convergence, score: str) -> None:
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
