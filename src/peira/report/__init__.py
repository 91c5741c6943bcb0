"""What people look at: reports, plots, and how far a run is.

A report is first a value (`build`), then written in the form that a file's ending names. Forms and plots are
plug-ins of the kinds "report" and "plot", made with `results`, `path` and what else their callers give.
"""

from __future__ import annotations

from peira.core.registry import Registry

FORMS = ("html", "json", "md", "pdf", "tex")
PLOTS = ("calibration", "cases", "convergence", "forest", "half-normal", "interaction", "pareto")


def register(registry: Registry) -> None:
    """Offer the forms and plots; their rooms are opened when one is asked for."""
    registry.promise("report", FORMS, "peira.report.writing")
    registry.promise("plot", PLOTS, "peira.report.drawing")
