"""What happens, told to OpenTelemetry: spans of runs, attempts and calls, by the GenAI conventions.

Its rooms are opened when that is wanted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from peira.core.door import open_late

if TYPE_CHECKING:
    from peira.report.telemetry.listening import telling
    from peira.report.telemetry.spans import OpenTelemetry

__all__ = ["OpenTelemetry", "telling"]

_ROOMS = {
    "peira.report.telemetry.listening": ("telling",),
    "peira.report.telemetry.spans": ("OpenTelemetry",),
}
open_late(__name__, _ROOMS)
