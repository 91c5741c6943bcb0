"""Tables of large runs are made once: what a memory of them is asked, and what it keeps."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from peira.analysis.table import Table


@dataclass(frozen=True)
class Tabled:
    """A table as its trials give it, without what is said of the whole run; and what its anchors say."""

    table: Table
    drift: tuple[str, ...] = ()


@dataclass(frozen=True)
class Asked:
    """Which table of a run is meant."""

    by: tuple[str, ...]
    score: str | None
    level: float
    interval: str = ""
    across: str = ""


class Memory(Protocol):
    def table(self, asked: Asked, make: Callable[[], Tabled]) -> Tabled:
        """What `make` gives; an earlier answer if nothing that it depends on can have changed since."""
        ...
