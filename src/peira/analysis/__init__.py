"""What results mean: statistics applied to what a run gave.

Its rooms are opened when something is first asked of them: most runs end without most of the mathematics.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from peira.analysis import (
        agreement,
        anova,
        background,
        biases,
        collect,
        compare,
        contrasts,
        corrected,
        drift,
        effects,
        export,
        exporting,
        games,
        hypotheses,
        labels,
        layout,
        means,
        mixed,
        money,
        origin,
        quantiles,
        ranking,
        ratings,
        ratio,
        reducing,
        reliability,
        remembering,
        sequential,
        slices,
        strata,
        surface,
        tournament,
    )

__all__ = [
    "agreement",
    "anova",
    "background",
    "biases",
    "collect",
    "compare",
    "contrasts",
    "corrected",
    "drift",
    "effects",
    "export",
    "exporting",
    "games",
    "hypotheses",
    "labels",
    "layout",
    "means",
    "mixed",
    "money",
    "origin",
    "quantiles",
    "ranking",
    "ratings",
    "ratio",
    "reducing",
    "reliability",
    "remembering",
    "sequential",
    "slices",
    "strata",
    "surface",
    "tournament",
]


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return import_module(f"{__name__}.{name}")
