"""OpenTelemetry tracing: spans of runs, attempts and calls, by the GenAI semantic conventions.

Imported lazily, only if telemetry is enabled.
"""

from __future__ import annotations

from peira.core.lazy import lazy_imports

with lazy_imports(__name__):
    from peira.report.telemetry.spans import OpenTelemetry as OpenTelemetry
    from peira.report.telemetry.spans import telling as telling
