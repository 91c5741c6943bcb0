"""How far an import or an export is, on standard error."""

from __future__ import annotations

from typing import Any

from peira.core.clock import SystemClock
from peira.engine.progress import Progress
from peira.report.live import display
from peira.spec.project import Project


class Told:
    """Says now and then how many are done; nothing, where the project or the caller wants it so."""

    def __init__(self, study: str, wanted: bool | None, project: Project, total: int | None = None) -> None:
        self._display = display(study, False if wanted is None and project.progress == "none" else wanted)
        self._total, self._since = total, SystemClock().monotonic()

    def __enter__(self) -> Told:
        self._display.__enter__()
        return self

    def __exit__(self, *problem: Any) -> None:
        self._display.__exit__(*problem)

    def __call__(self, done: int, same: int = 0, failed: int = 0) -> None:
        elapsed = SystemClock().monotonic() - self._since
        self._display(Progress(self._total, done, same, failed, 0, 0, elapsed))
