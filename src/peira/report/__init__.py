"""Reports, plots, exports, telemetry and progress displays: what people look at.

A report is first built as a value (`build`), then written in the format that the file's suffix names. Formats
and plots are plug-ins of the kinds "report" and "plot", called with `results`, `path` and further options.
"""

from __future__ import annotations

from peira.core.registry import Registry
from peira.report import exports

FORMS = ("html", "json", "md", "pdf", "tex")
"""The report formats, by file suffix."""
PLOTS = (
    *("calibration", "cases", "convergence", "costs", "distribution", "forest"),
    *("half-normal", "interaction", "pareto", "seconds", "sensitivity"),
)
"""The plots."""


def register(registry: Registry) -> None:
    """Register formats, plots and exports lazily: their modules are imported on first use."""
    registry.promise("report", FORMS, "peira.report.writers.formats")
    registry.promise("plot", PLOTS, "peira.report.plots.files")
    for module, names in exports.MODULES.items():
        registry.promise("export", names, f"{exports.__name__}.{module}")
