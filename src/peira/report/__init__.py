"""Reports, plots, exports, telemetry and progress displays: what people look at.

A report is first built as a value (`build`), then written in the format that the file's suffix names. Formats
and plots are plug-ins of the kinds "report" and "plot", called with `results`, `path` and further options.
"""

from __future__ import annotations

from peira.core.registry import Registry

FORMS = ("html", "json", "md", "pdf", "tex")
"""The report formats, by file suffix."""
PLOTS = (
    *("calibration", "cases", "convergence", "forest"),
    *("half-normal", "interaction", "pareto", "sensitivity"),
)
"""The plots."""


def register(registry: Registry) -> None:
    """Register the report formats and plots lazily: their modules are imported on first use."""
    registry.promise("report", FORMS, "peira.report.writers.formats")
    registry.promise("plot", PLOTS, "peira.report.plots.files")
