"""Whether something drifted during the run: the anchors are one trial, run again and again.

Anchors come in the order in which they were run. A score that rises or falls along them more steadily than
chance would have it (Kendall's tau, exact where nothing is tied) has drifted.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from peira.analysis.trials import TrialResult, numbers

FEWEST = 4
"""With fewer anchors no order is rare enough to tell."""
ALPHA = 0.05


def drift(trials: Iterable[TrialResult]) -> list[str]:
    """A line for each score of the anchors; none if there are no anchors."""
    scores: dict[str, list[float]] = {}
    for trial in trials:
        if trial.anchor:
            for score in trial.scores.values():
                for name, value in numbers(score).items():
                    scores.setdefault(name, []).append(value)
    return list(_lines(scores))


def _lines(scores: dict[str, list[float]]) -> Iterator[str]:
    for name, values in scores.items():
        n = len(values)
        if n < FEWEST:
            yield f"drift of {name}: {n} anchors are too few to tell; take at least {FEWEST}"
        elif min(values) == max(values):
            yield f"drift of {name}: none seen; all {n} anchors scored {values[0]:g}"
        else:
            yield _trend(name, values)


def _trend(name: str, values: list[float]) -> str:
    from scipy.stats import kendalltau

    found = kendalltau(range(len(values)), values)
    said = f"{len(values)} anchors, Kendall's tau {found.statistic:.2f}, p = {found.pvalue:.3g}"
    if found.pvalue >= ALPHA:
        return f"drift of {name}: none seen ({said})"
    way = "rises" if found.statistic > 0 else "falls"
    return f"drift of {name}: it {way} during the run ({said}); compare only what was interleaved"
