"""Where results come from: the run, its plan, and the store that has them, for those who need more than
trials (exports with times and calls, reports)."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass

from peira.core.contracts import Store
from peira.core.rows import Run
from peira.plan.manifest import Manifest


@dataclass(frozen=True)
class Origin:
    """A run as stored. The store is open as long as the context that gave this."""

    store: Store
    run: Run
    manifest: Manifest


Reopen = Callable[[], AbstractContextManager[Origin]]
"""Opens the store for reading, and closes it again."""
